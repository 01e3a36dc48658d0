"""Kernels that already shipped: what counts as a change of one, and what does not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.isolation_case import FOLDER, context_of, honest
from tests.support.memory_tree import MemoryTree
from validator.cli.isolate import isolate
from validator.isolation.compiled import kernels_of
from validator.isolation.shipped import compare_shipped

KERNELS = FOLDER / "base" / "engine" / "kernels"
PTX = (KERNELS / "stock.sm_90a.ptx").read_bytes()
CUBIN = (KERNELS / "stock.sm_90a.cubin").read_bytes()


def _prints(data: bytes, path: str = "a.ptx") -> dict[str, str]:
    return {name: kernel.fingerprint for name, kernel in kernels_of(path, data).items()}


def test_names_lines_and_debugging_do_not_count() -> None:
    again = re.sub(rb"(?<!8)rms_norm", b"rms_norm_2", PTX).replace(b"8rms_norm", b"10rms_norm_2")
    again = again.replace(b"\n\n", b"\n// a remark\n\n")
    again += b".section .debug_loc\n{\n.b8 1\n}\n"
    before, after = _prints(PTX), _prints(again)
    assert set(before) == {"rms_norm", "add"}
    assert after == {"rms_norm_2": before["rms_norm"], "add": before["add"]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"rsqrt.approx.f32", b"rsqrt.approx.ftz.f32"),
        (b".target sm_90a", b".target sm_100a"),
        (b".shared .align 4 .b8", b".shared .align 8 .b8"),
    ],
)
def test_what_runs_counts(old: bytes, new: bytes) -> None:
    assert old in PTX
    assert _prints(PTX)["rms_norm"] != _prints(PTX.replace(old, new, 1))["rms_norm"]


def test_machine_code_says_what_it_takes() -> None:
    found = kernels_of("a.cubin", CUBIN)
    assert dict(found["rms_norm"].resources) == {"registers": 26, "bytes of stack": 0, "bytes of shared memory": 1152}


@pytest.mark.parametrize("size", [0, 3, 64, 500, 2000])
def test_damaged_machine_code_is_one_opaque_file(size: int) -> None:
    found = kernels_of("a.cubin", CUBIN[:size])
    assert set(found) == {""}


def test_new_gone_changed_moved_unchanged() -> None:
    changed = PTX.replace(b"rsqrt.approx.f32", b"rsqrt.approx.ftz.f32")
    base = MemoryTree({"k/a.ptx": PTX, "k/b.cubin": CUBIN, "k/c.so": b"one", "fast/d.ptx": PTX})
    head = MemoryTree({"k/a.ptx": changed, "k/moved.cubin": CUBIN, "k/c.so": b"two", "fast/d.ptx": changed})
    found = compare_shipped(base, head, lambda path: path.startswith("fast/"))
    assert [(c.path, c.name) for c in found.changed] == [("k/a.ptx", "rms_norm"), ("k/c.so", "")]
    assert sorted(name for name, _, _ in found.moved) == ["add", "rms_norm"]
    assert (found.unchanged, found.new, found.gone) == (3, (), ())


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_rebuilt_with_lines_or_more_kernels_is_the_same_and_a_bound_on_registers_is_not(tmp_path: Path) -> None:
    source = (KERNELS / "stock.cu").read_text()
    more = 'extern "C" __global__ void extra(float* x, int n) { x[0] = K[n]; }\n'

    def built(name: str, text: str, *flags: str) -> bytes:
        (tmp_path / f"{name}.cu").write_text(text)
        command = ["nvcc", "-arch=sm_90a", *flags, "-cubin", "-o", f"{name}.cubin", f"{name}.cu"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
        return (tmp_path / f"{name}.cubin").read_bytes()

    plain = _prints(built("a", source), "a.cubin")
    assert _prints(built("b", source, "-lineinfo"), "a.cubin") == plain
    one = _prints(built("c", "__constant__ float K[2] = {1, 2};\n" + source + more), "a.cubin")
    two = _prints(built("d", "__constant__ float K[2] = {1, 3};\n" + source + more), "a.cubin")
    assert {name: one[name] for name in plain} == plain
    assert {name for name in one if one[name] != two[name]} == {".nv.constant3"}
    bound = compare_shipped(
        MemoryTree({"a.cubin": built("a", source)}),
        MemoryTree({"a.cubin": built("e", source, "-maxrregcount", "24")}),
        lambda path: False,
    )
    assert [(c.name, c.resources) for c in bound.changed if c.resources] == [
        ("rms_norm", ("registers went from 26 to 23",))
    ]


def test_kernels_that_are_handed_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context_of(*honest(), tmp_path / "git", own=True)
    for side, data in (("old", PTX), ("new", PTX.replace(b"rsqrt.approx.f32", b"rsqrt.approx.ftz.f32"))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "lib.ptx").write_bytes(data)
    words = ["--repo", str(tmp_path / "git"), "--base", "main", "--head", "change", "--kernels", str(tmp_path / "old")]
    assert isolate.main([*words, str(tmp_path / "old")], standalone_mode=False) == 0
    assert isolate.main([*words, str(tmp_path / "new")], standalone_mode=False) == 1
    assert "kernel rms_norm changed" in capsys.readouterr().out
