"""Kernels that already shipped: built at the base and at the head by one compiler, and compared kernel by kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.isolation_case import FOLDER, context_of
from tests.support.repository import Node
from validator.build import cells, shipped
from validator.build.toolchains import Toolchain, find_toolchains, with_interpreter
from validator.isolation.proof import run as prove
from validator.verdict.model import Obligation, StageResult, Status

POLICY = 'schema = "validator/policy/1"\n[isolation]\nroots = ["fast/**"]\n'
MANIFEST = """\
schema = "validator/manifest/1"
id = "{id}"
title = "A fast path"
owners = ["@a"]
created = 2026-11-01
expires = 2027-03-01
summary = "A fast path."
[isolation]
paths = ["{path}/**"]
[switch]
kind = "config"
name = "fast"
value = true
default = false
[scope]
models = ["m"]
architectures = ["sm_90a"]
dtypes = ["bfloat16"]
batch = {{ max = 8 }}
[[builds]]
source = "kernels/{source}"
root = "kernels"
toolchain = "{toolchain}"
"""
KERNEL = """\
import os, pathlib
from tile import TILE
text = ".version 9.0\\n.target %s\\n.visible .entry k()\\n{\\n.shared .align 4 .b8 s[%d];\\nret;\\n}\\n"
(pathlib.Path(os.environ["CUTE_DSL_DUMP_DIR"]) / "k.ptx").write_text(text % (os.environ["CUTE_DSL_ARCH"], TILE))
"""


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs Python sources that write PTX, as CuTe DSL does."""
    roots = tuple(p for p in sys.path if p and Path(p).is_dir())
    here = Toolchain("cutedsl", "4.8", sys.executable, with_interpreter(sys.executable, roots))
    for module in (cells, shipped):
        monkeypatch.setattr(module, "find_toolchains", lambda name: (here,))


def _proved(folder: Path, changed: dict[str, str], source: str = "k.py", toolchain: str = "cutedsl") -> StageResult:
    """A change beside a fast path that shipped earlier, whose manifest says how its kernel is built."""
    base = {
        "policies/p.toml": POLICY,
        "rfcs/old.toml": MANIFEST.format(id="old", path="old", source=source, toolchain=toolchain),
        "kernels/k.py": KERNEL,
        "kernels/k.cu": (FOLDER / "base/engine/kernels/stock.cu").read_text(),
        "kernels/tile.py": "TILE = 512\n",
        "kernels/notes.md": "Old.\n",
    }
    mine = MANIFEST.format(id="new", path="fast", source=source, toolchain=toolchain).partition("[[builds]]")[0]
    head = base | {"rfcs/new.toml": mine, "fast/__init__.py": ""} | changed
    trees = [{path.encode(): Node(text.encode()) for path, text in tree.items()} for tree in (base, head)]
    context = context_of(trees[0], trees[1], folder)
    assert shipped.run(context) == StageResult()
    return prove(context)


def _obligation(result: StageResult) -> Obligation:
    return next(o for o in result.obligations if o.id == "isolation/shipped-kernels")


def _figures(result: StageResult) -> dict[str, int | float | str]:
    return next(e.figures for e in result.evidence if e.id == "isolation/shipped-kernels")


@pytest.mark.usefixtures("compiler")
def test_a_source_that_nothing_touches_is_not_built(tmp_path: Path) -> None:
    result = _proved(tmp_path, {"kernels/notes.md": "New.\n"})
    assert _obligation(result).status is Status.PROVEN
    assert _figures(result)["sources that nothing touches"] == 2
    assert not list(tmp_path.glob("shipped-*"))


@pytest.mark.usefixtures("compiler")
def test_the_same_kernel_from_another_text(tmp_path: Path) -> None:
    result = _proved(tmp_path, {"kernels/tile.py": "TILE = 256 + 256\n"})
    assert _obligation(result).status is Status.PROVEN
    assert (_figures(result)["unchanged"], _figures(result)["changed"]) == (1, 0)


@pytest.mark.usefixtures("compiler")
def test_another_kernel_from_what_it_includes(tmp_path: Path) -> None:
    result = _proved(tmp_path, {"kernels/tile.py": "TILE = 1024\n"})
    assert _obligation(result).status is Status.REFUTED
    (found,) = (f for f in result.findings if f.rule == "isolation/shipped-kernel-changed")
    assert found.where.path == "kernels/k.py"
    assert found.message == "kernel k (PTX sm_90a) changed: its shared memory went from 512 to 1,024 bytes"


@pytest.mark.usefixtures("compiler")
def test_a_kernel_that_no_longer_builds(tmp_path: Path) -> None:
    result = _proved(tmp_path, {"kernels/tile.py": "SIZE = 512\n"})
    assert _obligation(result).status is Status.REFUTED
    assert "no longer builds for sm_90a with cutedsl 4.8: ImportError" in _obligation(result).reason


@pytest.mark.usefixtures("compiler")
def test_flags_of_a_build_that_the_change_edits(tmp_path: Path) -> None:
    """The base's own say how the base is built."""
    old = MANIFEST.format(id="old", path="old", source="k.py", toolchain="cutedsl")
    result = _proved(tmp_path, {"rfcs/old.toml": old + 'architectures = ["sm_90a", "sm_100a"]\nflags = ["-O1"]\n'})
    assert _figures(result)["unchanged"] == 1, "sm_90a was built at both sides"


def test_no_compiler_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "find_toolchains", lambda name: ())
    result = _proved(tmp_path, {"kernels/tile.py": "TILE = 256 + 256\n"})
    assert _obligation(result).status is Status.UNPROVEN
    assert "there is no cutedsl on this machine" in _obligation(result).reason


@pytest.mark.nvcc
@pytest.mark.skipif(not find_toolchains("nvcc"), reason="there is no nvcc")
def test_cuda_at_both_sides(tmp_path: Path) -> None:
    text = (FOLDER / "base/engine/kernels/stock.cu").read_text()
    assert "partial[32]" in text
    changed = _proved(tmp_path, {"kernels/k.cu": text.replace("partial[32]", "partial[64]")}, "k.cu", "nvcc")
    told = {f.message for f in changed.findings if f.rule == "isolation/shipped-kernel-changed"}
    assert any("rms_norm (sm_90a) changed: its shared memory went from 1,152 to 1,280 bytes" in m for m in told)
    assert _figures(changed)["unchanged"] == 2, "`add`, as PTX and as machine code"
