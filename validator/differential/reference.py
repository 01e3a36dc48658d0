"""The trusted side: what is right for a case, how far an honest implementation may be from it, and what mistakes give.

The reference and the trusted implementation run in processes of their own, which share nothing with the candidate's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np

from validator.differential.arena import Written, dtype_at
from validator.differential.asking import Trusted
from validator.differential.buffers import Placed
from validator.differential.cases import Case, Inputs, judged_arguments
from validator.differential.data import NO_ANSWER, Data, ReferenceFailed
from validator.differential.expected import Expected
from validator.differential.moved import Beside
from validator.differential.numbers import Array, copied, each_part, flattened, in_chunks, is_float, same_bytes
from validator.differential.overflow import LEAST_NORMAL, flushed, only_moves, overflown, reaches_the_limits
from validator.differential.padding import unused_parts
from validator.differential.rounded import only_rounds, rounds_rows
from validator.differential.spill import kept
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Outcome, Reply, Worker

__all__ = ["Outputs", "Reference"]

Outputs = Mapping[str, Array]


@dataclass
class Reference:
    """What one kernel must compute, and how well it can be computed."""

    data: Data
    worker: Worker
    """Of the reference."""
    baseline: Worker
    """Of the trusted implementation; the same when the contract names no other."""
    twin: Worker | None = None
    """Another of the reference, for what takes long."""
    wide: bool = True
    """False once the reference has refused float64: its own types then serve as the exact result too."""
    _steady: bool = field(default=False, init=False, repr=False)
    """It has given the same result for the same inputs once."""

    def __post_init__(self) -> None:
        self._reference = Trusted(self.stock, self.worker, self.twin)
        alike = self.baseline is self.worker
        self._baseline = self._reference if alike else Trusted(self.stock, self.baseline)

    @property
    def stock(self) -> KernelContract:
        """The contract as trusted callables see it."""
        return self.data.stock

    def expect(self, case: Case, inputs: Inputs) -> dict[str, Expected]:
        """What is right for these inputs. Raises `ReferenceFailed`, also where unused parts make a difference to it."""
        expected = self._expect(case, inputs)
        if case.padding:
            self._refuse_padding_read(case, inputs, expected)
        return expected

    def _refuse_padding_read(self, case: Case, inputs: Inputs, expected: Mapping[str, Expected]) -> None:
        """Nobody can be held to the NaN of unused parts where the reference itself reads them."""
        unused = unused_parts(self.data.contract, inputs)
        spread = {name: np.isnan(want.exact) & ~unused.get(name, _NONE) for name, want in expected.items()}
        if not any(where.any() for where in spread.values()):
            return
        plain = self.data.build(replace(case, padding=False))
        filled = {name: np.where(where, plain[name], inputs[name]) for name, where in unused.items()}
        right = self._expect(case, {**inputs, **filled})
        for name, where in spread.items():
            if np.any(where & ~np.isnan(right[name].exact)):
                raise ReferenceFailed(
                    f"{self.worker.target} reads what no index points to or no length covers: NaN there makes "
                    f"{name} NaN. Mend the reference, or take the index or length out of the contract's `domain` "
                    '(positions that only select are bounded by `low` and `high`, as in `high = "V - 1"`)'
                )

    def _expect(self, case: Case, inputs: Inputs) -> dict[str, Expected]:
        ((native, old_native),) = (
            ({name: kept(array) for name, array in results.items()}, old)
            for results, old in self._trusted(self._baseline, [inputs], case, 1)
        )
        self._refuse_chance(case, inputs, native)
        if self.wide:
            try:
                return self._expected(case, inputs, native, old_native)
            except ReferenceFailed:
                self.wide = False
        return self._expected(case, inputs, native, {})

    def _refuse_chance(self, case: Case, inputs: Inputs, native: Outputs) -> None:
        """What is another the next time says nothing about what is right, and would excuse as much in a candidate."""
        if self._steady or self.stock.deterministic == "spread":
            return
        results = self._trusted(self._baseline, [inputs], case, 1)
        odd = [n for once, _ in results for n in once if not same_bytes(np.ascontiguousarray(once[n]), native[n])]
        if odd:
            raise ReferenceFailed(
                f"{self.baseline.target} gives another {odd[0]} when it is called again with the same inputs: seed "
                'what it draws, or say `deterministic = "spread"`'
            )
        self._steady = True

    def _expected(self, case: Case, inputs: Inputs, native: Outputs, old_native: Outputs) -> dict[str, Expected]:
        """The reference on these inputs and on some that lie a rounding error beside them."""
        given = _widened(inputs) if self.wide else inputs
        beside = Beside(self.data.contract, case, inputs, self.wide, native)
        every = chain([given], beside.asked(given))
        results = self._trusted(self._reference, every, case, 0 if self.wide else 1, wide=self.wide)
        exact, old_exact = next(results)
        free = {
            name: _untouched((array, old_native[name]), (exact[name], old_exact[name])) if name in old_native else _NONE
            for name, array in native.items()
        }
        spreads, undecided = beside.taken((outputs for outputs, _ in results), exact)
        expected, moves = {}, self._only_moves(case)
        for name, spread in spreads.items():
            due, ends = native[name], spread.ends(self.data.contract.tolerance.max_ratio)
            yard = spread.yardstick()
            lost = free[name] | overflown(self.stock, case, inputs, spread.exact, due, moves=name in moves)
            if (tiny := flushed(self.stock, inputs, spread.exact, due)).any():
                yard[tiny] = np.maximum(yard[tiny], LEAST_NORMAL)
            if due.dtype.kind in "iu" and (only_rounds(self.stock, inputs, due) or rounds_rows(case, inputs, due)):
                yard = np.zeros_like(yard)
            noise = undecided[name].where if undecided else None
            lost = np.broadcast_to(lost, due.shape)
            expected[name] = Expected(spread.exact, due, yard, lost, noise, *ends, spread.alone)
        return expected

    def _only_moves(self, case: Case) -> set[str]:
        """Outputs whose elements are inputs' own on ordinary values; asked where that decides what is judged."""
        if not reaches_the_limits(self.stock, case):
            return set()
        plain = replace(case, variants=(), padding=False)
        inputs = self.data.build(plain)
        results = self._trusted(self._baseline, [inputs], plain, 1)
        return {n for once, _ in results for n, array in once.items() if only_moves(self.stock, inputs, array)}

    def mistaken(self, case: Case, several: list[Inputs]) -> list[Outputs | None]:
        """What the trusted implementation makes of each of these inputs; None where it raises.

        Shorter than asked for when its process ended: the last one is what ended it.
        """
        found: list[Outputs | None] = []
        for placed, _, reply in self._baseline.asked(several, case, 1):
            try:
                results = self._results(self._baseline.worker, placed, reply)
                found.append({name: kept(array) for name, array in results.items()})
            except ReferenceFailed:
                found.append(None)
            if reply.outcome not in (Outcome.OK, Outcome.ERROR):
                break
        return found

    def _trusted(
        self, trusted: Trusted, several: Iterable[Inputs], case: Case, which: int, *, wide: bool = False
    ) -> Iterator[tuple[Outputs, Outputs]]:
        """For each: (results, which last until the next is asked for; what the outputs held before).

        Raises `ReferenceFailed`.
        """
        for placed, poison, reply in trusted.asked(several, case, which, wide=wide):
            results = self._results(trusted.worker, placed, reply)
            self._refuse_returned(trusted.worker, reply, results, poison)
            yield results, {n: v for n, v in poison.items() if n in results}

    def _refuse_returned(self, worker: Worker, reply: Reply, results: Outputs, poison: Outputs) -> None:
        """It returns what the contract says that it fills."""
        returned = [] if self.stock.returns or reply.result is None else reply.result.returns
        if any(not array.arena and array.form != 4 for array in returned):
            left = [n for n, before in poison.items() if n in results and _untouched((results[n], before)).all()]
            if left and len(left) == len(results):
                told = ", ".join(f'"{name}"' for name in left)
                raise ReferenceFailed(
                    f"{worker.target} returns its result and leaves {' and '.join(left)} as it was: say "
                    f"`returns = [{told}]`, or let it fill what it is given"
                )

    def _results(self, worker: Worker, placed: Placed, reply: Reply) -> Outputs:
        """A trusted function's outputs where they lie; what it returns is taken as it is."""
        if reply.outcome is Outcome.HANG:
            raise ReferenceFailed(f"{worker.target} {NO_ANSWER}: {reply.detail[:300]}")
        if reply.result is None:
            raise ReferenceFailed(f"{worker.target} gives no result: {reply.outcome} {reply.detail[:300]}")
        declared, returned = self.stock.returns, reply.result.returns
        if declared and (len(declared) != len(returned) or any(array.form == 4 for array in returned)):
            raise ReferenceFailed(
                f"{worker.target} does not return the {len(declared)} numpy arrays that the contract declares"
            )
        names = (n for n in judged_arguments(self.stock) if n not in declared)
        outputs = {n: placed.view(n) for n in names}
        for name, array, data in zip(declared, returned, reply.result.data, strict=bool(declared)):
            outputs[name] = np.frombuffer(data, dtype_at(array.dtype)).reshape(array.shape)
        return outputs


def _widened(inputs: Inputs) -> Inputs:
    """The same values with float64 in place of every other floating-point type."""

    wide = np.dtype(np.float64)
    return {
        n: Written(v.shape, wide, partial(copied, source=v)) if isinstance(v, np.ndarray) and is_float(v.dtype) else v
        for n, v in inputs.items()
    }


_NONE = np.zeros((), bool)


def _untouched(*pairs: tuple[Array, Array]) -> Array:
    """Where every array of these pairs is the same as the one beside it; one element where none is."""
    flat = [flattened(array) for array in pairs[0]]

    def some(part: slice) -> bool:
        return any(bool(_same(*both).any()) for both in in_chunks(*(array[part] for array in flat)))

    if not any(each_part(some, flat[0].size, flat[0].itemsize)):
        return _NONE  # all but always
    same = np.ones(pairs[0][0].shape, bool)
    for pair in pairs:
        for found, after, before in in_chunks(same, *pair):
            found &= _same(after, before)
    return same if same.any() else _NONE


def _same(a: Array, b: Array) -> Array:
    """Element by element; NaN is NaN."""
    if a.dtype.kind == b.dtype.kind == "f":  # nothing is rounded where they are compared
        return np.asarray((a == b) | ((a != a) & (b != b)))
    if is_float(a.dtype):
        wide, other = a.astype(np.float64), b.astype(np.float64)
        return np.asarray((wide == other) | (np.isnan(wide) & np.isnan(other)))
    return np.asarray(a == b)
