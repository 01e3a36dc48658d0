"""Names that nvcc makes unique by a hash of the source's absolute path: the same source, the same names, anywhere."""

from __future__ import annotations

import re

__all__ = ["without_ids"]

_NAME = re.compile(rb"(_INTERNAL_|_intern_|__nv_static_\d+__)[0-9a-f]{8}(?=_)")
_BYTES = re.compile(rb"(?:^[ \t]*\.b8[ \t]+\d+(?:[ \t]*,[ \t]*\d+)*[ \t]*(?://[^\n]*)?\n)+", re.MULTILINE)
_COMMENT = re.compile(rb"//[^\n]*")
_WIDTH = 40
"""Bytes in a line."""


def without_ids(ptx: bytes, folder: bytes = b"") -> bytes:
    """PTX with zeros for the hash, in names and in the strings of its debugging information.

    `folder`: a path that is blotted out in those strings too, byte for byte.
    """

    def plain(text: bytes) -> bytes:
        return _NAME.sub(_zeros, text.replace(folder, b"/" + b"_" * (len(folder) - 1)) if folder else text)

    def strings(match: re.Match[bytes]) -> bytes:
        """A run of `.b8` lines, what is in it changed and the lines of one width: where they broke depended on it."""
        numbers = [int(n) for n in re.findall(rb"\d+", _COMMENT.sub(b"", match[0]).replace(b".b8", b""))]
        if any(n > 255 for n in numbers):
            return match[0]
        before = bytes(numbers)
        text = plain(before)
        if text == before and b"_INTERNAL_" not in text:
            return match[0]
        lines = (text[i : i + _WIDTH] for i in range(0, len(text), _WIDTH))
        return b"".join(b".b8 " + b",".join(b"%d" % n for n in line) + b"\n" for line in lines)

    return plain(_BYTES.sub(strings, ptx) if b".section" in ptx else ptx)


def _zeros(match: re.Match[bytes]) -> bytes:
    return match[1] + b"0" * 8
