"""Kernels that changed sources define: which are found, which are not, and what they are compiled to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import Node, RepositoryBuilder
from validator.change.git import open_change
from validator.change.model import Change
from validator.change.written import Compiled, WrittenKernel, kernels_written
from validator.change.written.definition import Maker

CUDA = rb"""
#include "more.cuh"
#include <a/*.h>
#define KERNEL __global__
#define MADE(name) __global__ void name##_k(int *p) { *p = 1; }
// __global__ void in_a_comment(int *p) { *p = 1; } \
   __global__ void in_its_next_line(int *p) { *p = 1; }
/* __global__ void in_another(int *p) {
   *p = 1; } */
#if 0
__global__ void left_out(int *p) { *p = 1; }
#else
__global__ void taken(int *p) { *p = 1; }
#endif
__global__ void declared_only(int *p);
char quote = '"'; const char *slashes = "/*"; int digits = 1'000'000;
extern "C" __global__ void __launch_bounds__(max(128, 64), 2) __cluster_dims__(2, 1, 1)
bounded(const float *__restrict__ x, float *y) { if (x) { y[0] = x[0]; } }
__global__ void C10_LAUNCH_BOUNDS_2(128, 4) bounded_by_a_macro(float *p) { p[0] = 1; }
template <typename T> __global__ void used_template(T *p) { *p = T(1); }
template <typename T>
__global__ void unused_template(T *p) { *p = T(2); }
template <> __global__ void used_template<float>(float *p) { *p = 3; }
template <class T> __global__ std::enable_if_t<(sizeof(T) > 2)> returning(T *p) { *p = T(4); }
__attribute__((global)) void by_attribute(int *p) { *p = 1; }
__glo\
bal__ void spliced(int *p) { *p = 1; }
KERNEL void by_macro(int *p) { *p = 1; }
static __global__ void quiet(const char *s) { s = "}"; }
void host(float *p) { used_template<half><<<1, 1>>>(p); returning<<<1, 1>>>(p); quiet<<<1, 1>>>("unused_template"); }
"""
TRITON = b'''
import triton
import triton.language as tl
from torch.library import wrap_triton

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

@triton.jit(
    do_not_specialize=["n"],
)
def stored_away(p, n):
    tl.store(p, n)

@triton.jit
def handed_on(p, n):
    tl.store(p, n)

@triton.jit
def launched_elsewhere(p):
    tl.store(p + tl.program_id(0), 1)

@triton.jit
def helper_that_stores(p):
    tl.store(p, 1)

def plain(p):
    """A kernel: __global__ function that is not here { }"""
    # every __global__ function(here) {
    return {1: p}

made = triton.jit(plain)

def run(p, n, x):
    launched[(1,)](p, n)
    other = stored_away  # the other one
    other[(1,)](p, n)
    wrap_triton(handed_on)[(1,)](p, n)
    return x[0]
'''
ALIASES = b"""
from triton import jit as compiled
import cutlass.cute as ct
from numba import cuda
from vllm.triton_utils import triton as t

@compiled
def first(p):
    pass

@t.jit
def second(p):
    pass

class Norm:
    @ct.kernel
    def kernel(self, x):
        pass

    @ct.jit
    def __call__(self, x):
        self.kernel(x).launch(grid=(1, 1, 1), block=(1, 1, 1))

@cuda.jit
def third(p):
    pass

table = {"a": first, "b": (second)}
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


ALL = ["taken", "bounded", "bounded_by_a_macro", "used_template", "used_template", "returning", "by_attribute"]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        (b"k/a.cu", CUDA, [*ALL, "spliced", "by_macro", "quiet"]),
        (b"k/a.cuh", CUDA, ["used_template", "used_template", "returning", "quiet"]),
        (b"k/a.py", TRITON, ["launched", "stored_away", "handed_on", "launched_elsewhere", "plain"]),
        (b"k/a.py", ALIASES, ["first", "second", "third", "kernel"]),
        (b"k/a.py", NVRTC, ["compiled_later"]),
        (b"tests/a.cu", CUDA, []),
        (b"k/a.md", CUDA, []),
    ],
)
def test_definitions_are_found_by_their_words(tmp_path: Path, path: bytes, text: bytes, found: list[str]) -> None:
    assert sorted(names(changed(tmp_path, {path: text}))) == sorted(found)


@pytest.mark.parametrize(("path", "text"), [("k/a.cu", CUDA), ("k/a.py", NVRTC), ("k/a.py", ALIASES)])
def test_the_line_is_the_one_of_the_definition(tmp_path: Path, path: str, text: bytes) -> None:
    for kernel in kernels_written(changed(tmp_path, {path.encode(): text}), ()):
        near = b"\n".join(text.split(b"\n")[kernel.line - 1 : kernel.line + 2])
        assert kernel.name.encode() in near


def test_a_header_counts_where_another_changed_file_names_its_kernel(tmp_path: Path) -> None:
    header = b"template <int N> __global__ void deep(int *p) { *p = N; }\n"
    assert names(changed(tmp_path / "a", {b"k/deep.cuh": header})) == []
    use = b'#include "deep.cuh"\nvoid go(int *p) { deep<3><<<1, 1>>>(p); }\n'
    assert names(changed(tmp_path / "b", {b"k/deep.cuh": header, b"k/go.cu": use})) == ["deep"]
    edited = header.replace(b"= N", b"= N + 1")
    assert names(changed(tmp_path / "c", {b"k/deep.cuh": edited}, {b"k/deep.cuh": header, b"k/go.cu": use})) == ["deep"]


def test_a_file_that_defines_nothing_may_launch(tmp_path: Path) -> None:
    made = b"import triton\n\n@triton.jit\ndef there(p):\n    pass\n\n@triton.jit\ndef nobodys(p):\n    pass\n"
    head = {b"k/a.py": made, b"k/b.py": b"from .a import there\n\nthere[(1,)](0)\n", b"k/c.py": b"x = 1\n"}
    assert names(changed(tmp_path, head)) == ["there"]


def test_what_the_base_defines_with_the_same_words_is_not_new(tmp_path: Path) -> None:
    edited = CUDA.replace(b"s = ", b"s += ").replace(b"void host(", b"// launches it\nvoid host(")
    edited = edited.replace(b"{ *p = T(1); }", b"{\n    *p = T(1);  // why\n}")
    assert names(changed(tmp_path / "a", {b"k/a.cu": edited}, {b"k/a.cu": CUDA})) == ["quiet"]
    edited = TRITON.replace(
        b"    tl.store(p, n)\n\n@triton.jit\ndef handed", b"    tl.store(p, n + 1)\n\n@triton.jit\ndef handed"
    )
    edited = edited.replace(b"def run", b"# host\ndef run").replace(
        b"    tl.store(p, tl.", b"    # why\n    tl.store(p,  tl."
    )
    assert names(changed(tmp_path / "b", {b"k/a.py": edited}, {b"k/a.py": TRITON})) == ["stored_away"]


def test_what_is_moved_to_another_file_is_not_new(tmp_path: Path) -> None:
    kernel = b"__global__ void moved(int *p) { *p = 1; }\n"
    base = {b"k/a.cu": b"int one;\n" + kernel, b"k/b.cu": b"int two;\n"}
    head = {b"k/a.cu": b"int one;\n", b"k/b.cu": b"int two;\n" + kernel}
    assert names(changed(tmp_path, head, base)) == []


def test_what_was_no_source_at_the_base_does_not_excuse(tmp_path: Path) -> None:
    text = b"__global__ void from_a_page(int *p) { *p = 1; }\n"
    builder = RepositoryBuilder(tmp_path)
    first = builder.commit({b"a.md": Node(text)}, branch="main")
    builder.commit({b"k/a.cu": Node(text)}, first, branch="change")
    assert names(open_change(builder.path, "main", "change")) == ["from_a_page"]


@pytest.mark.parametrize(
    ("text", "many"),
    [
        (b"__global__ " * 100_000, False),
        (b"__global__ void f(" * 50_000, False),
        (b"__global__ void f() {" * 50_000, True),
        (b"__global__ a<a<a<a<a<a<a<a<" * 20_000, False),
        (b"__global__ " + b"a" * 500_000, False),
        (b"__global__ " + b"a " * 250_000 + b"(", False),
        (b"template <int> __global__ void f() {{}}" * 30_000, False),
        (b"{" * 1_000_000 + b"__global__ void f()", False),
        (b"@triton.jit\n" * 50_000, False),
        (b"import triton\n" + b"@triton.jit\ndef f(x):\n    f[x]\n" * 10_000, True),
        (b"/*" * 500_000, False),
        (b'R"x(' * 200_000, False),
        (b'"\\"' * 200_000, False),
        (b"x\\\n" * 200_000, False),
        (b"#if 0\n" * 100_000, False),
        (b"x" * 1_000_000, False),
    ],
)
def test_hostile_text_takes_time_in_proportion(tmp_path: Path, text: bytes, many: bool) -> None:
    source = text + b"\nf[0]\n" if b"triton" in text else text
    assert (len(names(changed(tmp_path, {b"k/a.py": source, b"k/a.cu": text}))) > 1000) is many


@pytest.mark.parametrize(
    ("kernel", "compiled", "is_it"),
    [
        (WrittenKernel("a.cu", 1, "norm"), "void ns::norm<float, 4>(float*)", True),
        (WrittenKernel("a.cu", 1, "norm"), "(anonymous namespace)::norm(float*)", True),
        (WrittenKernel("a.cu", 1, "norm"), "void a<int>::norm<(int)3, b<(c)1> >(d<e>*)", True),
        (WrittenKernel("a.cu", 1, "norm"), "norm", True),
        (WrittenKernel("a.cu", 1, "norm"), "void rmsnorm(float*)", False),
        (WrittenKernel("a.cu", 1, "norm"), "norm_stage2", False),
        (WrittenKernel("a.cu", 1, "norm"), "declared(norm*)", False),
        (WrittenKernel("a.cu", 1, "norm"), "void declared<norm>(float*)", False),
        (WrittenKernel("a.cu", 1, "norm"), "norm_0", False),
        (WrittenKernel("a.py", 1, "norm", Maker.TRITON), "norm_0d1d2de3", True),
        (WrittenKernel("a.py", 1, "norm", Maker.TRITON), "norm", True),
        (WrittenKernel("a.py", 1, "norm", Maker.CUTE), "kernel_cutlass_norm_tensorptrf32gmem_0", True),
        (WrittenKernel("a.py", 1, "norm", Maker.CUTE), "kernel_cutlass_norms_tensorptrf32gmem_0", False),
        (WrittenKernel("a.py", 1, "norm", Maker.CUTE), "norm", False),
    ],
)
def test_compiled_names(kernel: WrittenKernel, compiled: str, is_it: bool) -> None:
    assert Compiled([compiled]).holds(kernel) is is_it
