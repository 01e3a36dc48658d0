"""Kernels that already shipped: each compiled kernel outside the isolated paths, at base and at head.

A kernel's fingerprint is all of it that runs, without its name, comments, source lines and debug sections, so that a
rebuild that changes nothing else is no change. Kernels of a file are paired by name and architecture; several of one
name (a template in many objects) are paired by what they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from validator.change.model import Entry, MissingFile, Tree
from validator.isolation.kernels.files import contents_of, is_compiled
from validator.isolation.kernels.host import differing
from validator.isolation.kernels.model import Contents, Kernel
from validator.stage import Rebuilt

__all__ = ["Changed", "Gone", "Reader", "Shipped", "Unsettled", "compare_rebuilt", "compare_shipped", "merged"]

_LIMIT = 1024 * 1024 * 1024

Reader = Callable[[str, str, Callable[[], bytes]], Contents]
"""(path, id of the content, reads it) → what the file holds."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One kernel that is no longer what it was."""

    path: str
    base: Kernel
    head: Kernel

    @property
    def differences(self) -> tuple[str, ...]:
        """Where it takes another amount of the device than before: "its register count went from 96 to 128"."""
        told = [] if self.base.target == self.head.target else [f"it is for {self.head.target}, was {self.base.target}"]
        for what, before in self.base.resources.items():
            now = self.head.resources.get(what, before)
            if now != before:
                unit = "" if what.endswith("count") else " bytes"
                told.append(f"its {what} went from {before:,} to {now:,}{unit}")
        return tuple(told)


@dataclass(frozen=True, slots=True)
class Gone:
    """A kernel of the base that the head's file does not have."""

    path: str
    kernel: Kernel
    now: str = ""
    """Name under which the same code stands in the same file; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Something of a file that was not compared, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Shipped:
    """What became of the compiled kernels of the base."""

    files: int = 0
    """Of the base."""
    unchanged: int = 0
    """Kernels; of files that hold none that can be read, the files."""
    changed: tuple[Changed, ...] = ()
    new: tuple[tuple[str, Kernel], ...] = ()
    gone: tuple[Gone, ...] = ()
    moved: tuple[tuple[str, str, str], ...] = ()
    """(kernel, path at base, path at head): the same under the same name in another file."""
    unsettled: tuple[Unsettled, ...] = ()
    broken: tuple[Unsettled, ...] = ()
    """Sources that build at the base and not at the head."""
    same_sources: int = 0
    """Kernel sources of the base that the change does not touch, nor anything that they may be built from."""


@dataclass(slots=True)
class _Found:
    """What a comparison has found so far."""

    unchanged: int = 0
    changed: list[Changed] = field(default_factory=list)
    new: list[tuple[str, Kernel]] = field(default_factory=list)
    gone: list[tuple[str, Kernel]] = field(default_factory=list)
    unsettled: list[Unsettled] = field(default_factory=list)


def compare_shipped(base: Tree, head: Tree, isolated: Callable[[str], bool], read: Reader) -> Shipped:
    """Compare every compiled file outside the isolated paths; files that are the same object are opened once."""
    before, after = _compiled(base, isolated), _compiled(head, isolated)
    found = _Found()
    for path in sorted({*before, *after}):
        old, problem = _contents(base, before.get(path), read)
        if path in before and path in after and before[path].id == after[path].id:
            found.unchanged += max(_count(old.kernels), 1)
            continue
        now, trouble = _contents(head, after.get(path), read)
        if path in before and (problem or trouble):
            found.unsettled.append(Unsettled(path, f"not compared: {problem or trouble}"))
        else:
            _compare(path, old, now, found)
            _others(path, old, now, path in before and path in after, found)
    return _told(len(before), found)


def compare_rebuilt(rebuilt: Sequence[Rebuilt]) -> Shipped:
    """Compare what was built at the base with what was built at the head."""
    found = _Found()
    broken: list[Unsettled] = []
    for one in rebuilt:
        if one.why:
            found.unsettled.append(Unsettled(one.source, f"was not built for {one.arch} at both sides: {one.why}"))
        elif one.broken:
            broken.append(Unsettled(one.source, f"no longer builds for {one.arch} with {one.compiler}: {one.broken}"))
        for name in sorted({*one.base, *one.head}) if not one.why and not one.broken else ():
            old, now = (contents_of(name, side[name]) if name in side else Contents() for side in (one.base, one.head))
            _compare(one.source, old, now, found)
            _others(one.source, old, now, False, found)
    built = sum(not one.same_inputs for one in rebuilt)
    return replace(_told(built, found), broken=tuple(broken), same_sources=len(rebuilt) - built)


def _told(files: int, found: _Found) -> Shipped:
    moved = tuple(_moved(found))
    unchanged, changed, new = found.unchanged + len(moved), tuple(found.changed), tuple(found.new)
    return Shipped(files, unchanged, changed, new, tuple(_renamed(found)), moved, tuple(found.unsettled))


def merged(parts: Sequence[Shipped]) -> Shipped:
    """Several comparisons as one."""
    return Shipped(
        sum(p.files for p in parts),
        sum(p.unchanged for p in parts),
        tuple(c for p in parts for c in p.changed),
        tuple(c for p in parts for c in p.new),
        tuple(c for p in parts for c in p.gone),
        tuple(c for p in parts for c in p.moved),
        tuple(c for p in parts for c in p.unsettled),
        tuple(c for p in parts for c in p.broken),
        sum(p.same_sources for p in parts),
    )


def _compiled(tree: Tree, isolated: Callable[[str], bool]) -> dict[str, Entry]:
    return {e.path: e for e in tree.list("") if is_compiled(e.path) and not isolated(e.path)}


def _contents(tree: Tree, entry: Entry | None, read: Reader) -> tuple[Contents, str]:
    """What a file holds, or why nobody knows; nothing where there is no file."""
    if entry is None:
        return Contents(), ""
    try:
        return read(entry.path, entry.id, lambda: tree.read(entry.path, _LIMIT)), ""
    except MissingFile as error:
        return Contents(), "; ".join(problem.what for problem in error.problems)


def _count(kernels: Iterable[Kernel]) -> int:
    return sum(k.kind != "variable" for k in kernels)


def _compare(path: str, old: Contents, now: Contents, found: _Found) -> None:
    """Pair the kernels of one file."""
    before, after = _by(old.kernels, _name_and_target), _by(now.kernels, _name_and_target)
    gone: list[Kernel] = []
    new: list[Kernel] = []
    for key in dict.fromkeys([*before, *after]):
        same, left, right = _paired(before.get(key, []), after.get(key, []))
        found.unchanged += _count(same)
        pairs = min(len(left), len(right))
        found.changed += map(Changed, [path] * pairs, left, right)
        gone += left[pairs:]
        new += right[pairs:]
    # The only one of its name, for another architecture now.
    for name, lost in _by(gone, lambda k: (k.name, k.kind)).items():
        come = _by(new, lambda k: (k.name, k.kind)).get(name, [])
        if len(lost) == len(come) == 1:
            found.changed.append(Changed(path, lost[0], come[0]))
            gone.remove(lost[0])
            new.remove(come[0])
    found.gone += [(path, kernel) for kernel in gone]
    found.new += [(path, kernel) for kernel in new]


def _name_and_target(kernel: Kernel) -> tuple[str, str]:
    return kernel.name, kernel.target


def _by(kernels: Iterable[Kernel], key: Callable[[Kernel], tuple[str, str]]) -> Mapping[tuple[str, str], list[Kernel]]:
    groups: dict[tuple[str, str], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        groups[key(kernel)].append(kernel)
    return groups


def _paired(old: list[Kernel], now: list[Kernel]) -> tuple[list[Kernel], list[Kernel], list[Kernel]]:
    """(the same in both, left of the old, left of the new), of kernels of one name."""
    free = defaultdict(list)
    for kernel in now:
        free[kernel.fingerprint].append(kernel)
    same, left = [], []
    for kernel in old:
        if free[kernel.fingerprint]:
            free[kernel.fingerprint].pop()
            same.append(kernel)
        else:
            left.append(kernel)
    return same, left, [k for kernels in free.values() for k in kernels]


def _others(path: str, old: Contents, now: Contents, both: bool, found: _Found) -> None:
    """What such a file holds besides kernels that can be read."""
    unread = dict.fromkeys([*old.unread, *(now.unread if both else ())])
    found.unsettled += [Unsettled(path, f"not compared kernel by kernel: {why}") for why in unread]
    if both and (old.host is not None or now.host is not None):
        rest = differing(old.host or {}, now.host or {})
        what = f"its kernels were compared one by one, what else it holds was not; what differs there: {rest}"
        found.unsettled.append(Unsettled(path, what))


def _moved(found: _Found) -> Iterator[tuple[str, str, str]]:
    """Kernels that stand in another file now, each counted once; they are neither gone nor new."""
    free = {(k.name, k.target, k.fingerprint): place for place, (_, k) in enumerate(found.new) if k.name}
    gone: list[tuple[str, Kernel]] = []
    come: set[int] = set()
    for path, kernel in found.gone:
        place = free.pop((kernel.name, kernel.target, kernel.fingerprint), None)
        if place is None:
            gone.append((path, kernel))
        else:
            come.add(place)
            yield kernel.name, path, found.new[place][0]
    found.gone = gone
    found.new = [item for place, item in enumerate(found.new) if place not in come]


def _renamed(found: _Found) -> Iterator[Gone]:
    names = {(path, k.target, k.fingerprint): k.name for path, k in found.new if k.kind == "kernel"}
    for path, kernel in found.gone:
        yield Gone(path, kernel, names.get((path, kernel.target, kernel.fingerprint), ""))
