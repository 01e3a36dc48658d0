"""A call's buffers that lie on a device, looked at where they lie: as a rule in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from validator.differential.arena import body_of, is_contiguous, view_of
from validator.differential.expected import Expected
from validator.differential.lying import There, as_it_is
from validator.differential.numbers import Array, same_bytes
from validator.run.channel import GIVEN
from validator.run.elsewhere import Region, Stretch, Taken

if TYPE_CHECKING:
    from validator.differential.buffers import Placed

__all__ = ["Found", "Look", "looked", "result"]

Found = Array | There
_Alike = Callable[[Taken, Array], None]


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a call that has been answered."""

    changed: Mapping[int, int]
    """Arena → bytes that changed though they may not, of those that are looked at where they lie."""
    results: Mapping[str, Found]
    """Arguments that were filled, as they were then; what is known already stands for what is the same."""
    expected: Mapping[str, Expected]


@dataclass(frozen=True, slots=True)
class _Result:
    """Elements of a region, in a row."""

    region: Region
    body: tuple[int, int]
    like: Array
    known: Found | None
    """What they may be."""
    want: Expected | None

    def as_known(self) -> Stretch | None:
        known = self.known
        if known is None or (known.shape, known.dtype) != (self.like.shape, self.like.dtype):
            return None
        return self.region.as_known(self.body, known.taken if isinstance(known, There) else known)

    def take(self, *, weighed: bool = False) -> There:
        """`weighed`: by what it is to be, in the next look."""
        right = self.want.exact if self.want is not None and weighed else None
        return There(self.region.take(self.body, right), self.like.shape, self.like.dtype)

    def found(self, there: There, alike: _Alike) -> Found:
        """What stands for it: an array that was known has the same bytes, or they are those that were taken."""
        if self.known is None or isinstance(self.known, There):
            return there
        weight = there.taken.weight(self.want.exact) if self.want is not None else None
        if weight is not None and self.want is not None and self.known is self.want.native:
            same = weight[3] == 0
        else:
            same = same_bytes(there.here(), self.known)
        if not same:
            return there
        alike(there.taken, self.known)
        return self.known


def looked(
    placed: Placed, written: Collection[str], known: Mapping[str, Array], expected: Mapping[str, Expected]
) -> Look:
    """Everything of a call that can be seen where it lies. `written`: arguments whose elements may change."""
    elsewhere = placed.worker.elsewhere
    if elsewhere is None or not (placed.regions or placed.back):
        return Look({}, {}, expected)
    around = _around(placed, set(written))
    filled = {
        name: _Result(region, body_of(array), view_of(placed.arenas[at], array), as_it_is(known, name), expected[name])
        for name, (at, array) in placed.views.items()
        if name in written and name in expected and (region := placed.regions.get(at)) is not None
        if is_contiguous(array)
    }
    same = {name: row for name, one in filled.items() if (row := one.as_known()) is not None}
    taken = {name: one.take(weighed=True) for name, one in filled.items() if name not in same}
    rows = [row for several in around.values() for row in several]
    weighed = [(there.taken, expected[name].exact) for name, there in taken.items()]
    counts = iter(elsewhere.look([*rows, *same.values()], weighed))
    changed = {at: sum(next(counts) for _ in several) for at, several in around.items()}
    other = [name for name in same if next(counts)]
    results: dict[str, Found] = {name: one for name, _ in same.items() if (one := as_it_is(known, name)) is not None}
    taken |= {name: filled[name].take(weighed=True) for name in other}
    if other:
        elsewhere.look((), [(taken[name].taken, expected[name].exact) for name in other])
    results |= {name: filled[name].found(there, elsewhere.alike) for name, there in taken.items()}
    for at, count in changed.items():
        if not count:
            placed.regions[at].confirm()
    return Look(changed, results, expected)


def result(placed: Placed, region: Region, body: tuple[int, int], like: Array, known: Found | None, name: str) -> Found:
    """Elements of a region, looked at by themselves; what is known already stands for what is the same."""
    elsewhere = placed.worker.elsewhere
    assert elsewhere is not None
    one = _Result(region, body, like, known, placed.look.expected.get(name) if placed.look is not None else None)
    row = one.as_known()
    if row is not None and known is not None and elsewhere.look([row]) == [0]:
        return known
    return one.found(one.take(), elsewhere.alike)


def _around(placed: Placed, written: set[str]) -> dict[int, Sequence[Stretch]]:
    """Arena → what must not have changed in it."""
    there: dict[int, Sequence[Stretch]] = {}
    for at, region in placed.regions.items():
        array = next(array for index, array in placed.views.values() if index == at)
        if placed.slots[at] & GIVEN:
            there[at] = region.held(body_of(array), placed.pattern)
        elif is_contiguous(array) and any(placed.views[name][0] == at for name in written & placed.views.keys()):
            there[at] = region.around(body_of(array), placed.pattern)
    return there
