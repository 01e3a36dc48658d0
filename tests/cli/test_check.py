"""`validator check` on real repositories: bad input, hostile names, outputs, bundles."""

from __future__ import annotations

import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from validator.report.schemas import schema_of
from validator.verdict.bundle import verify_bundle

Manifest = Callable[..., str]


def check(cli: Callable, repo: Any, *args: str, base: str = "main", head: str = "kda") -> Any:
    return cli("check", "--repo", str(repo.path), "--base", base, "--head", head, "--seed", "1", *args)


def document(ran: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    jsonschema.validate(found, schema_of("check"))
    return found


@pytest.fixture
def plain(repo: Any, manifest: Manifest) -> Any:
    """A change that brings no kernel and stays inside its own folder."""
    repo.write({"rfcs/kda.toml": manifest(), "fast/kda/model.py": "def f():\n    return 1\n"}, "kda")
    return repo


# --- the way through -------------------------------------------------------------------------------------------------


def test_every_format_tells_the_same(cli: Callable, plain: Any, tmp_path: Path) -> None:
    outputs = [f"--output={kind}={tmp_path / kind}" for kind in ("text", "json", "markdown")]
    ran = check(cli, plain, "--format", "json", *outputs)
    found = document(ran)
    assert ran.code == (0 if found["verdict"] == "pass" else 1)
    assert ran.err == ""
    written = json.loads((tmp_path / "json").read_text())
    assert {**written, "environment": None} == {**found, "environment": None}
    assert (tmp_path / "text").read_text().startswith(found["verdict"].upper())
    assert found["verdict"] in (tmp_path / "markdown").read_text().splitlines()[1]
    assert stat.S_IMODE((tmp_path / "json").stat().st_mode) == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_commits_are_resolved_and_everything_is_accounted_for(cli: Callable, plain: Any) -> None:
    found = document(check(cli, plain, "--format", "json"))
    change = found["change"]
    assert change["head"] == plain.git("rev-parse", "kda")
    assert change["base"] == change["merge_base"] == plain.git("rev-parse", "main")
    assert [f["path"] for f in change["files"]] == ["fast/kda/model.py", "rfcs/kda.toml"]
    families = {o["id"].partition("/")[0] for o in found["obligations"]}
    assert families == {"gate", "isolation", "scope", "ordering", "differential"}
    ids = {e["id"] for e in found["evidence"]}
    assert all(set(o["evidence"]) <= ids for o in found["obligations"])
    known = {f["id"] for f in found["findings"]}
    assert all(set(o["findings"]) <= known for o in found["obligations"])
    assert all(o["reason"] for o in found["obligations"] if o["status"] not in ("proven",))


def test_two_runs_differ_in_the_environment_only(cli: Callable, plain: Any) -> None:
    one, two = (document(check(cli, plain, "--format", "json")) for _ in range(2))
    assert {**one, "environment": None} == {**two, "environment": None}
    assert str(plain.path) not in json.dumps({**one, "environment": None})


def test_reproduce_line_reproduces(cli: Callable, plain: Any) -> None:
    one = document(check(cli, plain, "--format", "json"))
    words = one["reproduce"].split()
    assert words[:2] == ["validator", "check"]
    two = document(cli(*words[1:], "--format", "json", cwd=plain.path))
    for key in ("verdict", "obligations", "evidence", "findings", "seed"):
        assert one[key] == two[key]


def test_text_report(cli: Callable, plain: Any, golden: Callable, scrub: Callable) -> None:
    golden("check-plain.txt", scrub(check(cli, plain).out))


def test_quiet_prints_the_verdict_alone(cli: Callable, plain: Any) -> None:
    ran = check(cli, plain, "--quiet")
    assert re.fullmatch(r"(pass|fail|unproven): .*\n", ran.out)
    assert ran.err == ""


def test_a_bundle_verifies_and_names_its_verdict(cli: Callable, plain: Any, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    ran = check(cli, plain, "--bundle", str(bundle), "--format", "json")
    assert verify_bundle(bundle) == ()
    listed = json.loads((bundle / "bundle.json").read_text())
    jsonschema.validate(listed, schema_of("bundle"))
    assert listed["verdict"] == document(ran)["verdict"]
    result = json.loads((bundle / "result.json").read_text())
    environment = json.loads((bundle / "environment.json").read_text())
    jsonschema.validate({**result, "environment": environment}, schema_of("check"))
    texts = [p.read_text() for p in bundle.rglob("*") if p.is_file() and p.name != "environment.json"]
    assert not any(str(plain.path) in text for text in texts)
    assert (bundle / "summary.md").read_text().startswith("<!-- validator:check -->")
    assert cli("verify", str(bundle)).code == 0
    (bundle / "result.json").write_text("{}")
    touched = cli("verify", str(bundle))
    assert touched.code == 1
    assert "result.json: was changed" in touched.out


def test_a_change_that_edits_its_own_policy_fails_and_nothing_waives_it(
    cli: Callable, repo: Any, manifest: Manifest
) -> None:
    edited = repo.path / "policies/policy.toml"
    repo.write({"rfcs/kda.toml": manifest(), "policies/policy.toml": edited.read_text() + "\n# looser\n"}, "kda")
    found = document(check(cli, repo, "--format", "json"))
    finding = next(f for f in found["findings"] if f["rule"] == "gate/policy-edited")
    assert found["verdict"] == "fail"
    repo.git("checkout", "-q", "main")
    base = repo.write({"policies/waivers/w.toml": waiver(finding["id"])})
    repo.git("checkout", "-q", "kda")
    repo.git("merge", "-q", "-m", "m", base)
    again = document(check(cli, repo, "--format", "json"))
    assert again["verdict"] == "fail"
    assert [w["applied"] for w in again["waivers"]] == [False]


def test_a_waiver_of_the_base_covers_its_finding_alone(cli: Callable, repo: Any, manifest: Manifest) -> None:
    files = {"rfcs/kda.toml": manifest(), "fast/kda/blob.py": b"\0\1", "fast/kda/other.py": b"\0\2"}
    repo.write(files, "kda")
    before = document(check(cli, repo, "--format", "json"))
    wanted = {f["where"]["path"]: f["id"] for f in before["findings"] if f["rule"] == "isolation/binary-file"}
    assert set(wanted) == {"fast/kda/blob.py", "fast/kda/other.py"}
    for path, text in (("a", waiver(wanted["fast/kda/blob.py"])), ("b", waiver(wanted["fast/kda/other.py"]))):
        repo.git("checkout", "-q", "main")
        base = repo.write({f"policies/waivers/{path}.toml": text})
        repo.git("checkout", "-q", "kda")
        repo.git("merge", "-q", "-m", "m", base)
        found = document(check(cli, repo, "--format", "json"))
        status = {o["id"]: o["status"] for o in found["obligations"]}["isolation/content"]
        assert status == {"a": "refuted", "b": "waived"}[path]
    assert sorted(f["status"] for f in found["findings"] if f["id"] in wanted.values()) == ["waived", "waived"]


def waiver(finding: str) -> str:
    from datetime import UTC, datetime, timedelta

    today = datetime.now(UTC).date()
    return f"""\
schema = "validator/waivers/1"

[[waivers]]
finding = "{finding}"
owner = "@ann"
reason = "accepted while the trial lasts"
link = "https://tracker.example/1"
created = {today - timedelta(days=1)}
expires = {today + timedelta(days=30)}
"""


# --- bad input: exit 2, everything said, nothing written --------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--repo", "/nowhere/at/all"], ["no such folder"]),
        (["--base", "nope", "--head", "neither"], ["base nope", "head neither"]),
        (["--base", "--upload-pack=x"], ["not a revision's name"]),
        (["--rfc", "rfcs/kdb.toml"], ["no such file in the head", "did you mean rfcs/kda.toml?"]),
        (["--policies", "nowhere"], ["--policies nowhere"]),
        (["--policies", "/nowhere/at/all"], ["--policies /nowhere/at/all: is neither a folder nor a revision"]),
        (["--output", "jsn=x"], ["there is no format 'jsn'", "did you mean 'json'?"]),
        (["--output", "json"], ["is not FORMAT=PATH"]),
        (["--output", "json=/nowhere/x.json"], ["there is no such folder", "mkdir -p"]),
        (["--output", "json=.", "--output", "yaml=x"], ["is a folder", "there is no format 'yaml'"]),
        (["--output", "json=same", "--output", "text=same"], ["is named twice"]),
        (["--bundle", "/dev/null"], ["is not a folder"]),
    ],
)
def test_bad_input_is_2_and_says_everything(
    cli: Callable, plain: Any, tmp_path: Path, args: list[str], said: list[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    given = ["--repo", str(plain.path), "--base", "main", "--head", "kda", *args]
    ran = cli("check", *given, cwd=here)
    assert ran.code == 2, ran.out
    assert all(text in ran.err for text in said), ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert list(here.iterdir()) == []


def test_not_a_repository(cli: Callable, tmp_path: Path) -> None:
    ran = cli("check", "--base", "a", "--head", "b", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert "not a git repository" in ran.err


def test_no_policy_at_the_base(cli: Callable, repo: Any) -> None:
    repo.git("checkout", "-q", "--orphan", "bare")
    repo.git("rm", "-rfq", ".")
    base = repo.write({"x": "1"})
    ran = check(cli, repo, base=base, head=repo.write({"x": "2"}))
    assert ran.code == 2
    assert "no policy at the base revision" in ran.err
    assert "validator init" in ran.err


def test_no_common_commit(cli: Callable, repo: Any) -> None:
    repo.git("checkout", "-q", "--orphan", "other")
    repo.write({"x": "1"})
    ran = check(cli, repo, head="other")
    assert ran.code == 2
    assert "no merge base" in ran.err


def test_a_policy_with_mistakes_is_2_with_all_of_them(cli: Callable, repo: Any) -> None:
    repo.git("checkout", "-q", "main")
    repo.write({"policies/policy.toml": 'schema = "validator/policy/1"\nnmae = "x"\n[ordering]\nrequired = 3\n'})
    ran = check(cli, repo, head=repo.write({"x": "2"}, "kda"))
    assert ran.code == 2
    assert "nmae" in ran.err
    assert "required" in ran.err
    assert "policies/policy.toml:2" in ran.err


@pytest.mark.parametrize("text", ["not toml [", 'schema = "validator/manifest/1"\nid = 3\nbogus = 1\n', "\0\1\2", ""])
def test_a_manifest_that_cannot_be_read_is_a_finding(cli: Callable, repo: Any, text: str) -> None:
    repo.write({"rfcs/kda.toml": text}, "kda")
    ran = check(cli, repo, "--format", "json")
    found = document(ran)
    assert ran.code == 1
    assert found["verdict"] in ("fail", "unproven")
    assert found["manifest"]["declared"] is None
    assert any(f["rule"] == "scope/manifest-invalid" for f in found["findings"])
    assert all(o["status"] != "proven" for o in found["obligations"] if o["id"].startswith("ordering"))


def test_no_manifest_is_a_finding(cli: Callable, repo: Any) -> None:
    repo.write({"stock/decode.py": "x = 1\n"}, "kda")
    found = document(check(cli, repo, "--format", "json"))
    assert found["manifest"] is None
    assert any(f["rule"] == "scope/manifest-missing" for f in found["findings"])
    assert found["verdict"] == "fail"


def test_a_change_of_nothing_never_passes(cli: Callable, repo: Any) -> None:
    repo.git("checkout", "-q", "-B", "kda")
    ran = check(cli, repo)
    assert ran.code == 1


def test_policies_from_a_revision_and_a_folder(cli: Callable, plain: Any, tmp_path: Path) -> None:
    plain.git("checkout", "-q", "-B", "strict", "main")
    plain.write({"policies/policy.toml": 'schema = "validator/policy/1"\nname = "strict"\n'})
    found = document(check(cli, plain, "--policies", "strict", "--format", "json"))
    assert found["policy"]["name"] == "strict"
    folder = tmp_path / "trusted"
    (folder / "policies").mkdir(parents=True)
    (folder / "policies/p.toml").write_text('schema = "validator/policy/1"\nname = "outside"\n')
    for given in (folder, folder / "policies"):
        found = document(check(cli, plain, "--policies", str(given), "--format", "json"))
        assert found["policy"]["name"] == "outside"
        assert str(tmp_path) not in found["policy"]["source"]


def test_a_policies_name_with_two_meanings_is_an_error(cli: Callable, plain: Any) -> None:
    plain.git("branch", "policies", "main")
    ran = cli("check", "--base", "main", "--head", "kda", "--policies", "policies", cwd=plain.path)
    assert ran.code == 2
    assert "both a revision and a folder" in ran.err


def test_no_report_is_left_half_written(cli: Callable, plain: Any, tmp_path: Path) -> None:
    """The second target cannot be written, which only shows when it is tried: the first must not appear either."""
    ran = check(cli, plain, "--output", f"json={tmp_path / 'a.json'}", "--output", "text=/proc/self/fdinfo/b.txt")
    assert ran.code == 2
    assert "cannot be written" in ran.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["repo"]


def test_an_empty_policies_option_does_not_make_the_working_folder_the_judge(cli: Callable, plain: Any) -> None:
    """`--policies "$POLICIES"` with the variable unset, in a checkout of the head."""
    ran = cli("check", "--base", "main", "--head", "kda", "--policies", "", cwd=plain.path)
    assert (ran.code, ran.out) == (2, "")
    assert "--policies: is empty" in ran.err


@pytest.mark.parametrize("option", ["--journal", "--bundle", "--repo", "--rfc", "--part"])
def test_an_option_left_empty_by_a_script_is_refused(cli: Callable, plain: Any, option: str) -> None:
    """`--journal "$JOURNAL"` in a checkout of the head would take up the results that the head brings."""
    before = sorted(plain.path.iterdir())
    ran = cli("check", "--base", "main", "--head", "kda", option, "", cwd=plain.path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {option}: is empty; name a place, or leave the option out\n"
    assert sorted(plain.path.iterdir()) == before


def test_an_empty_cache_is_none(cli: Callable, plain: Any) -> None:
    assert cli("check", "--base", "main", "--head", "kda", "--cache", "", cwd=plain.path).code == 0


@pytest.mark.parametrize("inside", ["", "/folder"])
def test_a_cache_that_cannot_be_used_is_told_and_changes_nothing(
    cli: Callable, plain: Any, tmp_path: Path, inside: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = str(tmp_path / f"file{inside}")
    ran = cli("check", "--base", "main", "--head", "kda", "--quiet", "--cache", cache, cwd=plain.path)
    why = "Not a directory" if inside else "File exists"
    assert (
        ran.err
        == f"note: --cache {cache} cannot be used ({why}): nothing is kept there, and nothing is taken from there\n"
    )
    assert (ran.code, (tmp_path / "file").read_text()) == (0, "no folder")
    ran = cli("check", "--base", "main", "--head", "kda", "--quiet", "--cache", str(tmp_path / "new"), cwd=plain.path)
    assert (ran.code, ran.err) == (0, "")


def test_a_partial_clone_that_lacks_unchanged_files_does_not_pass(cli: Callable, plain: Any) -> None:
    """A sparse, partial checkout holds every changed file, and not those that may reach into them."""
    blob = plain.git("rev-parse", "main:stock/decode.py")
    (plain.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    ran = cli("check", "--base", "main", "--head", "kda", cwd=plain.path)
    assert (ran.code, ran.out.split()[0]) == (1, "UNPROVEN:")
    assert "stock/decode.py: its content is not in the repository; this clone is partial" in ran.out


# --- hostile input ----------------------------------------------------------------------------------------------------

HOSTILE = [
    b"fast/kda/new\nline.py",
    b"fast/kda/\x1b[2J\x1b]0;pwned\x07.py",
    b"fast/kda/\xff\xfe.py",
    "fast/kda/\u202egnp.py".encode(),
    b"fast/kda/![x](https:evil.example)`|a|b|.py",
    b"fast/kda/<img src=x>@everyone #1.py",
    b"fast/kda/\"quote'.py",
    b"fast/kda/--output=x",
]


def test_hostile_paths_do_nothing_in_any_format(cli: Callable, repo: Any, manifest: Manifest, tmp_path: Path) -> None:
    repo.write({"rfcs/kda.toml": manifest(), **dict.fromkeys(HOSTILE, b"\x00binary")}, "kda")
    md = tmp_path / "out.md"
    ran = check(cli, repo, "--output", f"markdown={md}")
    assert ran.code == 1
    assert "Traceback" not in ran.err
    for text in (ran.out, ran.err, md.read_text()):
        assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"} for c in text)
    outside_code = re.sub(r"`[^`\n]*`", "", md.read_text())
    assert not re.search(r"<img|!\[x\]|@everyone", outside_code)
    found = document(check(cli, repo, "--format", "json"))
    assert len(found["change"]["files"]) == len(HOSTILE) + 1
    assert len([f for f in found["findings"] if f["rule"] == "isolation/binary-file"]) == len(HOSTILE)


@pytest.mark.parametrize("paths", ['["**"]', '["fast/kda/**", "stock/*.py"]', '["**/*"]'])
def test_a_manifest_cannot_make_the_bases_files_its_own(
    cli: Callable, repo: Any, manifest: Manifest, paths: str
) -> None:
    files = {"rfcs/kda.toml": manifest(paths=paths), "fast/kda/x.py": "x = 1\n"}
    repo.write({**files, "stock/decode.py": "def decode():\n    return 7\n"}, "kda")
    found = document(check(cli, repo, "--format", "json"))
    assert found["verdict"] == "fail"
    (said,) = (f for f in found["findings"] if f["rule"] == "isolation/path-not-isolated")
    assert said["where"]["path"] == "stock/decode.py"
    assert any(f["rule"] == "isolation/default-path-changed" for f in found["findings"])


def test_what_the_same_manifest_declared_at_the_base_stays_its_own(
    cli: Callable, plain: Any, manifest: Manifest
) -> None:
    plain.write({"rfcs/kda.toml": manifest(more="# again"), "fast/kda/model.py": "def f():\n    return 2\n"}, "next")
    found = document(check(cli, plain, "--format", "json", base="kda", head="next"))
    assert not [f for f in found["findings"] if f["rule"] == "isolation/path-not-isolated"]


def test_configuration_that_wants_to_run_programs_runs_none(cli: Callable, plain: Any, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand", "diff.x.textconv"):
        plain.git("config", key, str(script))
    (plain.path / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("post-checkout", "pre-commit", "reference-transaction"):
        path = plain.path / ".git/hooks" / hook
        path.write_text(script.read_text())
        path.chmod(0o755)
    plain.git("config", "core.attributesFile", str(tmp_path / "attributes"))
    (tmp_path / "attributes").write_text("* diff=x\n")
    trap.unlink(missing_ok=True)
    document(check(cli, plain, "--format", "json"))
    assert not trap.exists()


def test_kernel_code_without_declared_kernels_is_unproven(cli: Callable, repo: Any, manifest: Manifest) -> None:
    repo.write({"rfcs/kda.toml": manifest(), "fast/kda/k.py": "import triton\n"}, "kda")
    found = document(check(cli, repo, "--format", "json"))
    status = {o["id"]: o for o in found["obligations"]}["ordering"]
    assert status["status"] == "unproven"
    assert "fast/kda/k.py" in status["reason"]


def test_nothing_is_left_in_the_repository_or_the_temporary_folder(cli: Callable, plain: Any, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = sorted(p for p in plain.path.rglob("*"))
    ran = cli("check", "--repo", str(plain.path), "--base", "main", "--head", "kda", env={"TMPDIR": str(temporary)})
    assert ran.code in (0, 1)
    assert list(temporary.iterdir()) == []
    assert sorted(p for p in plain.path.rglob("*")) == before


# --- shapes of repositories -------------------------------------------------------------------------------------------


def test_bare_repository_worktree_and_clone_agree(cli: Callable, plain: Any, tmp_path: Path) -> None:
    plain.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    plain.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"), "main")
    documents = []
    for place in (plain.path, tmp_path / "bare.git", tmp_path / "tree"):
        ran = cli("check", "--repo", str(place), "--base", "main", "--head", "kda", "--seed", "1", "--format", "json")
        documents.append({**document(ran), "environment": None})
    assert documents[0] == documents[1] == documents[2]


def test_a_shallow_clone_says_what_it_could_not_see(cli: Callable, plain: Any, tmp_path: Path) -> None:
    source = f"file://{plain.path}"
    plain.git("clone", "-q", "--depth", "1", "--branch", "kda", "--no-single-branch", source, str(tmp_path / "shallow"))
    ran = cli("check", "--repo", str(tmp_path / "shallow"), "--base", "origin/main", "--head", "kda")
    assert ran.code == 2
    assert "the clone is shallow" in ran.err
    assert "git fetch" in ran.err


def test_a_first_commit_is_judged_by_a_policy_from_elsewhere(
    cli: Callable, repo: Any, manifest: Manifest, tmp_path: Path
) -> None:
    repo.git("checkout", "-q", "--orphan", "fresh")
    repo.git("rm", "-rfq", ".")
    repo.write({"rfcs/kda.toml": manifest(), "fast/kda/x.py": "x = 1\n"})
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "p.toml").write_text('schema = "validator/policy/1"\n')
    ran = check(cli, repo, "--policies", str(folder), "--format", "json", base="empty", head="fresh")
    found = document(ran)
    assert [f["status"] for f in found["change"]["files"]] == ["A", "A"]
    assert any("no base revision" in text for text in found["not_covered"])


def test_every_mistake_of_a_manifest_is_reported_with_its_line(cli: Callable, repo: Any, manifest: Manifest) -> None:
    text = manifest()
    for right, wrong in (
        ('title = "Fused decode step"', "title = 7"),
        ("owners =", "ownres ="),
        ("batch = { min = 1, max = 8 }", "batch = { min = 9, max = 8 }"),
        ('default = "0"', 'default = "1"'),
        ('kind = "env"', 'kind = "evn"'),
    ):
        assert right in text
        text = text.replace(right, wrong)
    repo.write({"rfcs/kda.toml": text}, "kda")
    found = document(check(cli, repo, "--format", "json"))
    said = [f for f in found["findings"] if f["rule"] == "scope/manifest-invalid"]
    words = " ".join(f["message"] + f["fix"] for f in said)
    assert all(word in words for word in ("title", "ownres", "owners", "batch", "kind"))
    assert {f["where"]["path"] for f in said} == {"rfcs/kda.toml"}
    lines = {f["where"]["line"] for f in said}
    assert text[: text.index("ownres")].count("\n") + 1 in lines
