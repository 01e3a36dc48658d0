"""Damaged cubins: an error that says where, or an answer; never another exception, never a hang."""

from __future__ import annotations

import functools
import io
import struct
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from validator.binary.containers import Found, Limits, find_binaries
from validator.binary.elf import Cubin
from validator.binary.tools import Tools
from validator.ordering.sass.disassemble import Decoder, Instruction
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.lines import LineTable
from validator.ordering.sass.program import SassProgram
from validator.ordering.sass.scan import scan

from .conftest import LABELLED

NAMES = ("h01_bad/sm_90a", "h20_ok/sm_100a", "ht3_bad/sm_90a", "hc1_bad/sm_100a")
DATA = tuple((LABELLED / f"{n}.cubin").read_bytes() for n in NAMES)
BOUNDED = settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.too_slow])


def survives(data):
    """Reads everything there is to read; SassError is the only way to say no."""
    try:
        cubin = Cubin(data, "fuzzed")
        _ = cubin.arch
        table = LineTable(cubin)
        for kernel in cubin.kernels():
            scan(kernel, cubin.sm)
            table(kernel.name, 0x40)
            SassProgram(cubin, kernel, decoded(bytes(kernel.code)), table)
    except SassError as error:
        said = error.problems
    else:
        return
    assert all(p.where and p.what for p in said)


@functools.cache
def decoded(code):
    """What nvdisasm might say of any code: a fixed vocabulary chosen by the encoding (no process per example)."""
    words = [code[i : i + 16] for i in range(0, len(code), 16)]
    vocabulary = (
        ("NOP", ()),
        ("BRA", ()),
        ("BRX", ("R2",)),
        ("CALL.REL.NOINC", ()),
        ("RET.REL.NODEC", ("R2",)),
        ("BSSY", ("B0",)),
        ("BSYNC", ("B0",)),
        ("LDG.E", ("R4", "desc[UR4][R2.64]")),
        ("EXIT", ()),
        ("", ()),
        ("FROBNICATE", ("R2",)),
    )
    found = []
    for word in words:
        name, operands = vocabulary[word[0] % len(vocabulary)]
        distance = (
            int.from_bytes(word[2:4], "little", signed=True) * 16 if name in ("BRA", "CALL.REL.NOINC", "BSSY") else None
        )
        found.append(Instruction(name, operands, None, False, distance, int.from_bytes(word[:2], "little") & 0xFFF))
    return found


@BOUNDED
@given(st.sampled_from(DATA), st.data())
def test_bytes_that_changed(data, draw):
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 8))):
        at = draw.draw(st.integers(0, len(changed) - 1))
        changed[at] = draw.draw(st.integers(0, 255))
    survives(bytes(changed))


@BOUNDED
@given(st.sampled_from(DATA), st.data())
def test_fields_that_lie(data, draw):
    """Whole words of the header and the section table replaced by tempting numbers."""
    changed = bytearray(data)
    (table,) = struct.unpack_from("<Q", data, 40)
    spots = st.one_of(st.integers(16, 60), st.integers(table, len(data) - 8))
    numbers = st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1, len(data), len(data) - 1, table])
    for _ in range(draw.draw(st.integers(1, 4))):
        struct.pack_into("<Q", changed, draw.draw(spots), draw.draw(numbers))
    survives(bytes(changed))


@BOUNDED
@given(st.sampled_from(DATA), st.integers(0, 1 << 15))
def test_files_that_end_early(data, size):
    survives(data[: size % len(data)])


def archive():
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("pkg/a.cubin", DATA[0])
        out.writestr("../../b.cubin", DATA[1])
        out.writestr("k.ptx", b".version 8.8\n.target sm_90a\n.address_size 64\n")
        out.writestr("fat.so", b"\x50\xed\x55\xba" + bytes(60))
    return raw.getvalue()


ARCHIVE = archive()


@BOUNDED
@given(st.lists(st.tuples(st.integers(0, len(ARCHIVE) - 1), st.integers(0, 255)), max_size=12), st.integers(0, 400))
def test_archives_that_changed(changes, missing):
    """Nothing but values and `SassError` comes out, and never more than the archive is allowed to hold."""
    changed = bytearray(ARCHIVE[: len(ARCHIVE) - missing] if missing % 3 == 0 else ARCHIVE)
    for at, value in changes:
        if at < len(changed):
            changed[at] = value
    try:
        pieces = list(find_binaries(bytes(changed), "fuzzed", Tools(), Limits(total_bytes=1 << 20)))
    except SassError as error:
        pieces, said = [], error.problems
    else:
        said = ()
    assert all(p.where and p.what for p in said)
    assert sum(len(p.data) for p in pieces if isinstance(p, Found)) <= 1 << 20
    assert all(p.artifact.startswith("fuzzed!") for p in pieces)


def test_whole_files_do_read():
    for data in DATA:
        cubin = Cubin(data, "whole")
        assert [k.name for k in cubin.kernels()]


@pytest.mark.sass
def test_code_that_is_no_code_is_said_to_be_unknown(tools):
    cubin = Cubin(DATA[0], "scrambled")
    kernel = next(cubin.kernels())
    code = bytearray(kernel.code)
    code[0xB0:0xC0] = b"\xff" * 16
    decoder = Decoder(tools, cubin.sm)
    from dataclasses import replace

    program = SassProgram(cubin, replace(kernel, code=memoryview(bytes(code))), decoder.decode(bytes(code)))
    assert sum(program.unknown.values()) == 1
    assert any(e.name.endswith("is not known") for e in program.events)
