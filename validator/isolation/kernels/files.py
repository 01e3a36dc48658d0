"""Compiled kernels in files: PTX text, cubins, and whatever carries them (fat binaries, objects, libraries, wheels)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from validator.binary.errors import BinaryError
from validator.isolation.kernels.host import parts_of
from validator.isolation.kernels.model import Contents, Kernel
from validator.isolation.kernels.text import kernels_in_text

__all__ = ["contents_of", "is_compiled"]

COMPILED = (".ptx", ".cubin", ".fatbin", ".so", ".pyd", ".a", ".o", ".whl")
_DEVICE_ONLY = (".ptx", ".cubin", ".fatbin")


def is_compiled(path: str) -> bool:
    """By name; also libraries with a version behind their suffix."""
    return path.endswith(COMPILED) or ".so." in path.rsplit("/", 1)[-1]


def contents_of(path: str, data: bytes) -> Contents:
    """Every kernel in a file. Where it holds none that can be read, the file as a whole counts as one."""
    if path.endswith(".ptx"):
        kernels = tuple(kernels_in_text(data))
        return Contents(kernels if any(k.kind == "kernel" for k in kernels) else (_whole(data),))
    found: list[Kernel] = []
    unread: list[str] = []
    for piece in _pieces(path, data):
        if isinstance(piece, str):
            unread.append(piece)
        else:
            found += piece
    if not found and not unread:
        return Contents((_whole(data),))
    return Contents(tuple(found), tuple(unread), host=None if path.endswith(_DEVICE_ONLY) else parts_of(data))


def _whole(data: bytes) -> Kernel:
    return Kernel("", "", hashlib.sha256(data).hexdigest(), {"size": len(data)}, "file")


def _pieces(path: str, data: bytes) -> Iterator[list[Kernel] | str]:
    """The kernels of each piece of device code; of what cannot be opened, why."""
    # Most trees hold no machine code, and looking for the programs that open it takes longer than reading a change.
    from validator.binary.containers import find_binaries
    from validator.binary.skipped import Skipped
    from validator.binary.tools import Tools
    from validator.isolation.kernels.machine_code import kernels_in_machine_code

    opened = False
    try:
        for piece in find_binaries(data, path.rsplit("/", 1)[-1], Tools.find()):
            opened = True
            if isinstance(piece, Skipped):
                yield f"{piece.artifact}: {piece.reason}" + (f" ({piece.fix})" if piece.fix else "")
            elif piece.kind == "ptx":
                yield list(kernels_in_text(piece.data))
            else:
                yield list(kernels_in_machine_code(piece.data, piece.arch))
    except BinaryError as error:
        # A file that is no container and no cubin, or damaged from the start, counts as a whole.
        if opened and not path.endswith(".cubin"):
            yield str(error)
