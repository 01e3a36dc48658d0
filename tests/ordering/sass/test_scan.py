"""The opcode table and the decoder against nvdisasm, on every architecture."""

from __future__ import annotations

import json
import subprocess

import pytest

from validator.binary.elf import Cubin
from validator.ordering.sass.codes import CLASSES, Class, class_of
from validator.ordering.sass.disassemble import Instruction, decoder_for
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.scan import check_agreement, scan
from validator.ordering.sass.settlement import Settlement

from .conftest import ARCHITECTURES, labelled_cubins

pytestmark = pytest.mark.sass
SOURCES = ("control.cu", "memory.cu", "async.cu")


def printed(tools, path):
    """Kernel → what nvdisasm prints of the whole file, as (predicate, opcode, operands) lines."""
    done = subprocess.run([str(tools.nvdisasm), "-json", str(path)], capture_output=True, check=True, timeout=120)
    found = {}
    for function in json.loads(done.stdout)[1]:
        found[function["function-name"]] = [
            (i.get("predicate", ""), i["opcode"], [o.strip() for o in i.get("operands", "").split(",") if o.strip()])
            for i in function["sass-instructions"]
        ]
    return found


def compare(tools, path):
    cubin = Cubin(path.read_bytes(), path.name)
    decoder = decoder_for(tools, cubin.sm)
    wanted = printed(tools, path)
    names = 0
    kernels = list(cubin.kernels())
    decoder.learn(kernel.code for kernel in kernels)
    for kernel in kernels:
        decoded = decoder.decode(kernel.code)
        lines = wanted[kernel.name]
        assert len(decoded) == len(lines)
        for index, (mine, (predicate, opcode, operands)) in enumerate(zip(decoded, lines, strict=True)):
            shown = ", ".join(o.replace(".reuse", "") for o in operands)
            if not predicate.startswith("@"):
                shown, predicate = ", ".join(filter(None, (shown, predicate))), ""
            if opcode.startswith(("CALL.REL", "RET.REL")):  # the ELF's symbols instead of numbers
                assert mine.opcode == opcode
            else:
                assert mine.text(16 * index) == f"{predicate} {opcode} {shown}".strip(), kernel.name
            assert CLASSES[mine.code] in (Class.UNKNOWN, class_of(opcode.partition(".")[0])), opcode
            names += 1
        looked = scan(kernel, cubin.sm)
        opcodes = [opcode.partition(".")[0] for _, opcode, _ in lines]
        assert looked.instructions == len(lines)
        assert looked.waits == opcodes.count("ACQBULK")
        assert looked.triggers == opcodes.count("PREEXIT")
        assert looked.accesses == sum(class_of(o) is Class.GLOBAL for o in opcodes)
        assert looked.unknown == 0
        check_agreement(kernel.name, decoded)
    return names


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_compiled_kernels_are_decoded_and_counted_as_nvdisasm_prints_them(tools, compiled, arch):
    assert sum(compare(tools, compiled(source, arch)) for source in SOURCES) > 1000


@pytest.mark.parametrize("path", labelled_cubins()[9::25], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_stored_cubins_are_decoded_and_counted_as_nvdisasm_prints_them(tools, path):
    assert compare(tools, path) > 10


def kernel_of(name, arch="sm_90a"):
    path = next(p for p in labelled_cubins() if p.parent.name == name and p.stem == arch)
    cubin = Cubin(path.read_bytes(), name)
    return cubin, next(cubin.kernels())


@pytest.mark.parametrize(
    ("name", "settlement"),
    [
        ("h17_bad", Settlement.WAITS_FIRST),  # the wait, then everything
        ("h01_bad", None),  # a load stands before the wait
        ("h04_bad", None),  # a branch stands before it
        ("h03_bad", None),  # triggers and never waits
        ("h12_bad", Settlement.NO_PART),  # neither
    ],
)
def test_settles_only_what_opcodes_can_settle(name, settlement):
    cubin, kernel = kernel_of(name)
    looked = scan(kernel, cubin.sm)
    assert looked.settlement is settlement
    assert bool(looked.reason) is (settlement is not None)
    assert looked.always_waits is (settlement is Settlement.WAITS_FIRST)


def test_a_predicated_wait_settles_nothing():
    cubin, kernel = kernel_of("h17_bad")
    code = bytearray(kernel.code)
    wait = next(i for i in range(0, len(code), 16) if int.from_bytes(code[i : i + 2], "little") & 0xFFF == 0x82E)
    code[wait + 1] = (code[wait + 1] & 0x0F) | 0x20  # @P2
    from dataclasses import replace

    assert scan(replace(kernel, code=memoryview(bytes(code))), cubin.sm).settlement is None


def test_an_architecture_without_dependent_launch_is_settled():
    _, kernel = kernel_of("h03_bad")
    assert scan(kernel, 89).settlement is Settlement.NO_PDL


def test_a_disassembler_that_disagrees_with_the_table_is_an_error():
    right = Instruction("LDG.E", (), None, False, None, 0x981)
    check_agreement("kernel", [right])
    stranger = Instruction("STG.E", (), None, False, None, 0x82E)
    with pytest.raises(SassError, match="to the opcode table") as caught:
        check_agreement("kernel", [right, stranger])
    assert "0x82e is STG to nvdisasm" in str(caught.value)
    assert "kernel at 0x10" in str(caught.value)
