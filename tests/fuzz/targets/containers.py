"""Zip files, wheels, fat binaries, libraries: pieces inside their limits, or a `SassError` that says where."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES, small, told
from validator.binary.containers import Limits, find_binaries
from validator.binary.tools import Tools
from validator.ordering.result import Skipped
from validator.ordering.sass.errors import SassError

MODULES = ("validator.binary.containers", "validator.binary.elf")
_MOST = 1 << 20


def seeds() -> Iterator[bytes]:
    (cubin,) = small((FIXTURES / "ordering").rglob("*.cubin"), 1)
    ptx = b".version 8.8\n.target sm_90a\n.address_size 64\n"
    yield cubin
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield _zip(method, {"pkg/a.cubin": cubin[:4096], "../../b.ptx": ptx, "c.so": b"\x50\xed\x55\xba" + bytes(60)})
    yield _zip(zipfile.ZIP_STORED, {"inner.whl": _zip(zipfile.ZIP_DEFLATED, {"k.ptx": ptx})})
    yield b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(64)


def _zip(method: int, members: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return raw.getvalue()


def one(data: bytes) -> None:
    try:
        pieces = list(find_binaries(data, "fuzz.whl", Tools(), Limits(total_bytes=_MOST, member_bytes=_MOST)))
    except SassError as error:
        told(error)
        return
    total = 0
    for piece in pieces:
        assert piece.artifact.startswith("fuzz.whl") if not isinstance(piece, Skipped) else piece.reason
        total += 0 if isinstance(piece, Skipped) else len(piece.data)
    assert total <= max(_MOST, len(data))
