"""No input hangs or crashes the reader: a module or a `PtxError`, in time linear in the file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from validator.ordering.ptx import PtxError, PtxProgram, read_ptx

FIXTURES = Path(__file__).parents[3] / "fixtures" / "ordering"
SEEDS = [p.read_bytes() for p in sorted(FIXTURES.rglob("*.ptx"), key=lambda p: (p.stat().st_size, p.name))[-6:]]
HEAD = b".version 9.0\n.target sm_90a\n.address_size 64\n"
PIECES = [
    *(b"{ } ( ) [ ] < > ; , : :: . @ @! % $ + - | _ \" ' / // /* */ \\ \n \t \0 \xff 0 7 0x 0f3F800000 -1".split(b" ")),
    *b".reg .b32 %r<9> .pred p .shared .align .param .loc inlined_at function_name .file .section .func .entry".split(),
    *b"ld.global.b32 st.param.b64 mov.b64 call ret exit bra brx.idx .branchtargets setp.lt.and.s32 [x+4]".split(),
    *b"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes wgmma.mma_async mbarrier.".split(),
]
SECONDS = 5.0
"""Of CPU time, so that a busy machine changes nothing."""
Examine = Callable[[PtxProgram], int]


def survive(data: bytes, examine: Examine) -> None:
    start = time.process_time()
    refused: PtxError | None = None
    try:
        for program in read_ptx(data, "fuzz").programs:
            examine(program)
    except PtxError as error:
        refused = error
    assert refused is None or (refused.line >= 1 and "fuzz:" in str(refused))
    assert time.process_time() - start < SECONDS


relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(st.binary(max_size=400))
def test_any_bytes(examine: Examine, data: bytes) -> None:
    survive(data, examine)
    survive(HEAD + data, examine)
    survive(HEAD + b".visible .entry k(.param .u64 x)\n{" + data + b"}\n", examine)


@relaxed
@given(st.lists(st.sampled_from(PIECES), max_size=60), st.booleans())
def test_any_words(examine: Examine, words: list[bytes], inside: bool) -> None:
    text = b" ".join(words)
    survive(HEAD + b".entry k(.param .u64 x) {" + text + b"; ret; }" if inside else HEAD + text, examine)


@relaxed
@given(st.data())
def test_mutations_of_real_files(examine: Examine, data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 40))
        text[at : at + length] = data.draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4), st.just(b"")))
    survive(bytes(text), examine)


@relaxed
@given(st.sampled_from(SEEDS), st.data())
def test_truncations_are_errors_with_a_line(seed: bytes, data: st.DataObject) -> None:
    """Cut inside the kernel, the file must be refused when it is read, not later."""
    begin, end = seed.index(b".entry"), seed.rindex(b"ret;")
    cut = data.draw(st.integers(begin + 1, end))
    with pytest.raises(PtxError) as caught:
        read_ptx(seed[:cut], "cut.ptx")
    assert 1 <= caught.value.line <= seed.count(b"\n", 0, cut) + 1


HOSTILE = {
    "open comments": b"/*" * 200_000,
    "closed comments": b"/* */" * 100_000,
    "open strings": b'"' * 200_001,
    "escapes": b'.pragma "' + b"\\" * 200_001,
    "braces": b"{" * 200_000,
    "closing braces": b"}" * 200_000,
    "braces inside": b".entry k() {" + b"{" * 100_000 + b"}" * 100_000 + b"}",
    "vectors": b".entry k() { mov.b64 " + b"{a}" * 100_000 + b"; }",
    "open vectors": b".entry k() { mov.b64 " + b"{a" * 100_000 + b"}" * 100_001,
    "brackets": b".entry k() { ld.global.b32 %r1, " + b"[" * 100_000 + b"; }",
    "parentheses": b".entry k() { call " + b"(" * 100_000 + b"; }",
    "operands": b".entry k() { mov.b64 " + b"a," * 100_000 + b"b; }",
    "many operands": b".entry k() {" + (b"mma.sync {" + b"a," * 900 + b"b}, {" + b"c," * 90 + b"d};") * 20 + b"}",
    "labels": b".entry k() {" + b"a: b: " * 50_000 + b"}",
    "colons": b".entry k() {" + b":" * 200_000 + b"}",
    "dots": b".entry k() {" + b"a." * 100_000 + b"; }",
    "guards": b".entry k() {" + b"@" * 100_000 + b"}",
    "spaces": b".entry k() {" + b" " * 300_000 + b"}",
    "newlines": b".entry k() {" + b"\n" * 300_000 + b"x",
    "operands on lines of their own": b".entry k() { call f, (a" + b"\n" * 100_000 + b"\n+b" * 50_000 + b"); }",
    "no semicolon": b".entry k() {" + b"add.s32 a, b, c " * 20_000 + b"}",
    "parameters": b".entry k(" + b".param .u64 a," * 20_000 + b".param .u64 a) { ret; }",
    "parameter words": b".entry k(.param " + b".align 8 " * 50_000 + b") { ret; }",
    "directives": b".entry k() " + b".maxntid 1 " * 50_000 + b"{ ret; }",
    "pragmas": b".entry k() " + b'.pragma "x";' * 20_000 + b"{ ret; }",
    "extents": b".global .b8 a" + b"[1]" * 50_000 + b";",
    "numbers": b".entry k() { mov.u32 %r1, " + b"9" * 100_000 + b"; }",
    "line table": b".entry k() {" + b".loc 1 2 3, function_name a, inlined_at 1 2 3\n" * 20_000 + b"}",
    "register ranges": b".entry k() { .reg .b32 %r<999999999>; { .reg .b32 %r<99999999999999>; mov.b32 %r7, 1; } }",
    "arrays of variables": b".entry k() { .shared .b8 a<999999999>; ret; }",
    "scopes": b".entry k() {" + b"{ .reg .b32 a; mov.b32 a, a; }" * 20_000 + b"}",
    "branches": b".entry k() { L: " + b"@p bra L;" * 30_000 + b"}",
    "indirect branches": b".entry k() { T: .branchtargets " + b"L," * 20_000 + b"L; L: brx.idx a, T; }",
    "functions": b"".join(b".func f%d() { call f%d; ret; }" % (n, n + 1) for n in range(3000))
    + b".entry k() { call f0; }",
    "stores": b".entry k() { .param .b32 a; " + b"st.param.b32 [a], 1; ld.param.b32 b, [a];" * 10_000 + b"}",
    "files": b'.file 1 "a"\n' * 50_000,
    "unknown": b".zzz\n" * 50_000,
    "attributes": b".func .attribute(" + b"(" * 100_000 + b") f() { ret; }",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_cost_linear_time(text: bytes, examine: Examine) -> None:
    survive(HEAD + text, examine)
