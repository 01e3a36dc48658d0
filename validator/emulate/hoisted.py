"""Loads that ptxas moved above the wait: found by auditing the machine code beside the PTX, named by program index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from validator.emulate.audited import Audited
from validator.ordering.ptx import PtxProgram
from validator.ordering.result import AccessRow, KernelAudit

__all__ = ["beside", "hoisted_loads"]

_MOVABLE = ("read", "async-copy")
_Key = tuple[str, tuple[object, ...]]


def beside(ptx: Path) -> Path | None:
    """The machine code that was made from a PTX file: the cubin of the same name in the same folder."""
    found = ptx.with_suffix(".cubin")
    return found if found.is_file() else None


def hoisted_loads(audit: Audited, program: PtxProgram) -> frozenset[int] | None:
    """Program indices of the PTX loads that the machine code executes before the wait and the PTX behind it.

    None where there is no machine code that could be read: then nothing is known of what moved.
    """
    source, built = audit.source, audit.built
    if source is None or built is None:
        return None
    moved = _early(built)
    moved.subtract(_early(source))
    return frozenset(_chosen(source, moved, program))


def _early(kernel: KernelAudit) -> Counter[_Key]:
    """Loads before the wait, by what they read."""
    found: Counter[_Key] = Counter()
    for row in kernel.early:
        if row.access in _MOVABLE and row.params:
            found[_key(row)] += row.count
    return found


def _key(row: AccessRow) -> _Key:
    return row.access, tuple(sorted(((p.index, p.offset, p.chain) for p in row.params), key=repr))


def _chosen(source: KernelAudit, moved: Counter[_Key], program: PtxProgram) -> Iterator[int]:
    """The first loads in the text, as many as the machine code has early: which ones they are it does not say."""
    early = {line.text for row in source.early for line in row.lines}
    lines = {program.line(i).text: i for event in program.events for i in (event.index,)}
    for row in source.accesses:
        wanted = moved[_key(row)] if row.access in _MOVABLE and row.params else 0
        for line in row.lines:
            if wanted > 0 and line.text not in early and line.text in lines:
                wanted -= 1
                yield lines[line.text]
