"""`validator audit`: the real command line on stored PTX and machine code."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from validator.binary.tools import INSTALL_HINT, Tools
from validator.cli.inputs import InputError, discover
from validator.manifest.load import load_contract

ROOT = Path(__file__).parents[2]
RULES = ROOT / "fixtures/ordering/rules"
GOOD = RULES / "early-read/good"
BAD = RULES / "early-read/bad"


@pytest.fixture
def tools() -> None:
    if Tools.find().nvdisasm is None:
        pytest.skip(f"no disassembler: {INSTALL_HINT}")


def ptx(folder: Path) -> str:
    return str(folder / "sm_90a.ptx")


def contract(folder: Path) -> tuple[str, str]:
    return "--contract", str(folder / "contract.toml")


def test_a_proven_kernel_passes(cli):
    done = cli("audit", ptx(GOOD), *contract(GOOD), cwd=ROOT)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("PASS: 1 kernel in 1 file: 1 proven\n")
    assert "'w' is fixed for the life of the loaded model" in done.out


def test_what_the_budget_leaves_is_unproven_and_said(cli):
    done = cli("audit", ptx(GOOD), *contract(GOOD), "--budget", "0s", cwd=ROOT)
    assert done.code == 1
    assert done.out.startswith("UNPROVEN: no kernel was examined")
    assert "not examined: the budget of 0 s was spent before its turn" in " ".join(done.out.split())
    done = cli("audit", ptx(GOOD), "--budget", "soon", cwd=ROOT)
    assert done.code == 2
    assert "'soon' is no duration" in done.err


def test_a_refuted_kernel_shows_parameter_role_line_path_and_fix(cli):
    done = cli("audit", ptx(BAD), *contract(BAD), cwd=ROOT)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("FAIL: 1 kernel in 1 file: 1 refuted\n")
    for part in ("'residual' (activation)", "kernel.cu:9", "      > enter residual_scale", "fix: move it below"):
        assert part in done.out
    assert "validator" not in done.err


@pytest.mark.sass
def test_folders_are_walked_and_both_forms_are_audited(cli):
    done = cli("audit", str(BAD), *contract(BAD), "--format", "json", cwd=ROOT)
    if any("validator[sass]" in s["fix"] for s in json.loads(done.out)["skipped"]):
        pytest.skip("no disassembler")
    document = json.loads(done.out)
    assert done.code == 1
    assert [(k["isa"], k["status"]) for k in document["kernels"]] == [("sass", "refuted"), ("ptx", "refuted")]
    assert document["environment"]["tools"]


def test_without_a_contract_nothing_early_is_proven(cli):
    done = cli("audit", ptx(BAD), cwd=ROOT)
    assert done.code == 1
    assert done.out.startswith("UNPROVEN: ")


def test_several_outputs_of_one_run_agree(cli, tmp_path):
    outputs = [f"{kind}={tmp_path / kind}" for kind in ("text", "json", "markdown", "sarif")]
    options = [part for output in outputs for part in ("--output", output)]
    done = cli("audit", ptx(BAD), *contract(BAD), *options, "-q", cwd=ROOT)
    assert (done.code, done.out) == (1, "fail: 1 kernel in 1 file: 1 refuted\n")
    document = json.loads((tmp_path / "json").read_text())
    schema = json.loads(cli("schema", "audit").out)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["verdict"] == "fail"
    (result,) = json.loads((tmp_path / "sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "order/early-read"
    assert result["partialFingerprints"]["primaryLocationLineHash"]
    assert (tmp_path / "text").read_text().startswith("FAIL")
    assert (tmp_path / "markdown").read_text().startswith("# ❌ fail")
    early = document["kernels"][0]["early"]
    assert [(e["param"]["index"], e["param"]["name"], e["role"], e["allowed"]) for e in early] == [
        (1, "residual", "activation", False),
        (3, "w", "weight", True),
    ]


@pytest.mark.parametrize("kind", ["text", "json", "markdown", "sarif"])
def test_a_format_never_changes_the_verdict_and_runs_are_the_same_twice(cli, kind):
    runs = [cli("audit", ptx(BAD), *contract(BAD), "--format", kind, cwd=ROOT) for _ in range(2)]
    assert [r.code for r in runs] == [1, 1]
    assert runs[0].out == runs[1].out
    assert str(ROOT) not in runs[0].out


def test_no_absolute_path_reaches_a_report(cli, tmp_path):
    shutil.copytree(BAD, tmp_path / "build")
    done = cli("audit", ptx(tmp_path / "build"), *contract(BAD), "--format", "json", cwd=ROOT)
    document = json.loads(done.out)
    assert document["kernels"][0]["artifact"] == "sm_90a.ptx"
    assert str(tmp_path) not in done.out


def test_mistakes_in_a_contract_come_all_at_once(cli, tmp_path):
    file = tmp_path / "contract.toml"
    file.write_text(
        'schema = "validator/manifest/1"\n[[kernels]]\nmatch = "k"\nlaunch = { pdl = "yes" }\n'
        '[[kernels.args]]\nnane = "x"\nrole = "weigth"\n'
    )
    done = cli("audit", ptx(GOOD), "--contract", str(file), cwd=ROOT)
    assert (done.code, done.out) == (2, "")
    for part in (f"{file}:6: ", "unknown key `nane`", "did you mean `name`?", "did you mean 'weight'?"):
        assert part in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "PATH"),
        (("absent-1", "absent-2"), "absent-2: there is no such file or folder"),
        (("fixtures/ordering/rules/early-read/bad/sm_90a.ptx", "--contract", "absent.toml"), "absent.toml"),
        (("fixtures/ordering/rules/early-read/bad/sm_90a.ptx", "--against", "pyproject.toml"), "is not JSON"),
        (("fixtures/ordering/rules/early-read/bad/sm_90a.ptx", "--format", "jsn"), "json"),
        (("fixtures/ordering/rules/early-read/bad/sm_90a.ptx", "--output", "jsn=x"), "did you mean 'json'?"),
        (("docs-that-are-not-there", "--jobs", "0"), "--jobs"),
    ],
)
def test_what_cannot_run_says_why(cli, args, said):
    done = cli("audit", *args, cwd=ROOT)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_broken_and_empty_files_are_never_a_pass(cli, tmp_path):
    whole = (GOOD / "sm_90a.ptx").read_text()
    (tmp_path / "cut.ptx").write_text(whole[: len(whole) // 2])
    (tmp_path / "empty.ptx").write_text("")
    (tmp_path / "noise.cubin").write_bytes(b"\x7fELF" + bytes(range(256)))
    shutil.copy(GOOD / "sm_90a.ptx", tmp_path / "good.ptx")
    done = cli("audit", str(tmp_path), *contract(GOOD), "--format", "json")
    document = json.loads(done.out)
    assert done.code == 1
    assert document["verdict"] == "unproven"
    assert [k["status"] for k in document["kernels"]] == ["proven"]
    assert len(document["skipped"]) == 3
    assert all(s["reason"] for s in document["skipped"])
    assert not [s for s in document["skipped"] if s["artifact"] in s["reason"]], "it is named once"


def test_only_the_kernels_asked_for(cli):
    step = ROOT / "fixtures/ordering/patterns/older-activation-in-step"
    done = cli("audit", ptx(step), *contract(step), "--kernel", "proj*", "--format", "json", cwd=ROOT)
    assert [k["name"] for k in json.loads(done.out)["kernels"]] == ["project"]
    none = cli("audit", ptx(step), *contract(step), "--kernel", "nothing", cwd=ROOT)
    assert none.code == 1
    assert none.out.startswith("UNPROVEN: no kernel was examined")


def test_the_contract_skeleton_is_a_contract_that_proves_nothing(cli, tmp_path):
    done = cli("audit", ptx(BAD), "--init-contract", cwd=ROOT)
    assert (done.code, done.err) == (0, "")
    kernels, _ = load_contract(done.out.encode(), "skeleton.toml")
    assert [(k.match, len(k.args)) for k in kernels] == [("residual_scale", 5)]
    assert "# EARLY read by ld.global.f32 at" in done.out
    file = tmp_path / "contract.toml"
    file.write_text(done.out)
    again = cli("audit", ptx(BAD), "--contract", str(file), cwd=ROOT)
    assert again.code == 1
    assert again.out.startswith("UNPROVEN")


@pytest.mark.sass
@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("hoisted-load", "good", "bad", ("refuted now", "new early: ", "more early read of")),
        ("hoisted-load", "bad", "good", ("refuted before", "gone early: ", "fewer early read of")),
        ("lost-prefetch", "good", "bad", ("lost prefetch: ", "fewer early read of")),
    ],
)
def test_drift_between_two_builds_of_a_kernel(cli, tools, tmp_path, name, old, new, said):
    files = {}
    for build in (old, new):
        (tmp_path / build).mkdir()
        files[build] = str(shutil.copy(RULES / name / build / "sm_90a.cubin", tmp_path / build / "kernel.cubin"))
    asked = contract(RULES / name / "good")
    earlier = tmp_path / "old.json"
    earlier.write_text(cli("audit", files[old], *asked, "--format", "json", cwd=ROOT).out)
    drift = cli("audit", files[new], *asked, "--against", str(earlier), cwd=ROOT).out.partition("since the earlier")[2]
    for part in said:
        assert part in " ".join(drift.split())
    assert "vanished" not in drift


@pytest.mark.sass
@pytest.mark.nvcc
@pytest.mark.slow
def test_drift_of_a_toolchain_flag(cli, tools, tmp_path):
    """One source, two levels of the machine-code compiler: the higher one moves `.nc` loads above the wait."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    folder = ROOT / "fixtures/ordering/patterns/bad-nc-hoisted"
    said = []
    for level in ("0", "3"):
        out = tmp_path / level / "kernel.cubin"
        out.parent.mkdir()
        flags = ["-std=c++17", "-O3", "-cubin", "-arch=sm_90a", f"-I{ROOT / 'fixtures/ordering'}"]
        command = ["nvcc", *flags, f"-Xptxas=-O{level}", "-o", str(out), str(folder / "kernel.cu")]
        subprocess.run(command, check=True, capture_output=True, timeout=200)
        against = ("--against", str(tmp_path / "0.json")) if said else ()
        said.append(cli("audit", str(out), *contract(folder), *against, "--format", "json", cwd=ROOT).out)
        (tmp_path / f"{level}.json").write_text(said[-1])
    drift = json.loads(said[1])["drift"]
    assert drift["status"] == ["gated_scale (sass, sm_90a): proven before, refuted now"]
    assert drift["new_early"] == ["gated_scale (sass, sm_90a): 2 more early read of x"]
    assert not drift["appeared"]


def test_against_an_earlier_audit(cli, tmp_path):
    old = tmp_path / "old.json"
    assert cli("audit", ptx(GOOD), *contract(GOOD), "-q", "--output", f"json={old}", cwd=ROOT).code == 0
    same = cli("audit", ptx(GOOD), *contract(GOOD), "--against", str(old), cwd=ROOT)
    assert same.code == 0
    assert "since the earlier audit  0 differences" in same.out
    worse = cli("audit", ptx(BAD), *contract(BAD), "--against", str(old), cwd=ROOT)
    assert worse.code == 1
    assert "new early: residual_scale (ptx, sm_90a): 1 more early read of residual" in worse.out
    assert "status: residual_scale (ptx, sm_90a): proven before, refuted now" in worse.out


def test_hostile_file_names_are_escaped(cli, tmp_path):
    name = "k\x1b]0;owned\x07\u202e.ptx"
    shutil.copy(BAD / "sm_90a.ptx", tmp_path / name)
    for kind in ("text", "markdown", "json", "sarif"):
        done = cli("audit", str(tmp_path), *contract(BAD), "--format", kind)
        assert done.code == 1
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err


def test_colour_only_when_it_is_asked_for(cli):
    assert "\x1b[" not in cli("audit", ptx(BAD), cwd=ROOT).out
    assert "\x1b[" in cli("audit", ptx(BAD), cwd=ROOT, env={"FORCE_COLOR": "1"}).out
    assert "\x1b[" not in cli("audit", ptx(BAD), cwd=ROOT, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out


# Which files a command line means.


def test_a_folder_is_searched_by_kind_and_links_to_folders_are_not_followed(tmp_path, monkeypatch):
    for name in ("b/k.ptx", "a.cubin", "lib.so.1", "notes.txt", "b/w.whl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert [f.name for f in discover(["."])] == ["a.cubin", "b/k.ptx", "b/w.whl", "lib.so.1"]
    assert [f.name for f in discover(["notes.txt", "notes.txt", "./notes.txt"])] == ["notes.txt"]


def test_names_are_relative_and_unique_wherever_the_files_lie(tmp_path, monkeypatch):
    for name in ("one/k.ptx", "two/k.ptx", "here/k.ptx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path / "here")
    names = [f.name for f in discover(["k.ptx", str(tmp_path / "one"), str(tmp_path / "two/k.ptx")])]
    assert len(set(names)) == 3
    assert not any(n.startswith("/") or ".." in n for n in names)
    assert "k.ptx" in names


def test_every_path_that_cannot_be_audited_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        discover([str(tmp_path / "absent"), str(tmp_path / "empty"), "/dev/null"])
    assert [p.what for p in caught.value.problems] == [
        "there is no such file or folder",
        "holds nothing to audit",
        "is neither a file nor a folder",
    ]
