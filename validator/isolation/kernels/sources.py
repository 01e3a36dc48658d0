"""Sources of kernels that shipped: which of them a change may reach without anything saying how they are built."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from validator.isolation.kernels.shipped import Shipped, Unsettled

__all__ = ["undeclared"]

_KERNELS = (".cu", ".hip")
_NATIVE = (
    *_KERNELS,
    ".cuh",
    ".h",
    ".hpp",
    ".hh",
    ".inl",
    ".inc",
    ".c",
    ".cc",
    ".cpp",
    ".cxx",
    ".cmake",
    ".mk",
    ".ninja",
)
_BUILD_FILES = ("CMakeLists.txt", "Makefile", "meson.build", "BUILD", "BUILD.bazel")
_NAMED = 3


def undeclared(sources: Sequence[str], declared: Collection[str], touched: Sequence[str]) -> Shipped:
    """What is known of kernel sources of the base that no `[[builds]]` table declares.

    Args:
        sources: files of the base outside the isolated paths.
        declared: sources that some manifest says how to build.
        touched: shared files that the change edits, adds or deletes.
    """
    kernels = [path for path in sources if path.endswith(_KERNELS) and path not in declared]
    native = [p for p in touched if p.endswith(_NATIVE) or p.rsplit("/", 1)[-1] in _BUILD_FILES]
    if not kernels or not native:
        return Shipped(same_sources=len(kernels))
    return Shipped(unsettled=tuple(Unsettled(p, _why(p, kernels)) for p in native if p not in declared))


def _why(path: str, kernels: Sequence[str]) -> str:
    lacking = "no `[[builds]]` table says how to build it at the base and at the head"
    if path in kernels:
        return f"is the source of kernels that shipped, and {lacking}"
    named = ", ".join(kernels[:_NAMED]) + (f" and {len(kernels) - _NAMED} more" if len(kernels) > _NAMED else "")
    return (
        f"may change what {named} compile{'s' if len(kernels) == 1 else ''} to, and {lacking.replace(' it ', ' them ')}"
    )
