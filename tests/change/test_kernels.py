"""Kernel code among the files of a change, and what of it nothing compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import Node, RepositoryBuilder
from validator.change.git import open_change
from validator.change.kernels import kernel_sources, not_compiled
from validator.change.model import MAX_READ, Change

HEAD = {
    b"fast/a.cu": b"",
    b"fast/a.cuh": b"",
    b"fast/a.sm_90a.cubin": b"\x7fELF",
    b"fast/jit.py": b"import triton\n",
    b"fast/model.py": b"import numpy\n",
    b"fast/large.cpp": b"x" * (MAX_READ + 1),
    b"fast/notes.md": b"triton\n",
    b"tests/test_jit.py": b"import triton\n",
}


@pytest.fixture
def change(tmp_path: Path) -> Change:
    builder = RepositoryBuilder(tmp_path)
    first = builder.commit({b"README": Node(b"")}, branch="main")
    builder.commit({name: Node(data) for name, data in HEAD.items()}, first, branch="change")
    return open_change(builder.path, "main", "change")


def test_kernel_code_is_known_by_its_name_or_its_words(change: Change) -> None:
    wanted = ("a.cu", "a.cuh", "a.sm_90a.cubin", "jit.py", "large.cpp")
    assert kernel_sources(change) == [*(f"fast/{name}" for name in wanted), "tests/test_jit.py"]


def test_what_no_build_compiles(change: Change) -> None:
    assert not_compiled(change, (), ("tests/**",)) == ["fast/a.cu", "fast/jit.py", "fast/large.cpp"]
    assert not_compiled(change, {"fast/a.cu", "fast/large.cpp"}, ("tests/**",)) == ["fast/jit.py"]
