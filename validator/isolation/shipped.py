"""Kernels that already shipped: each compiled kernel outside the isolated paths, at base and at head.

A kernel's fingerprint is all of it that runs, without its name, comments, source lines and debug sections, so that a
rebuild that changes nothing else is no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from validator.change.model import Entry, MissingFile, Tree
from validator.isolation.compiled import Kernel, kernels_of

__all__ = ["COMPILED", "Changed", "Shipped", "compare_shipped", "merged"]

COMPILED = (".ptx", ".cubin", ".fatbin", ".so", ".a", ".o")
_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Changed:
    """One kernel that is no longer what it was."""

    path: str
    name: str
    """Empty: the file as a whole, which cannot be taken apart."""
    base: Kernel
    head: Kernel

    @property
    def resources(self) -> tuple[str, ...]:
        """Where it takes another amount of the device than before: "registers went from 96 to 128"."""
        return tuple(
            f"{what} went from {before} to {now}"
            for what, before in self.base.resources.items()
            if (now := self.head.resources.get(what)) is not None and now != before
        )


@dataclass(frozen=True, slots=True)
class Shipped:
    """What became of the compiled kernels of the base."""

    files: int
    unchanged: int
    changed: tuple[Changed, ...]
    new: tuple[tuple[str, str], ...]
    gone: tuple[tuple[str, str], ...]
    moved: tuple[tuple[str, str, str], ...] = ()
    """(kernel, path at base, path at head): the same under the same name in another file."""


def compare_shipped(base: Tree, head: Tree, isolated: Callable[[str], bool]) -> Shipped:
    """Compare every compiled file outside the isolated paths; files that are the same object are opened once."""
    before, after = _compiled(base, isolated), _compiled(head, isolated)
    unchanged = 0
    changed: list[Changed] = []
    new: dict[tuple[str, str], Kernel] = {}
    gone: dict[tuple[str, str], Kernel] = {}
    for path in sorted({*before, *after}):
        old = _kernels(base, path) if path in before else {}
        if path in before and path in after and before[path].id == after[path].id:
            unchanged += len(old)
            continue
        now = _kernels(head, path) if path in after else {}
        gone |= {(path, name): old[name] for name in old.keys() - now.keys()}
        new |= {(path, name): now[name] for name in now.keys() - old.keys()}
        for name in sorted(old.keys() & now.keys()):
            if old[name].fingerprint == now[name].fingerprint:
                unchanged += 1
            else:
                changed.append(Changed(path, name, old[name], now[name]))
    moved = tuple(_moved(gone, new))
    for name, there, here in moved:
        del gone[there, name], new[here, name]
    return Shipped(len(before), unchanged + len(moved), tuple(changed), tuple(sorted(new)), tuple(sorted(gone)), moved)


def merged(parts: Sequence[Shipped]) -> Shipped:
    """Several comparisons as one."""
    return Shipped(
        sum(p.files for p in parts),
        sum(p.unchanged for p in parts),
        tuple(c for p in parts for c in p.changed),
        tuple(c for p in parts for c in p.new),
        tuple(c for p in parts for c in p.gone),
        tuple(c for p in parts for c in p.moved),
    )


def _moved(gone: dict[tuple[str, str], Kernel], new: dict[tuple[str, str], Kernel]) -> Iterator[tuple[str, str, str]]:
    """Kernels that stand in another file now, each counted once."""
    free = {(name, kernel.fingerprint): path for (path, name), kernel in sorted(new.items()) if name}
    for (path, name), kernel in sorted(gone.items()):
        there = free.pop((name, kernel.fingerprint), None)
        if there is not None:
            yield name, path, there


def _compiled(tree: Tree, isolated: Callable[[str], bool]) -> dict[str, Entry]:
    return {e.path: e for e in tree.list("") if e.path.endswith(COMPILED) and not isolated(e.path)}


def _kernels(tree: Tree, path: str) -> dict[str, Kernel]:
    """Name → kernel; the file as a whole under the empty name where it holds none that can be read."""
    try:
        return kernels_of(path, tree.read(path, _LIMIT))
    except MissingFile:
        return {"": Kernel("unreadable", {})}
