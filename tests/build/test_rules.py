"""Rules of the build stage: each fires on its bad source, is quiet on its good one, and sees the good one broken."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.memory_tree import MemoryTree
from validator.build import cells, stage
from validator.build.cells import Made, Result
from validator.build.rules import RULES, findings_of
from validator.build.target import Target, is_pinned
from validator.build.toolchains import Toolchain, find_toolchains, with_interpreter
from validator.manifest.model import Build
from validator.rules import page
from validator.scale.cell import InPlace
from validator.stage import StageContext
from validator.verdict.model import Severity, Status

FIXTURES = Path(__file__).parents[2] / "fixtures/build"
NAMES = [module.RULE.id.partition("/")[2] for module in RULES]
DEMO = Path(__file__).parents[2] / "fixtures/demo"
KERNEL = "fastpath/kda_decode/kernels/kda_decode.sm_90a"


def files_of(rule: str, side: str) -> dict[str, bytes]:
    folder = FIXTURES / rule / side
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def toolchain(version: str = "1.0") -> Toolchain:
    roots = tuple(p for p in sys.path if p and Path(p).is_dir())
    return Toolchain("cutedsl", version, sys.executable, with_interpreter(sys.executable, roots))


def ran(files: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch, *here: Toolchain, **more: object):
    """What the stage says of these files, with these compilers on the machine."""
    for place in (cells, stage):
        monkeypatch.setattr(place, "find_toolchains", lambda name: here or (toolchain(),))
    ships = ["k.{arch}.ptx"] if "k.sm_90a.ptx" in files else []
    build = Build.model_validate({"source": "k.py", "toolchain": "cutedsl", "ships": ships, **more})
    manifest = SimpleNamespace(builds=(build,), scope=SimpleNamespace(architectures=("sm_90a",)))
    change = SimpleNamespace(head_tree=MemoryTree(files))
    context = StageContext(change, None, manifest, date(2026, 12, 1), 1, folder, lambda line: None, work=InPlace())
    return stage.run(context), context


def test_rules_pages_and_pairs_are_the_same_set():
    assert sorted(p.name for p in FIXTURES.iterdir() if p.is_dir()) == sorted(NAMES)
    assert all("How to mend it" in page(f"build/{name}") for name in NAMES)


@pytest.mark.parametrize("side", ["bad", "good"])
@pytest.mark.parametrize("rule", NAMES)
def test_a_rule_fires_on_its_bad_source_and_is_quiet_on_its_good_one(rule, side, tmp_path, monkeypatch):
    result, _ = ran(files_of(rule, side), tmp_path, monkeypatch)
    (obligation,) = result.obligations
    assert [f.rule for f in result.findings] == [f"build/{rule}"] * (side == "bad")
    assert obligation.findings == tuple(f.id for f in result.findings)
    wanted = Status.PROVEN if side == "good" else Status.REFUTED if rule == "shipped-differs" else Status.UNPROVEN
    assert obligation.status is wanted, obligation.reason


def test_a_good_pair_broken_is_seen(tmp_path, monkeypatch):
    """One instruction of what ships, or of the source, is another."""
    good = files_of("shipped-differs", "good")
    for name in ("k.sm_90a.ptx", "k.py"):
        (tmp_path / name).mkdir()
        broken = good | {name: good[name].replace(b"griddepcontrol.wait;", b"griddepcontrol.launch_dependents;")}
        result, _ = ran(broken, tmp_path / name, monkeypatch)
        assert [f.rule for f in result.findings] == ["build/shipped-differs"]
        assert result.findings[0].where.path == "k.sm_90a.ptx"


def target(shipped: bytes, built: bytes, suffix: str, **more: object) -> Target:
    ships = [KERNEL.replace("sm_90a", "{arch}") + suffix]
    build = Build.model_validate({"source": "k.cu", "toolchain": "nvcc", "ships": ships, **more})
    found = Target(0, build, "sm_90a", MemoryTree({f"{KERNEL}{suffix}": shipped}))
    found.made["13.0.88"] = Made(Result.BUILT, files={f"kda_decode{suffix}": built})
    found.cells["13.0.88"] = "build/00"
    return found


@pytest.mark.parametrize("suffix", [".ptx", ".cubin"])
def test_real_code_of_one_compiler(suffix):
    good, hoisted = ((DEMO / side / f"{KERNEL}{suffix}").read_bytes() for side in ("good", "hoisted"))
    assert not findings_of(target(good, good, suffix))
    (found,) = findings_of(target(hoisted, good, suffix))
    assert (found.rule, found.severity) == ("build/shipped-differs", Severity.ERROR)
    other = hoisted.replace(b"release 13.0, V13.0.88", b"release 12.9, V12.9.41")
    assert not findings_of(target(other, good, suffix))  # made by another release: nobody can tell
    assert target(other, good, suffix).obligation().status is Status.UNPROVEN


def test_the_first_error_of_a_compiler_is_where_it_says():
    broken = target(b"", b"", ".ptx")
    broken.made["13.0.88"] = Made(Result.FAILED, 'k.cu(7): error: identifier "x" is undefined (exit code 2)')
    (found,) = findings_of(broken)
    assert (found.where.path, found.where.line, found.severity) == ("k.cu", 7, Severity.UNPROVEN)
    broken.made["13.0.88"] = Made(Result.NOT_RUN, "the budget of 1 s was spent before its turn")
    assert not findings_of(broken)
    assert "not run: the budget" in broken.obligation().reason


# -- versions of a compiler --------------------------------------------------------------------------------------------


def test_every_pinned_version_must_build_and_what_each_makes_is_audited(tmp_path, monkeypatch):
    files = files_of("shipped-differs", "good")
    here = toolchain("4.8.1"), toolchain("4.7.0"), toolchain("3.0")
    result, context = ran(files, tmp_path, monkeypatch, *here, versions=["4.8.1", "4.7"])
    (obligation,), (evidence,) = result.obligations, result.evidence
    assert obligation.status is Status.PROVEN, obligation.reason
    assert evidence.summary.startswith("cutedsl 4.8.1: built; cutedsl 4.7.0: built")
    assert not context.made  # all of it is what ships


def test_a_pinned_version_that_is_not_here_is_unproven(tmp_path, monkeypatch):
    files = files_of("shipped-differs", "good")
    result, _ = ran(files, tmp_path, monkeypatch, toolchain("4.8.1"), versions=["4.8", "4.7"])
    assert result.obligations[0].reason == "cutedsl 4.7 is pinned and not on this machine"
    assert result.obligations[0].status is Status.UNPROVEN
    (tmp_path / "none").mkdir()
    result, _ = ran(files, tmp_path / "none", monkeypatch, toolchain("4.8.1"), versions=["4.7"])
    assert result.obligations[0].reason == "there is no cutedsl 4.7 on this machine"


def test_what_another_pinned_compiler_makes_differently_is_handed_to_the_audits():
    good, hoisted = ((DEMO / side / f"{KERNEL}.cubin").read_bytes() for side in ("good", "hoisted"))
    found = target(good, good, ".cubin", versions=["13.0", "12.9"])
    found.made["12.9.41"] = Made(Result.BUILT, files={"kda_decode.cubin": hoisted})
    found.cells["12.9.41"] = "build/01"
    assert list(found.for_the_audits()) == [("built/kda_decode.sm_90a.nvcc-12.9.41.cubin", hoisted, "build/01")]
    found.made["12.9.41"] = Made(Result.FAILED, "k.cu(1): error: no such thing")
    assert [f.rule for f in findings_of(found)] == ["build/does-not-build"]
    assert found.obligation().status is Status.UNPROVEN
    assert list(found.for_the_audits()) == []
    unpinned = target(good, good, ".cubin")
    unpinned.made["12.9.41"] = Made(Result.FAILED, "an old compiler that nobody named")
    assert not findings_of(unpinned)
    assert unpinned.obligation().status is Status.PROVEN


def test_what_pins_mean():
    assert is_pinned("13.0.88", ())
    assert is_pinned("13.0.88", ("13.0.88",))
    assert is_pinned("13.0.88", ("12", "13.0"))
    assert not is_pinned("13.10.8", ("13.1",))
    for wrong in ("", "latest", ">=13"):
        with pytest.raises(ValueError):
            Build.model_validate({"source": "k.cu", "toolchain": "nvcc", "versions": [wrong]})


def test_what_is_said_to_ship_and_is_not_there_is_told():
    found = target(b"", b"", ".ptx")
    found.head = MemoryTree({})
    found.__post_init__()
    assert found.evidence().not_covered == (f"{KERNEL}.ptx is not in the head: nothing ships under that name",)


def test_several_interpreters_are_several_compilers(monkeypatch):
    monkeypatch.setenv("VALIDATOR_BUILD_PYTHON", f"{sys.executable}:{sys.executable}:/nowhere/python")
    assert len(find_toolchains("triton")) <= 1  # the same one twice, and none


def test_a_build_rests_on_the_compiler_and_on_the_hosts(monkeypatch):
    build = Build.model_validate({"source": "k.cu", "toolchain": "nvcc"})
    nvcc = Toolchain("nvcc", "13.0.88", "/cuda/bin/nvcc", ())
    keys = set()
    for host in ("c++ 12.2", "c++ 13.1"):
        monkeypatch.setattr(cells, "host_compiler", lambda host=host: host)
        keys |= {cells.cell_of(0, build, "sm_90a", t, "t").key for t in (nvcc, replace(nvcc, version="12.9.41"))}
    assert len(keys) == 4
