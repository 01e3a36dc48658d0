"""What ships against what was built, and what is left out of the comparison."""

from __future__ import annotations

import pytest

from tests.scale.demo import PREBUILT
from validator.build.compare import compare, made_by
from validator.build.ids import without_ids
from validator.manifest.model import Build
from validator.resources import resource

DEMO = resource("fixtures/demo")
GOOD = DEMO / "good/fastpath/kda_decode/kernels"
HOISTED = DEMO / "hoisted/fastpath/kda_decode/kernels"


def test_the_same_code_under_other_paths_is_the_same():
    ptx = (GOOD / "kda_decode.sm_90a.ptx").read_bytes()
    assert compare(ptx, ptx) == compare(ptx, bytes(ptx))
    moved = ptx.replace(b"/src/demo/", b"/home/ann/kernels/").replace(b"\t.loc\t1 ", b"\t.loc\t1 1")
    assert moved != ptx
    assert compare(ptx, moved).same


@pytest.mark.parametrize("suffix", ["ptx", "cubin"])
def test_other_code_is_other_code(suffix):
    good, hoisted = ((folder / f"kda_decode.sm_90a.{suffix}").read_bytes() for folder in (GOOD, HOISTED))
    assert not compare(good, hoisted).same
    assert not compare(good, (PREBUILT / f"kda_decode.sm_103a.{suffix}").read_bytes()).same


def test_one_changed_instruction_is_seen():
    ptx = (GOOD / "kda_decode.sm_90a.ptx").read_bytes()
    changed = ptx.replace(b"griddepcontrol.wait;", b"", 1)
    assert changed != ptx
    assert compare(ptx, changed).how == "other instructions"
    cubin = bytearray((GOOD / "kda_decode.sm_90a.cubin").read_bytes())
    from elftools.elf.elffile import ELFFile  # the first byte of the kernel's code

    with (GOOD / "kda_decode.sm_90a.cubin").open("rb") as file:
        at = next(s["sh_offset"] for s in ELFFile(file).iter_sections() if s.name.startswith(".text."))
    cubin[at] ^= 1
    found = compare(bytes(cubin), (GOOD / "kda_decode.sm_90a.cubin").read_bytes())
    assert not found.same
    assert ".text.kda_decode" in found.how


@pytest.mark.parametrize("garbage", [b"", b"\x7fELF", b"\x7fELF" + bytes(200), b"// nothing\n"])
def test_what_is_no_compiled_file_is_not_the_same(garbage):
    assert not compare(garbage, (GOOD / "kda_decode.sm_90a.cubin").read_bytes()).same


def test_the_compiler_is_read_off_the_file():
    assert made_by((GOOD / "kda_decode.sm_90a.ptx").read_bytes()) == "13.0.88"
    assert made_by((GOOD / "kda_decode.sm_90a.cubin").read_bytes()) == "13.0.88"
    assert made_by(b"nothing") == ""


def test_a_hash_of_the_path_is_taken_out_of_names_and_of_strings():
    def ptx(digits: bytes, width: int) -> bytes:
        name = b"_ZN4_INTERNAL_" + digits + b"_6_k_cu"
        numbers = [b"%d" % c for c in name + b"\0"]
        lines = [b".b8 " + b",".join(numbers[i : i + width]) + b"\n" for i in range(0, len(numbers), width)]
        return b".visible .func " + name + b"()\n.section .debug_str {\n" + b"".join(lines) + b"}\n"

    assert ptx(b"36fe05dc", 17) != ptx(b"33e0c623", 19)
    assert without_ids(ptx(b"36fe05dc", 17)) == without_ids(ptx(b"33e0c623", 19))
    assert without_ids(b"mov.u32 %r1, 5;") == b"mov.u32 %r1, 5;"


@pytest.mark.parametrize(
    "wrong",
    [
        {"flags": ["-Xcompiler", "-fplugin=./x.so"]},
        {"flags": ["-ccbin=/tmp/x"]},
        {"flags": ["-I/etc"]},
        {"flags": ["-I../.."]},
        {"flags": ["--run"]},
        {"source": "/etc/passwd"},
        {"source": "../x.cu"},
        {"root": "other"},
        {"architectures": ["sm_90a; rm"]},
        {"toolchain": "triton"},
        {"entry": "kernel"},
        {"toolchain": "prebuilt"},
        {"toolchain": "make"},
        {"ships": ["../x.cubin"]},
    ],
)
def test_what_a_build_may_not_ask_for(wrong):
    good = {"source": "fast/k.cu", "toolchain": "nvcc", "flags": ["-O3", "-std=c++17", "-DN=4", "-Iinclude"]}
    Build.model_validate(good)
    with pytest.raises(ValueError):
        Build.model_validate(good | wrong)
