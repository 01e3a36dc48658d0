"""Exit codes, streams and errors of the command line as a whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import jsonschema
import pytest

from tests.support.command_line import Ran, fresh
from validator import __version__
from validator.cli import COMMANDS, command_line
from validator.cli import cli as group
from validator.errors import Problem, ValidatorError


@pytest.fixture(scope="module")
def cli() -> Callable:
    """An interpreter that starts with each command line: how it starts is what is tested here."""

    def run(*args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Ran:
        return fresh(args, cwd, env, 60)

    return run


def test_version(cli: Callable) -> None:
    for args in (("--version",), ("--version", "--version")):
        ran = cli(*args)
        assert (ran.code, ran.out, ran.err) == (0, f"validator {__version__}\n", "")


def test_version_imports_nothing() -> None:
    script = (
        "import sys; sys.argv = ['validator', '--version']\n"
        "import validator.__main__ as m\n"
        "m.main(); print(sorted(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "'validator'" in out
    for heavy in ("click", "validator.cli", "validator.errors", "argparse", "pydantic", "numpy", "rich", "git"):
        assert f"'{heavy}'" not in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(cli: Callable, command: str) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"Usage: validator {command}")
    assert ran.err == ""


def test_help_page(cli: Callable, golden: Callable) -> None:
    ran = cli("--help")
    assert ran.code == 0
    golden("help.txt", ran.out)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "Usage: validator"),
        (("chekc",), "did you mean 'check'?"),
        (("check",), "Missing option '--base'"),
        (("check", "--base", "a", "--head", "b", "--fromat", "json"), "No such option '--fromat'"),
        (("check", "--base", "a", "--head", "b", "--format", "yaml"), "'yaml' is not one of"),
        (("check", "--base", "a", "--head", "b", "--seed", "-1"), "--seed"),
        (("explain",), "Missing argument 'RULE'"),
        (("explain", "isolation/symlnk"), "did you mean 'isolation/symlink'?"),
        (("explain", "zzz"), "`validator rules` lists them"),
        (("schema", "chek"), "did you mean 'check'?"),
        (("verify", "nowhere"), "is no bundle"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_meant(cli: Callable, args: tuple[str, ...], said: str) -> None:
    ran = cli(*args)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_control_characters_of_the_command_line_are_shown(cli: Callable) -> None:
    ran = cli("schema", "\x1b[2J\u202e")
    assert ran.code == 2
    assert "\x1b" not in ran.err
    assert "\u202e" not in ran.err


def raising(error: BaseException) -> Callable[[], None]:
    @click.command()
    def check() -> None:
        raise error

    return check


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValidatorError(Problem("bad", "a.toml", "mend"), Problem("worse\x1b[0m")), 2, "error: a.toml: bad; mend\n"),
        (click.ClickException("no"), 2, "error: no"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (ZeroDivisionError("1\x1b"), 2, "internal error: ZeroDivisionError: 1\\x1b"),
        (BrokenPipeError(), 2, ""),
    ],
)
def test_what_happens_becomes_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    monkeypatch.delenv("VALIDATOR_DEBUG", raising=False)
    monkeypatch.setattr(group, "get_command", lambda ctx, name: raising(error))
    saved = os.dup(1)
    try:
        assert command_line(["check"]) == code
    finally:
        os.dup2(saved, 1)
    err = capfd.readouterr().err
    assert said in err
    assert "\x1b" not in err
    assert "Traceback" not in err


def test_all_problems_of_an_error_are_printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    problems = [Problem(f"mistake {n}") for n in range(10)]
    monkeypatch.setattr(group, "get_command", lambda ctx, name: raising(ValidatorError(*problems)))
    assert command_line(["check"]) == 2
    assert capfd.readouterr().err.count("error: mistake") == 10


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALIDATOR_DEBUG", "1")
    monkeypatch.setattr(group, "get_command", lambda ctx, name: raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        command_line(["check"])


@pytest.mark.parametrize(("args", "code"), [("--help", 2), ("rules", 0), ("schema check", 0)])
def test_a_reader_that_leaves_early_makes_no_noise(args: str, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "validator", *args.split()], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == code


def test_rules_are_listed_and_every_one_is_explained(cli: Callable) -> None:
    ran = cli("rules", "--format", "json")
    document = json.loads(ran.out)
    assert document["schema"] == "validator/rules/1"
    ids = [rule["id"] for rule in document["rules"]]
    assert ids == sorted(set(ids))
    assert {i.partition("/")[0] for i in ids} >= {"isolation"}
    assert all(not r["waivable"] for r in document["rules"] if r["id"].startswith("gate/"))
    from validator.rules import all_rules, page

    assert [r.id for r in all_rules()] == ids
    for rule in ids:
        text = page(rule)
        assert isinstance(text, str)
        assert len(text.splitlines()) > 4, f"{rule} has no page"


def test_explain_takes_a_finding_id_and_roles(cli: Callable) -> None:
    ran = cli("explain", "isolation/symlink:0123456789ab")
    assert ran.code == 0
    assert ran.out.startswith("isolation/symlink: ")
    ran = cli("explain", "roles")
    assert ran.code == 0
    from validator.manifest.contract import Role

    assert all(f"\n{role.value} " in ran.out for role in Role)


def test_schemas_are_listed_and_printed(cli: Callable) -> None:
    from validator.report.schemas import SCHEMAS

    listed = cli("schema")
    assert [line.split()[0] for line in listed.out.splitlines()] == list(SCHEMAS)
    for name in SCHEMAS:
        ran = cli("schema", name)
        assert ran.code == 0, ran.err
        jsonschema.Draft202012Validator.check_schema(json.loads(ran.out))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(cli: Callable, shell: str) -> None:
    ran = cli(env={"_VALIDATOR_COMPLETE": f"{shell}_source"})
    assert ran.code == 0, ran.err
    assert "_VALIDATOR_COMPLETE" in ran.out
    ran = cli(env={"_VALIDATOR_COMPLETE": "bash_complete", "COMP_WORDS": "validator ch", "COMP_CWORD": "1"})
    assert ran.out == "plain,check\n"


def test_init_writes_once_and_never_overwrites(cli: Callable, tmp_path: Path) -> None:
    ran = cli("init", "kda", cwd=tmp_path)
    assert ran.code == 0, ran.err
    policy, manifest = tmp_path / "policies/fast-track.toml", tmp_path / "rfcs/kda.toml"
    assert policy.is_file()
    from validator.manifest.load import load_manifest
    from validator.policy.load import load_policy

    load_policy({"policies/fast-track.toml": policy.read_bytes()})
    filled = manifest.read_text().replace("TODO", "Done")
    assert load_manifest(filled.encode(), "rfcs/kda.toml").id == "kda"
    manifest.write_text("mine")
    ran = cli("init", "kda", cwd=tmp_path)
    assert ran.code == 0
    assert "kept  rfcs/kda.toml" in ran.out
    assert manifest.read_text() == "mine"


@pytest.mark.parametrize("id_", ["../x", "UPPER", "a/b", "", "x" * 81])
def test_init_refuses_an_id_that_is_none(cli: Callable, tmp_path: Path, id_: str) -> None:
    ran = cli("init", id_, cwd=tmp_path)
    assert ran.code == 2
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_130_and_leaves_nothing(repo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The run is stopped inside a stage: no output file, no bundle, no traceback."""
    head = repo.write({"fast/kda/x.py": "x = 1\n"}, "kda")
    out, bundle = tmp_path / "out.json", tmp_path / "bundle"
    script = (
        "import sys, time\n"
        "import validator.pipeline as p\n"
        "def slow(entry, context):\n"
        "    print('running', file=sys.stderr, flush=True); time.sleep(600)\n"
        "p._run_one = slow\n"
        "from validator.cli import command_line\n"
        f"sys.exit(command_line(['check', '--base', 'main', '--head', {head!r}, '--output', {f'json={out}'!r},"
        f" '--bundle', {str(bundle)!r}]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=repo.path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "running\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out_text, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert out_text == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["repo"]


def test_init_says_when_a_folder_cannot_be_made(cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "policies").write_text("mine")
    ran = cli("init", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert "policies: the folder cannot be made" in ran.err
    assert [p.name for p in tmp_path.iterdir()] == ["policies"]


@pytest.mark.parametrize("args", ["--version", "--help", "rules", "explain gate/ci-edited"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_2_and_no_fault_of_validator(args: str) -> None:
    command = f"exec {sys.executable} -m validator {args} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize(("args", "code"), [("rules", 0), ("explain nothing", 2)])
def test_closed_streams_change_no_exit_code(closed: str, args: str, code: int) -> None:
    command = f"exec {sys.executable} -m validator {args} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    assert "internal error" not in done.stderr


def test_ctrl_c_while_modules_are_imported_is_130() -> None:
    script = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "sys.argv = ['validator', 'rules']\n"
        "from validator.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
