"""PTX as the compilers really write it: stored kernels of nvcc, Triton and CuTe DSL, and nvcc where there is one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from validator.ordering.program import Direction, EventKind, Isa, Op, Reg, Space
from validator.ordering.ptx import PtxProgram, read_ptx

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures" / "ordering"
SHARED = ROOT.parent / "shared" / "cases"
STORED = sorted(path for path in FIXTURES.rglob("*.ptx") if "unknown-instruction" not in path.parts)
Examine = Callable[[PtxProgram], int]
Compile = Callable[..., bytes]


def programs(path: Path) -> tuple[PtxProgram, ...]:
    return read_ptx(path.read_bytes(), path.name).programs


@pytest.mark.parametrize("path", STORED, ids=lambda p: str(p.relative_to(FIXTURES)))
def test_stored_kernels_are_understood(path: Path, examine: Examine) -> None:
    found = programs(path)
    assert found
    for program in found:
        assert program.isa is Isa.PTX
        assert program.arch == read_ptx(path.read_bytes(), path.name).target
        assert program.unknown == {}
        assert not [e for e in program.events if e.kind is EventKind.UNKNOWN]
        assert examine(program) > 0


def test_there_are_stored_kernels_of_every_compiler() -> None:
    heads = {path.read_bytes()[:400].split(b"\n")[1] for path in STORED}
    assert any(b"NVVM" in head for head in heads)
    assert any(b"LLVM NVPTX" in head for head in heads)
    assert any(b"griddepcontrol" in path.read_bytes() for path in STORED)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no labelled cases beside the checkout")
def test_labelled_cases_are_understood(examine: Examine) -> None:
    paths = sorted(SHARED.rglob("*.ptx"))
    assert paths
    for path in paths:
        for program in programs(path):
            examine(program)
            assert program.unknown == {}, path


def check_features(program: PtxProgram) -> None:
    """What `features.cu` is made to show."""
    kinds = Counter(event.kind for event in program.events)
    assert kinds[EventKind.GRID_WAIT] >= 1, "the wait inside the function that is not inlined"
    assert kinds[EventKind.MBARRIER_WAIT] == 2
    assert {e.name for e in program.events if e.kind is EventKind.CALL} >= {"vprintf"}
    assert any(e.kind is EventKind.CALL and e.name.startswith("%") for e in program.events), "the call by pointer"
    assert any(e.noncoherent for e in program.events)
    assert [p.size for p in program.parameters] == [24, 8, 8, 4]
    parameters = {
        program.operation(i, r).attr
        for i in range(program.blocks[-1].stop)
        for r in program.definitions(i)
        if program.operation(i, r).op is Op.PARAM
    }
    assert (0, 8) in parameters, "the pointer inside the by-value struct"
    assert program.unknown == {}


def test_stored_features(examine: Examine) -> None:
    (program,) = programs(FIXTURES / "ptx" / "features.ptx")
    examine(program)
    check_features(program)


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_compiled_features(nvcc: Compile, arch: str, examine: Examine) -> None:
    source = (FIXTURES / "ptx" / "features.cu").read_text()
    if arch == "sm_80":
        source = source.replace("griddepcontrol.wait;", "").replace(
            "mbarrier.try_wait.parity", "mbarrier.test_wait.parity"
        )
        source = source.replace("shared::cta", "shared")
    (program,) = read_ptx(nvcc(source, arch), "features.ptx").programs
    examine(program)
    if arch != "sm_80":
        check_features(program)


@pytest.mark.nvcc
def test_debug_builds(nvcc: Compile, examine: Examine) -> None:
    source = (FIXTURES / "ptx" / "features.cu").read_text()
    (program,) = read_ptx(nvcc(source, "sm_90a", "-G"), "features.ptx").programs
    examine(program)
    assert program.unknown == {}
    assert any(e.kind is EventKind.GRID_WAIT for e in program.events)


def test_cutlass_structs_are_parameters() -> None:
    path = FIXTURES / "labelled" / "hc1_ok" / "sm_90a.ptx"
    (program,) = programs(path)
    assert program.block_size == (128, 1, 1)
    assert {p.type for p in program.parameters} == {"b8[8]"}
    assert program.operation(0, Reg("%rd1")).attr == (0, 8)


def test_triton_inline_assembly() -> None:
    (program,) = programs(FIXTURES / "labelled" / "ht1_ok" / "sm_90a.ptx")
    assert [p.pointer for p in program.parameters] == [True, True, True, False, True, True]
    loads = [e for e in program.events if e.kind is EventKind.ACCESS and e.opcode.startswith("ld")]
    assert len(loads) == 16
    assert all(e.guard is not None for e in loads)
    line = program.line(loads[0].index)
    assert (line.file or "").endswith("kernel.py")
    assert line.line == 10


def check_matmul(program: PtxProgram) -> None:
    """What `matmul.py` is made to show."""
    kinds = Counter(event.kind for event in program.events)
    assert (kinds[EventKind.GRID_WAIT], kinds[EventKind.GRID_TRIGGER]) == (1, 1)
    assert kinds[EventKind.MBARRIER_INIT] >= 2
    assert kinds[EventKind.MBARRIER_WAIT] >= 1
    copies = [e for e in program.events if e.kind is EventKind.ASYNC_COPY]
    maps = [access for event in copies for access in event.accesses if access.tensormap]
    assert {access.direction for access in maps} == {Direction.READ, Direction.WRITE}
    assert all(access.space is Space.GLOBAL and access.address for access in maps)
    assert {e.group for e in copies} == {"mbarrier", "bulk"}
    assert any(e.kind is EventKind.ASYNC_READ for e in program.events)
    assert any(e.kind is EventKind.PROXY_FENCE and e.proxy == "tensormap" for e in program.events)
    assert any(e.opcode.startswith("tensormap.cp_fenceproxy") for e in program.events)
    assert program.unknown == {}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_stored_triton_matmul(arch: str) -> None:
    (program,) = programs(FIXTURES / "ptx" / f"matmul.{arch}.ptx")
    check_matmul(program)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("capability", [90, 100])
def test_compiled_triton_matmul(capability: int, examine: Examine) -> None:
    command = [sys.executable, str(FIXTURES / "ptx" / "matmul.py"), str(capability)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300)
    (program,) = read_ptx(done.stdout, "matmul.ptx").programs
    examine(program)
    check_matmul(program)


def check_tensor_copy(program: PtxProgram) -> None:
    """What `tma.py` is made to show."""
    (copy,) = [e for e in program.events if e.kind is EventKind.ASYNC_COPY]
    read = next(access for access in copy.accesses if access.tensormap)
    (pointer,) = read.address
    assert isinstance(pointer, Reg)
    writers = {r: i for i in range(program.blocks[-1].stop) for r in program.definitions(i)}
    generic = program.operation(writers[pointer], pointer)
    assert generic.attr == "cvta.param"
    source = generic.args[0]
    assert isinstance(source, Reg)
    assert program.operation(writers[source], source).attr == 0
    assert program.operation(writers[source], source).op is Op.PARAM_ADDRESS
    (wait,) = [e for e in program.events if e.kind is EventKind.MBARRIER_WAIT]
    assert wait.barrier == copy.barrier
    elected = [
        r
        for i in range(program.blocks[-1].stop)
        for r in program.definitions(i)
        if program.operation(i, r).op is Op.ELECT
    ]
    assert len(elected) == 3


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_stored_cutlass_tensor_copy(arch: str) -> None:
    (program,) = programs(FIXTURES / "ptx" / f"tma.{arch}.ptx")
    check_tensor_copy(program)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="CuTe DSL is not installed")
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_compiled_cutlass_tensor_copy(arch: str, tmp_path: Path) -> None:
    kept = {"CUTE_DSL_ARCH": arch, "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": str(tmp_path)}
    command = [sys.executable, str(FIXTURES / "ptx" / "tma.py")]
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=tmp_path, env={**os.environ, **kept})
    (file,) = tmp_path.glob("*.ptx")
    (program,) = programs(file)
    check_tensor_copy(program)
