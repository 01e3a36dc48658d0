"""PTX that ships inside libraries: the driver compiles it on hardware for which there is no machine code beside it.

What comes of that compilation is not in the file, so an order proven in the PTX says nothing final about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from validator.ordering.architecture import Architecture, serves
from validator.ordering.program import Isa
from validator.ordering.result import KernelAudit, Skipped
from validator.verdict.model import Status

__all__ = ["SHIP_MACHINE_CODE", "compiled_later"]

SHIP_MACHINE_CODE = (
    "ship machine code for every architecture that is to run it and leave this PTX out (nvcc: no `code=compute_…`)"
)


def compiled_later(kernels: Iterable[KernelAudit]) -> Iterator[Skipped]:
    """One a file and architecture of the PTX, with the number of kernels whose order it leaves open."""
    built: set[tuple[str, str, str]] = set()
    shipped: dict[tuple[str, str], set[str]] = {}
    for kernel in kernels:
        file, inside, _ = kernel.artifact.partition("!")
        if kernel.isa is Isa.SASS:
            built.add((file, kernel.name, kernel.arch))
        elif inside and kernel.wait_count and kernel.status is Status.PROVEN:
            shipped.setdefault((file, kernel.arch), set()).add(kernel.name)
    for (file, arch), names in sorted(shipped.items()):
        if not _only_here(arch):
            yield _said(file, arch, len(names))
            continue
        codes = {name for f, name, code in built if f == file and serves(Isa.SASS, code, arch)}
        if names - codes:
            yield _said(file, arch, len(names - codes))


def _only_here(arch: str) -> bool:
    """PTX with features of one architecture (`sm_90a`) runs nowhere else; other PTX runs on all that follow."""
    found = Architecture.parse(arch)
    return found is not None and found.kind == "a"


def _said(file: str, arch: str, count: int) -> Skipped:
    what = "one kernel that waits" if count == 1 else f"{count:,} kernels that wait"
    return Skipped(
        file,
        f"carries PTX for {arch} of {what}: where no machine code fits, the driver compiles it, and what it makes of "
        "it cannot be audited ahead",
        SHIP_MACHINE_CODE,
    )
