"""What people ship, whole, damaged and hostile."""

from __future__ import annotations

import io
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from validator.binary.containers import Limits, find_binaries
from validator.binary.elf import Cubin
from validator.binary.tools import INSTALL_HINT, Tools, run_tool
from validator.manifest.contract import KernelContract
from validator.ordering.artifacts import Artifact, audit_artifacts
from validator.ordering.result import Skipped
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.reader import read_binary

from .conftest import LABELLED, ROOT, SOURCES

PATTERNS = ROOT / "fixtures/ordering/patterns"
CUBIN = LABELLED / "h01_bad/sm_90a.cubin"


def archive(members):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members:
            out.writestr(name, data)
    return raw.getvalue()


def found(source, tools=None, limits=None):
    return list(find_binaries(source, "given", tools or Tools(), limits))


class TestArchives:
    def test_cubins_of_a_wheel_by_their_path(self):
        data = archive([("pkg/b.cubin", CUBIN.read_bytes()), ("pkg/a.cubin", CUBIN.read_bytes()), ("pkg/x.py", b"1")])
        assert [f.artifact for f in found(data)] == ["given!pkg/a.cubin", "given!pkg/b.cubin"]

    def test_ptx_in_a_wheel_is_device_code_too(self):
        data = archive([("pkg/k.ptx", b".version 8.8"), ("pkg/notes.txt", b"1")])
        assert [(f.artifact, f.kind, f.data) for f in found(data)] == [("given!pkg/k.ptx", "ptx", b".version 8.8")]
        (skipped,) = found(data, limits=Limits(ptx_bytes=4))
        assert isinstance(skipped, Skipped)

    def test_an_archive_in_an_archive(self):
        inner = archive([("a.cubin", CUBIN.read_bytes())])
        assert [f.artifact for f in found(archive([("in.zip", inner)]))] == ["given!in.zip!a.cubin"]

    def test_archives_without_end_are_refused(self):
        data = archive([("a.cubin", CUBIN.read_bytes())])
        for _ in range(5):
            data = archive([("in.zip", data)])
        (only,) = found(data)
        assert isinstance(only, Skipped)
        assert "archives deep" in only.reason

    def test_nothing_escapes(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        data = archive([("../../../escaped.cubin", CUBIN.read_bytes()), ("/abs.cubin", CUBIN.read_bytes())])
        names = [f.artifact for f in found(data)]
        assert names == ["given!../../../escaped.cubin", "given!/abs.cubin"]
        assert not list(tmp_path.rglob("*.cubin"))
        assert not list(tmp_path.parent.glob("escaped*"))

    @pytest.mark.parametrize(
        ("limits", "said"),
        [
            (Limits(members=3), "holds 4 members"),
            (Limits(total_bytes=1 << 20), "unpacks to"),
        ],
    )
    def test_bombs_are_refused_before_they_are_unpacked(self, limits, said):
        data = archive([(f"{i}.cubin", bytes(1 << 20)) for i in range(4)])
        assert len(data) < 1 << 15
        with pytest.raises(SassError, match=said):
            found(data, limits=limits)

    def test_a_member_that_inflates_beyond_its_word_stops(self):
        data = bytearray(archive([("a.cubin", bytes(1 << 20))]))
        at = data.index(b"PK\x01\x02")
        data[at + 24 : at + 28] = struct.pack("<I", 1000)
        (only,) = found(bytes(data))
        assert isinstance(only, Skipped)

    @pytest.mark.parametrize("cut", [30, 200, -30])
    def test_a_cut_archive_is_an_error(self, cut):
        with pytest.raises(SassError, match="damaged archive"):
            found(archive([("a.cubin", CUBIN.read_bytes())])[:cut])


class TestFiles:
    def test_folders_are_walked_in_order_and_links_are_not_followed(self, tmp_path):
        shutil.copy(CUBIN, tmp_path / "b.cubin")
        (tmp_path / "sub").mkdir()
        shutil.copy(CUBIN, tmp_path / "sub/a.cubin")
        (tmp_path / "link.cubin").symlink_to(CUBIN)
        assert [f.artifact for f in found(tmp_path)] == ["given/b.cubin", "given/sub/a.cubin"]

    @pytest.mark.parametrize(("data", "said"), [(b"", "is empty"), (b"hello world", "neither an ELF file")])
    def test_what_is_nothing_is_said(self, data, said):
        with pytest.raises(SassError, match=said) as caught:
            found(data)
        assert caught.value.problems[0].where == "given"

    def test_a_host_library_without_device_code_holds_nothing(self):
        import _struct

        path = Path(_struct.__file__) if hasattr(_struct, "__file__") else None
        if path is None:
            pytest.skip("no shared object at hand")
        assert found(path) == []

    def test_missing_tools_say_how_to_get_them(self):
        fat = b"\x50\xed\x55\xba" + bytes(60)
        (skipped,) = found(fat)
        assert skipped.fix == INSTALL_HINT
        module = read_binary(CUBIN, "given", tools=Tools())
        assert list(module) == []
        assert [s.fix for s in module.skipped] == [INSTALL_HINT]

    def test_what_the_scan_settles_needs_no_tools(self, monkeypatch):
        monkeypatch.setattr("validator.ordering.sass.reader.SMALL", 0)
        path = LABELLED / "h17_bad/sm_90a.cubin"
        (kernel,) = read_binary(path, "given", tools=Tools(), in_full=lambda name: False)
        assert kernel.program is None
        assert kernel.scan.always_waits


@pytest.mark.sass
class TestTools:
    @pytest.mark.nvcc
    def test_ptx_in_a_fat_binary_is_paired_with_its_machine_code(self, tools, tmp_path):
        if shutil.which("nvcc") is None:
            pytest.skip("no nvcc here")
        folder = PATTERNS / "bad-nc-hoisted"
        out = tmp_path / "k.fatbin"
        targets = ["-gencode=arch=compute_90a,code=[sm_90a,compute_90a]", "-gencode=arch=compute_90,code=compute_90"]
        command = ["nvcc", "-fatbin", "-std=c++17", "-O3", f"-I{PATTERNS.parent}", *targets, "-o", str(out)]
        run_tool([*command, str(folder / "kernel.cu")], timeout=200, output_limit=1 << 26)
        roles = {"out": "output", "x": "activation", "gate": "weight", "w": "weight", "n": "scalar"}
        args = [{"name": name, "role": role} for name, role in roles.items()]
        contract = KernelContract.model_validate({"match": "*", "launch": {"pdl": True}, "args": args})
        audit = audit_artifacts([Artifact("k.fatbin", path=out)], (contract,))
        assert {(k.isa.value, k.arch) for k in audit.kernels} == {
            ("sass", "sm_90a"),
            ("ptx", "sm_90a"),
            ("ptx", "sm_90"),
        }
        assert [(f.rule, f.count) for f in audit.findings if f.rule == "order/hoisted-load"] == [
            ("order/hoisted-load", 2)
        ]

    @pytest.mark.nvcc
    @pytest.mark.parametrize("flags", [("-shared", "-Xcompiler", "-fPIC"), ("-fatbin",)])
    def test_fat_binaries_give_every_cubin_and_their_ptx(self, tools, tmp_path, flags):
        if shutil.which("nvcc") is None:
            pytest.skip("no nvcc here")
        out = tmp_path / ("lib.fatbin" if flags == ("-fatbin",) else "lib.so")
        targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ("90a", "100a")]
        command = ["nvcc", *flags, *targets, "-gencode=arch=compute_90,code=compute_90", "-o", str(out)]
        run_tool([*command, str(SOURCES / "memory.cu")], timeout=200, output_limit=1 << 26)
        pieces = found(out, tools)
        # A linked library carries an empty cubin of the device linker's beside each of ours.
        assert {(p.kind, p.arch) for p in pieces} == {("cubin", "sm_100a"), ("cubin", "sm_90a"), ("ptx", "sm_90")}
        counts: dict[str, int] = {}
        for piece in pieces:
            if piece.kind == "cubin":
                cubin = Cubin(piece.data, piece.artifact, piece.arch)
                assert cubin.arch == piece.arch
                counts[piece.arch] = counts.get(piece.arch, 0) + sum(1 for _ in cubin.kernels())
        assert counts == {"sm_90a": 5, "sm_100a": 5}

    @pytest.mark.nvcc
    def test_what_device_linking_adds_under_the_same_name_hides_nothing(self, tools, tmp_path):
        if shutil.which("nvcc") is None:
            pytest.skip("no nvcc here")
        out = tmp_path / "lib.so"
        command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-lineinfo", "-arch=sm_90a", "-o", str(out)]
        run_tool([*command, str(SOURCES / "memory.cu")], timeout=200, output_limit=1 << 26)
        listed = run_tool([str(tools.cuobjdump), "-lelf", str(out)], timeout=60, output_limit=1 << 20)
        names = [line.split()[-1] for line in listed.decode().splitlines() if "ELF file" in line]
        assert len(names) == 2
        assert len(set(names)) == 1
        pieces = found(out, tools)
        assert not [p for p in pieces if isinstance(p, Skipped)]
        cubins = [Cubin(p.data, p.artifact, p.arch) for p in pieces if p.kind == "cubin"]
        assert sorted(sum(1 for _ in cubin.kernels()) for cubin in cubins) == [0, 5]

    def test_a_damaged_fat_binary_is_an_error(self, tools):
        with pytest.raises(SassError):
            found(b"\x50\xed\x55\xba" + bytes(range(200)), tools)

    def test_a_tool_that_hangs_is_stopped(self):
        with pytest.raises(SassError, match="took longer than"):
            run_tool(["sleep", "30"], timeout=0.3, output_limit=1000)

    def test_a_tool_that_talks_without_end_is_stopped(self):
        with pytest.raises(SassError):
            run_tool(["yes"], timeout=20, output_limit=1 << 16)
