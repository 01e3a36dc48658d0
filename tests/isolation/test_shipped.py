"""Kernels that already shipped: what counts as a change of one, and what does not."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.isolation_case import FOLDER, context_of, honest
from tests.support.memory_tree import MemoryTree
from validator.binary.tools import INSTALL_HINT, Tools
from validator.cli.isolate import isolate
from validator.isolation.kernels.files import contents_of
from validator.isolation.kernels.kept import reader
from validator.isolation.kernels.model import Kernel
from validator.isolation.kernels.shipped import Shipped, compare_shipped

KERNELS = FOLDER / "base" / "engine" / "kernels"
PTX = (KERNELS / "stock.sm_90a.ptx").read_bytes()
CUBIN = (KERNELS / "stock.sm_90a.cubin").read_bytes()


def _kernels(data: bytes, path: str = "a.ptx") -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in contents_of(path, data).kernels}


def _prints(data: bytes, path: str = "a.ptx") -> dict[str, str]:
    return {name: kernel.fingerprint for name, kernel in _kernels(data, path).items()}


def _compared(base: dict[str, bytes], head: dict[str, bytes]) -> Shipped:
    return compare_shipped(MemoryTree(base), MemoryTree(head), lambda path: path.startswith("fast/"), reader(None))


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
        (b"mul.lo.s64", b"mul.hi.s64"),
        (b".shared .align 4 .b8", b".shared .align 8 .b8"),
    ],
)
def test_what_runs_counts(old: bytes, new: bytes) -> None:
    assert old in PTX
    assert _prints(PTX)["rms_norm"] != _prints(PTX.replace(old, new, 1))["rms_norm"]


def test_machine_code_says_what_it_takes() -> None:
    found = _kernels(CUBIN, "a.cubin")["rms_norm"]
    assert found.target == "sm_90a"
    takes = {"register count": 26, "stack": 0, "shared memory": 1152}
    assert {name: found.resources[name] for name in takes} == takes


@pytest.mark.parametrize("size", [0, 3, 64, 500, 2000])
def test_damaged_machine_code_is_one_opaque_file(size: int) -> None:
    assert [kernel.kind for kernel in contents_of("a.cubin", CUBIN[:size]).kernels] == ["file"]


def test_new_gone_changed_moved_unchanged() -> None:
    changed = PTX.replace(b"rsqrt.approx.f32", b"rsqrt.approx.ftz.f32")
    base = {"k/a.ptx": PTX, "k/b.cubin": CUBIN, "k/c.so": b"one", "fast/d.ptx": PTX}
    head = {"k/a.ptx": changed, "k/moved.cubin": CUBIN, "k/c.so": b"two", "fast/d.ptx": changed}
    found = _compared(base, head)
    assert [(c.path, c.base.name) for c in found.changed] == [("k/a.ptx", "rms_norm"), ("k/c.so", "")]
    assert sorted(name for name, _, _ in found.moved) == ["add", "rms_norm"]
    assert (found.unchanged, found.new, found.gone) == (3, (), ())


def test_ptx_that_gets_further_kernels_and_renumbered_labels_is_the_same() -> None:
    """What a compiler counts through the module moves when a kernel is put in front."""
    loop = b"""
.global .align 1 .b8 $str[3] = {104, 105, 0};
.visible .entry first(.param .u64 first_param_0)
{
$L__BB0_1:
	mov.u64 %rd1, $str;
	bra.uni $L__BB0_1;
}
"""
    module = b".version 9.0\n.target sm_90a\n.address_size 64\n"
    before = _prints(module + loop)
    renumbered = loop.replace(b"$L__BB0_", b"$L__BB1_").replace(b"$str", b"$str$1")
    more = loop.replace(b"first", b"other").replace(b"104, 105", b"104, 106")
    after = _prints(module + more + renumbered)
    assert before["first"] == after["first"] != after["other"]
    called = b".func helper(.param .b32 a)\n{\n ret;\n}\n"
    calls = b".visible .entry k()\n{\n call.uni helper, (x);\n}\n"
    plain, other = (_prints(module + f + calls) for f in (called, called.replace(b" ret", b" trap")))
    assert plain["k"] != other["k"]


def test_names_that_go_round_in_ptx_end() -> None:
    names = [b"f%d" % i for i in range(60)]
    bodies = [b".func %b()\n{\n%b\n}\n" % (n, b"\n".join(b"call %b;" % m for m in names)) for n in names]
    assert len(_prints(b".version 9.0\n.visible .entry k()\n{\ncall f1;\n}\n" + b"".join(bodies))) == 61


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
    assert {name for name in one if one[name] != two[name]} == {"K"}
    bound = _compared(
        {"a.cubin": built("a", source)}, {"a.cubin": built("e", source, "-maxrregcount", "24")}
    )  # fmt: skip
    changed = {c.base.name: c.differences for c in bound.changed}
    assert "its register count went from 26 to 23" in changed["rms_norm"]
    assert changed["add"] == ("its limit on the register count went from 255 to 24",)


def test_kernels_that_are_handed_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context_of(*honest(), tmp_path / "git", own=True)
    for side, data in (("old", PTX), ("new", PTX.replace(b"rsqrt.approx.f32", b"rsqrt.approx.ftz.f32"))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "lib.ptx").write_bytes(data)
    words = ["--repo", str(tmp_path / "git"), "--base", "main", "--head", "change", "--kernels", str(tmp_path / "old")]
    assert isolate.main([*words, str(tmp_path / "old")], standalone_mode=False) == 0
    assert isolate.main([*words, str(tmp_path / "new")], standalone_mode=False) == 1
    assert "kernel rms_norm (PTX sm_90a) changed" in capsys.readouterr().out


SOURCE = """
template <int N> __global__ void scaled(float* x) { __shared__ float s[N]; s[threadIdx.x] = x[threadIdx.x];
  __syncthreads(); x[threadIdx.x] = s[N - 1 - threadIdx.x] * LOCAL; }
extern "C" __global__ void other(float* x) { x[0] = 1; }
void go(float* x) { scaled<64><<<1, 64>>>(x); scaled<128><<<1, 128>>>(x); other<<<1, 1>>>(x); }
"""


def _library(folder: Path, name: str, text: str, *flags: str) -> bytes:
    (folder / "k.cu").write_text(text)
    command = ["nvcc", "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]", *flags, "-o", name, "k.cu"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return (folder / name).read_bytes()


@pytest.mark.nvcc
@pytest.mark.sass
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.skipif(Tools.find().cuobjdump is None, reason=f"needs cuobjdump: {INSTALL_HINT}")
@pytest.mark.parametrize(("name", "flag"), [("k.fatbin", "-fatbin"), ("k.o", "-c")])
def test_kernels_inside_files_are_compared_one_by_one(name: str, flag: str, tmp_path: Path) -> None:
    text = SOURCE.replace("LOCAL", "2.0f")
    old = {name: _library(tmp_path, name, text, flag)}
    more = text + "__global__ void extra(float* x) { x[1] = 2; }\nvoid more(float* x) { extra<<<1, 1>>>(x); }\n"
    same = _compared(old, {name: _library(tmp_path, name, more, flag, "-lineinfo")})
    assert (same.unchanged, same.changed, same.gone) == (6, (), ())  # three kernels, as machine code and as PTX
    assert [kernel.name for _, kernel in same.new] == ["_Z5extraPf"] * 2
    assert [".text" in item.why for item in same.unsettled] == [True] * (flag == "-c"), "host code is not compared"
    wider = text.replace("float s[N]", "float s[N * 2]").replace(
        "other(float* x) { x[0] = 1; }", "another(float* x) {}"
    )
    changed = _compared(old, {name: _library(tmp_path, name, wider.replace("other<<<", "another<<<"), flag)})
    told = {str(c.base): c.differences for c in changed.changed}
    assert told["kernel _Z6scaledILi64EEvPf (PTX sm_90a)"][0] == "its shared memory went from 256 to 512 bytes"
    assert "its shared memory went from 1,280 to 1,536 bytes" in told["kernel _Z6scaledILi64EEvPf (sm_90a)"]
    assert len(told) == 4
    assert {str(gone.kernel) for gone in changed.gone} == {"kernel other (sm_90a)", "kernel other (PTX sm_90a)"}


@pytest.mark.sass
@pytest.mark.skipif(Tools.find().cuobjdump is None, reason=f"needs cuobjdump: {INSTALL_HINT}")
def test_a_wheel_is_opened_and_what_else_it_holds_is_said(tmp_path: Path) -> None:
    def wheel(version: str, ptx: bytes) -> bytes:
        with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
            for member, data in (("k/a.cubin", CUBIN), ("k/b.ptx", ptx), ("k/__init__.py", version.encode())):
                archive.writestr(zipfile.ZipInfo(member), data)
        return (tmp_path / "w.whl").read_bytes()

    found = _compared(
        {"w.whl": wheel("1", PTX)}, {"w.whl": wheel("2", PTX.replace(b"rsqrt.approx.f32", b"sqrt.rn.f32"))}
    )
    assert [str(c.base) for c in found.changed] == ["kernel rms_norm (PTX sm_90a)"]
    assert found.unchanged == 3
    assert ["what else it holds was not" in item.why for item in found.unsettled] == [True]


def test_without_what_opens_it_nothing_is_taken_as_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tools, "find", staticmethod(Tools))
    fat = b"\x50\xed\x55\xba" + bytes(60)
    found = _compared({"k.fatbin": fat + b"1"}, {"k.fatbin": fat + b"2"})
    assert (found.unchanged, found.changed) == (0, ())
    assert INSTALL_HINT in found.unsettled[0].why


def test_what_is_too_large_to_read_is_not_taken_as_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("validator.isolation.kernels.shipped._LIMIT", 100)
    found = _compared({"k.cubin": CUBIN}, {"k.cubin": CUBIN[:-1] + b"x"})
    assert (found.unchanged, found.changed) == (0, ())
    assert "100 bytes" in found.unsettled[0].why


def test_what_a_file_holds_is_kept_by_its_content() -> None:
    class Kept(dict[str, bytes]):
        def put(self, key: str, value: bytes) -> bool:
            self[key] = value
            return True

    kept = Kept()
    first = reader(kept)("a.cubin", "id", lambda: CUBIN)
    assert reader(kept)("b.cubin", "id", lambda: pytest.fail("read again")) == first
    (key,) = kept
    kept[key] = b"["
    assert reader(kept)("b.cubin", "id", lambda: CUBIN) == first
