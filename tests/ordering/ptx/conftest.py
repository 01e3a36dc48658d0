"""Builders of small PTX files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from validator.ordering.program import Event, Operation
from validator.ordering.ptx import PtxModule, PtxProgram, read_ptx

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
PARAMS = ".param .u64 .ptr .global .align 4 x, .param .u64 y, .param .u32 n, .param .align 8 .b8 s[40]"

Kernel = Callable[..., PtxProgram]


def module_text(body: str, params: str = PARAMS, before: str = "") -> str:
    """A file with one kernel `k`; `body` without braces, a `ret` appended."""
    return f"{HEAD}{before}\n.visible .entry k(\n{params}\n)\n{{\n{body}\nret;\n}}\n"


@pytest.fixture
def read() -> Callable[[str], PtxModule]:
    """Read PTX text."""
    return lambda text: read_ptx(text.encode(), "t.ptx")


@pytest.fixture
def kernel() -> Kernel:
    """The program of a kernel `k` with the given body."""

    def build(body: str, params: str = PARAMS, before: str = "") -> PtxProgram:
        return read_ptx(module_text(body, params, before).encode(), "t.ptx").programs[0]

    return build


@pytest.fixture
def operation(kernel: Kernel) -> Callable[..., Operation]:
    """What the last instruction of a body sets `register` to (default: its first destination)."""

    def build(body: str, register: str | None = None, **keywords: str) -> Operation:
        program = kernel(body, **keywords)
        index = program.blocks[-1].stop - 2
        target = next(r for r in program.definitions(index) if register in (None, r.name))
        return program.operation(index, target)

    return build


@pytest.fixture
def event(kernel: Kernel) -> Callable[[str], Event]:
    """The only event of an instruction before the `ret`."""

    def build(body: str) -> Event:
        program = kernel(body)
        (found,) = [e for e in program.events if e.index < program.blocks[-1].stop - 1]
        return found

    return build


@pytest.fixture
def nvcc(tmp_path: Path) -> Callable[..., bytes]:
    """PTX that nvcc makes of CUDA source; skips visibly where there is no nvcc."""
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("no nvcc on PATH")

    def build(source: str, arch: str = "sm_90a", *options: str) -> bytes:
        cuda, ptx = tmp_path / "k.cu", tmp_path / "k.ptx"
        cuda.write_text(source)
        command = [compiler, f"-arch={arch}", "-lineinfo", *options, "-ptx", str(cuda), "-o", str(ptx)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return ptx.read_bytes()

    return build


def examine(program: PtxProgram) -> int:
    """Ask everything of every instruction; the number of instructions."""
    total = max(block.stop for block in program.blocks)
    for block in program.blocks:
        assert 0 <= block.start < block.stop <= total
        assert all(0 <= edge.target < len(program.blocks) for edge in block.successors)
    for event in program.events:
        assert 0 <= event.index < total
    for index in range(total):
        program.guard(index)
        program.line(index)
        program.text(index)
        for register in program.definitions(index):
            program.operation(index, register)
    assert sum(program.unknown.values()) >= 0
    return total


@pytest.fixture(name="examine")
def examine_fixture() -> Callable[[PtxProgram], int]:
    """`examine`."""
    return examine
