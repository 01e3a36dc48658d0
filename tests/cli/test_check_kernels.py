"""The whole path on compiled kernels: a real repository whose change brings PTX and cubins, to a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures/ordering/rules"
POLICY = """\
schema = "validator/policy/1"
obligations = ["gate", "isolation", "scope", "ordering"]

[isolation]
binary = ["fast/**/*.cubin"]
"""


def build(repo: Any, manifest: Callable[..., str], source: Path, suffixes: tuple[str, ...]) -> list[str]:
    """A change that brings the compiled files of a fixture; returns the architectures it is for."""
    contract = (source / "contract.toml").read_text().partition("\n")[2]
    files = sorted(p for p in source.iterdir() if p.suffix in suffixes)
    archs = sorted({p.stem for p in files})
    artifacts = "".join(f'\n[[artifacts]]\npath = "fast/kda/{p.name}"\n' for p in files)
    text = manifest(more=artifacts + contract).replace('["sm_100a"]', json.dumps(archs))
    repo.git("checkout", "-q", "main")
    repo.write({"policies/policy.toml": POLICY})
    repo.write({"rfcs/kda.toml": text, **{f"fast/kda/{p.name}": p.read_bytes() for p in files}}, "kda")
    return archs


def check(cli: Callable, repo: Any) -> tuple[int, dict[str, Any]]:
    ran = cli("check", "--base", "main", "--head", "kda", "--format", "json", "--seed", "1", cwd=repo.path)
    assert ran.err == ""
    return ran.code, json.loads(ran.out)


def ordering(found: dict[str, Any]) -> dict[str, str]:
    return {o["id"]: o["status"] for o in found["obligations"] if o["id"].startswith("ordering/")}


@pytest.mark.sass
@pytest.mark.parametrize("rule", ["early-read", "early-write", "no-wait"])
def test_good_kernels_pass_and_bad_ones_fail_by_their_rule(
    cli: Callable, repo: Any, manifest: Callable[..., str], rule: str
) -> None:
    archs = build(repo, manifest, FIXTURES / rule / "good", (".ptx", ".cubin"))
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (0, "pass"), ordering(found)
    assert set(ordering(found).values()) == {"proven"}
    kernel = next(o for o in found["obligations"] if o["id"].startswith("ordering/") and "all" not in o["id"])
    assert kernel["strength"] == "proof-on-machine-code"
    examined = {(e["figures"]["isa"], e["figures"]["arch"]) for e in found["evidence"] if "isa" in e["figures"]}
    assert examined == {(isa, arch) for isa in ("ptx", "sass") for arch in archs}
    repo.git("checkout", "-q", "main")
    repo.git("branch", "-D", "kda")
    build(repo, manifest, FIXTURES / rule / "bad", (".ptx", ".cubin"))
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (1, "fail")
    assert f"order/{rule}" in {f["rule"] for f in found["findings"]}
    assert "refuted" in ordering(found).values()


@pytest.mark.sass
def test_a_load_that_ptxas_left_in_place_is_a_warning_and_one_that_nobody_saw_is_not(
    cli: Callable, repo: Any, manifest: Callable[..., str]
) -> None:
    build(repo, manifest, FIXTURES / "movable-load/bad", (".ptx", ".cubin"))
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (0, "pass")
    assert {f["severity"] for f in found["findings"] if f["rule"] == "order/movable-load"} == {"warning"}
    repo.git("checkout", "-q", "main")
    repo.git("branch", "-D", "kda")
    build(repo, manifest, FIXTURES / "movable-load/bad", (".ptx",))
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (1, "fail")


def test_ptx_alone_says_what_it_leaves_open(cli: Callable, repo: Any, manifest: Callable[..., str]) -> None:
    build(repo, manifest, FIXTURES / "early-read/good", (".ptx",))
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (0, "pass")
    assert any(text.startswith("the machine code that ptxas makes of") for text in found["not_covered"])
    repo.git("checkout", "-q", "main")
    repo.write({"policies/policy.toml": POLICY + '\n[ordering]\nmin_strength = "proof-on-machine-code"\n'})
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (1, "unproven")
    assert any("asks for proof-on-machine-code" in o["reason"] for o in found["obligations"])


def test_a_damaged_artifact_is_unproven_and_no_crash(cli: Callable, repo: Any, manifest: Callable[..., str]) -> None:
    build(repo, manifest, FIXTURES / "early-read/good", (".ptx",))
    for name in repo.git("ls-files", "fast").split():
        path = repo.path / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    repo.write({"fast/kda/x.cubin": b"\x7fELF\2\1\1" + b"\xff" * 600}, "kda")
    code, found = check(cli, repo)
    assert (code, found["verdict"]) == (1, "unproven")
    assert not any("internal error" in o["reason"] for o in found["obligations"])
