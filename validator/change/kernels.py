"""Which changed files hold, build or load kernels, as far as their names and words say."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from validator.change.model import Change, ChangeStatus, FileKind, read_many
from validator.globs import matches

__all__ = ["COMPILED_SUFFIXES", "HEADER_SUFFIXES", "HOST_SUFFIXES", "SOURCE_SUFFIXES", "kernel_sources", "not_compiled"]

COMPILED_SUFFIXES = (".ptx", ".cubin", ".fatbin", ".so", ".a", ".o", ".whl", ".nvvm", ".ll", ".bc")
SOURCE_SUFFIXES = (".cu", ".cuh")
HOST_SUFFIXES = (".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inc", ".inl", ".jinja", ".j2")
HEADER_SUFFIXES = (".cuh", ".h", ".hpp", ".inc", ".inl")
_KERNEL_TEXT = re.compile(
    rb"__global__|griddepcontrol|\btriton\b|\bcutlass\b|\bcute\b|\btilelang\b|\bcupy\b|\bpycuda\b|numba\.cuda|nvrtc"
    rb"|cuModuleLoad|cuLibraryLoad|load_inline"
)


def kernel_sources(change: Change) -> list[str]:
    """Paths of such files, sorted."""
    there = [
        file.path
        for file in change.files
        if file.status is not ChangeStatus.DELETED and file.kind not in (FileKind.SYMLINK, FileKind.SUBMODULE)
    ]
    certain = [path for path in there if path.lower().endswith(COMPILED_SUFFIXES + SOURCE_SUFFIXES)]
    asked = [path for path in there if path.lower().endswith(HOST_SUFFIXES)]
    silent = {path for path, data in read_many(change.head_tree, asked) if not _KERNEL_TEXT.search(data)}
    # One that is too large to be read: nobody knows what is in it.
    return sorted({*certain, *(path for path in asked if path not in silent)})


def not_compiled(change: Change, compiled: Collection[str], tests: Sequence[str]) -> list[str]:
    """Those that are sources, no headers, and none of `compiled`; `tests`: globs of what is left out."""
    sources = (p for p in kernel_sources(change) if not p.lower().endswith(COMPILED_SUFFIXES + HEADER_SUFFIXES))
    return [path for path in sources if path not in compiled and not matches(path, tests)]
