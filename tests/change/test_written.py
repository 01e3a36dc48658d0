"""Kernels that changed sources define: which are found, which are not, and what they are compiled to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import Node, RepositoryBuilder
from validator.change.git import open_change
from validator.change.model import Change
from validator.change.written import WrittenKernel, is_compiled_as, kernels_written

CUDA = b"""
#include "more.cuh"
// __global__ void in_a_comment(int *p) { *p = 1; }
/* __global__ void in_another(int *p) {
   *p = 1; } */
__global__ void declared_only(int *p);
extern "C" __global__ void __launch_bounds__(max(128, 64), 2) __cluster_dims__(2, 1, 1)
bounded(const float *__restrict__ x, float *y) { if (x) { y[0] = x[0]; } }
template <typename T> __global__ void used_template(T *p) { *p = T(1); }
template <typename T>
__global__ void unused_template(T *p) { *p = T(2); }
static __global__ void quiet(const char *s) { s = "}"; }
void host(float *p) { used_template<float><<<1, 1>>>(p); }
"""
TRITON = b"""
import triton
import triton.language as tl

@triton.jit
def helper(x):
    return x + 1

@triton.jit
def combined(a, b):
    return a + b

@triton.autotune(
    configs=[triton.Config({"B": 64})],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % 64 == 0})
@triton.jit
def launched(p, n, B: tl.constexpr, EVEN: tl.constexpr):
    tl.store(p, tl.reduce(helper(n), 0, combined))

@triton.jit(do_not_specialize=["n"])
def stored_away(p, n):
    tl.store(p, n)

def run(p, n):
    launched[(1,)](p, n)
    other = stored_away
    other[(1,)](p, n)
"""
CUTE = b"""
from cutlass import cute

class Norm:
    @cute.kernel
    def kernel(self, x: cute.Tensor):
        pass

    @cute.jit
    def __call__(self, x):
        self.kernel(x).launch(grid=(1, 1, 1), block=(1, 1, 1))
"""
NVRTC = b'''
SOURCE = r"""
extern "C" __global__ void compiled_later(float *p) { p[0] = 1; }
"""
'''


def changed(folder: Path, head: dict[bytes, bytes], base: dict[bytes, bytes] | None = None) -> Change:
    builder = RepositoryBuilder(folder)
    first = builder.commit({b"README": Node(b""), **{k: Node(v) for k, v in (base or {}).items()}}, branch="main")
    builder.commit({name: Node(data) for name, data in head.items()}, first, branch="change")
    return open_change(builder.path, "main", "change")


def names(change: Change) -> list[str]:
    return [kernel.name for kernel in kernels_written(change, ("tests/**",))]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        (b"k/a.cu", CUDA, ["bounded", "used_template", "quiet"]),
        (b"k/a.cuh", CUDA, ["used_template"]),
        (b"k/a.py", TRITON, ["launched", "stored_away"]),
        (b"k/a.py", CUTE, ["kernel"]),
        (b"k/a.py", NVRTC, ["compiled_later"]),
        (b"tests/a.cu", CUDA, []),
        (b"k/a.md", CUDA, []),
    ],
)
def test_definitions_are_found_by_their_words(tmp_path: Path, path: bytes, text: bytes, found: list[str]) -> None:
    assert names(changed(tmp_path, {path: text})) == found


def test_the_line_is_the_one_of_the_definition(tmp_path: Path) -> None:
    (first, *_) = kernels_written(changed(tmp_path, {b"k/a.cu": CUDA}), ())
    assert (first.path, CUDA.split(b"\n")[first.line - 1][:10]) == ("k/a.cu", b'extern "C"')


def test_a_header_counts_where_another_changed_file_names_its_kernel(tmp_path: Path) -> None:
    header = b"template <int N> __global__ void deep(int *p) { *p = N; }\n"
    assert names(changed(tmp_path / "a", {b"k/deep.cuh": header})) == []
    use = b'#include "deep.cuh"\nvoid go(int *p) { deep<3><<<1, 1>>>(p); }\n'
    assert names(changed(tmp_path / "b", {b"k/deep.cuh": header, b"k/go.cu": use})) == ["deep"]


def test_what_the_base_defines_with_the_same_words_is_not_new(tmp_path: Path) -> None:
    edited = CUDA.replace(b"s = ", b"s += ").replace(b"void host(", b"// launches it\nvoid host(")
    assert names(changed(tmp_path / "a", {b"k/a.cu": edited}, {b"k/a.cu": CUDA})) == ["quiet"]
    edited = TRITON.replace(b"tl.store(p, n)", b"tl.store(p, n + 1)").replace(b"def run", b"# host\ndef run")
    assert names(changed(tmp_path / "b", {b"k/a.py": edited}, {b"k/a.py": TRITON})) == ["stored_away"]


@pytest.mark.parametrize(
    ("text", "many"),
    [
        (b"__global__ " * 100_000, False),
        (b"__global__ void f(" * 50_000, False),
        (b"__global__ void f() {" * 50_000, True),
        (b"template <int> __global__ void f() {{}}" * 100_000, False),
        (b"{" * 1_000_000 + b"__global__ void f()", False),
        (b"@triton.jit\n" * 50_000, False),
        (b"@triton.jit\ndef f(x):\n    f[x]\n" * 30_000, True),
        (b"/*" * 500_000, False),
    ],
)
def test_hostile_text_takes_time_in_proportion(tmp_path: Path, text: bytes, many: bool) -> None:
    assert (len(names(changed(tmp_path, {b"k/a.py": text, b"k/a.cu": text}))) > 1000) is many


@pytest.mark.parametrize(
    ("kernel", "compiled", "is_it"),
    [
        (WrittenKernel("a.cu", 1, "norm"), "void ns::norm<float, 4>(float*)", True),
        (WrittenKernel("a.cu", 1, "norm"), "norm", True),
        (WrittenKernel("a.cu", 1, "norm"), "void rmsnorm(float*)", False),
        (WrittenKernel("a.cu", 1, "norm"), "norm_stage2", False),
        (WrittenKernel("a.py", 1, "norm"), "norm_0d1d2de3", True),
        (WrittenKernel("a.py", 1, "norm", dsl=True), "kernel_cutlass_norm_tensorptrf32gmem_0", True),
        (WrittenKernel("a.py", 1, "norm", dsl=True), "kernel_cutlass_norms_tensorptrf32gmem_0", False),
        (WrittenKernel("a.py", 1, "norm", dsl=True), "norm", False),
    ],
)
def test_compiled_names(kernel: WrittenKernel, compiled: str, is_it: bool) -> None:
    assert is_compiled_as(kernel, [compiled]) is is_it
