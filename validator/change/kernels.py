"""Which changed files hold, build or load kernels, as far as their names and words say."""

from __future__ import annotations

import re

from validator.change.model import Change, ChangeError, ChangeStatus, FileKind

__all__ = ["COMPILED_SUFFIXES", "kernel_sources"]

COMPILED_SUFFIXES = (".ptx", ".cubin", ".fatbin", ".so", ".a", ".o", ".whl", ".nvvm", ".ll", ".bc")
_SOURCE_SUFFIXES = (".cu", ".cuh")
_HOST_SUFFIXES = (".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inc", ".inl", ".jinja", ".j2")
_KERNEL_TEXT = re.compile(
    rb"__global__|griddepcontrol|\btriton\b|\bcutlass\b|\bcute\b|\btilelang\b|\bcupy\b|\bpycuda\b|numba\.cuda|nvrtc"
    rb"|cuModuleLoad|cuLibraryLoad|load_inline"
)


def kernel_sources(change: Change) -> list[str]:
    """Paths of such files, sorted."""
    found = []
    for file in change.files:
        if file.status is ChangeStatus.DELETED or file.kind in (FileKind.SYMLINK, FileKind.SUBMODULE):
            continue
        name = file.path.lower()
        certain = name.endswith(COMPILED_SUFFIXES + _SOURCE_SUFFIXES)
        if certain or (name.endswith(_HOST_SUFFIXES) and _speaks(change, file.path)):
            found.append(file.path)
    return sorted(found)


def _speaks(change: Change, path: str) -> bool:
    try:
        return _KERNEL_TEXT.search(change.head_tree.read(path)) is not None
    except ChangeError:
        return True  # too large to be read: nobody knows what is in it
