"""One kernel's processes: ask the reference what is right, call the candidate, look at everything that came back."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from validator.differential.buffers import PATTERNS, Placed, Written, code_of, place, poisoned
from validator.differential.cases import (
    FILLED,
    Case,
    Inputs,
    build,
    fill_of,
    float_arguments,
    is_written,
    judged_arguments,
    unused_parts,
)
from validator.differential.device import Candidate, Device, NotRunHere, launch_of
from validator.differential.errors import DifferentialError
from validator.differential.faults import Fault, FaultKind
from validator.differential.judge import Expected, Spread, accepts, judge
from validator.differential.numbers import Array, Source, derived, eps_of, in_chunks, is_float
from validator.differential.shapes import shape_of
from validator.manifest.contract import KernelContract
from validator.manifest.dims import parse_expression
from validator.run.channel import ALIGNED, Buffer, Result
from validator.run.channel import Array as Descriptor
from validator.run.sandbox import Outcome, Reply, Worker

__all__ = ["Outputs", "Played", "ReferenceFailed", "Runner"]

Outputs = dict[str, Array]

_AT_ONCE = 1 << 20
"""Bytes of arguments that are worth one exchange for several calls; beyond, each call is let go of before the next."""


def _probes(inputs: Inputs) -> int:
    """How often the reference is moved to see its spread: few elements need many, many need few."""
    size = max((v.size for v in inputs.values() if isinstance(v, np.ndarray)), default=0)
    return 8 if size <= 1 << 12 else 4 if size <= 1 << 16 else 2 if size <= 1 << 22 else 1


class ReferenceFailed(DifferentialError):
    """The reference or the trusted implementation gives no result for a case, so nobody can say what is right."""


@dataclass(frozen=True, slots=True)
class Played:
    """One call of the candidate, judged."""

    faults: tuple[Fault, ...]
    outputs: Outputs | None
    """None: no result."""
    nonce: int
    placed: Placed


@dataclass
class Runner:
    """The candidate and the reference of one kernel, each in processes of their own."""

    chosen: Candidate
    """What the candidate is and where it runs."""
    stock: KernelContract
    """The contract as the trusted callables see it."""
    candidate: Worker
    reference: Worker
    baseline: Worker
    """The trusted implementation; the same worker as `reference` when the contract names no other."""
    checker: Worker | None = None
    """Decides about values under the tolerance policy `property`."""
    generator: Worker | None = None
    """Makes the arguments where the contract cannot describe them."""
    wide: bool = True
    """False once the reference has refused float64: its own types then serve as the exact result too."""
    calls: int = 0
    attributed: int = 0
    """Failures for which a new process was started to find out why."""

    @property
    def contract(self) -> KernelContract:
        """The contract as the candidate sees it: a compiled kernel takes more arguments, and returns none."""
        return self.chosen.contract

    @cached_property
    def _steps(self) -> dict[str, tuple[str, int]]:
        """By-value argument → (array, axis) whose stride it tells the kernel."""
        told = {n: str(v.stride).rpartition(".") for n, (_, v) in self.contract.values.items() if v.stride is not None}
        return {name: (array, int(axis)) for name, (array, _, axis) in told.items()}

    def _layouts(self, case: Case) -> dict[str, str]:
        """How arguments lie; rows are made distant here only for a callable on this machine's own memory."""
        here = self.chosen.adapter.name in ("numpy", "torch")
        return {name: layout for name, layout in case.layouts if here or layout != "distant"}

    def _room(self, case: Case, contract: KernelContract, widest: int = 0) -> int:
        """Bytes for what is returned. `widest`: of an element, where it may be wider than the contract says."""
        total = 0
        for name in contract.returns:
            fill = fill_of(contract, case, name)
            length = math.prod(fill.shape) * max(fill.dtype.itemsize, widest)
            total += -(-length // ALIGNED) * ALIGNED
        return total

    def _numbered(
        self, contract: KernelContract, case: Case, order: Sequence[int] = ()
    ) -> tuple[int, Sequence[int]] | None:
        """(position of the argument that says which launch it is, its values in turn); None: there is one launch."""
        if contract.launches is None:
            return None
        names = [name for name in contract.values if name not in contract.returns]
        return names.index(contract.launches.argument), order or range(self.launches(case))

    def launches(self, case: Case) -> int:
        """Launches that make one result."""
        several = self.contract.launches
        return 1 if several is None else parse_expression(str(several.count)).value(dict(case.dims))

    def aliases(self, case: Case) -> dict[str, str]:
        """Argument → argument whose memory it shares in this case."""
        return {n: str(getattr(self.contract.values[n][1], "alias_of", "")) for n in case.aliased}

    def expect(self, case: Case, inputs: Inputs) -> dict[str, Expected]:
        """What is right for these inputs. Raises `ReferenceFailed`, also where unused parts make a difference to it."""
        expected = self._expect(case, inputs)
        if case.padding:
            self._refuse_padding_read(case, inputs, expected)
        return expected

    def _refuse_padding_read(self, case: Case, inputs: Inputs, expected: Mapping[str, Expected]) -> None:
        """Nobody can be held to the NaN of unused parts where the reference itself reads them."""
        unused = unused_parts(self.contract, inputs)
        spread = {name: np.isnan(want.exact) & ~unused.get(name, _NONE) for name, want in expected.items()}
        if not any(where.any() for where in spread.values()):
            return
        plain = self.build(replace(case, padding=False))
        filled = {name: np.where(where, plain[name], inputs[name]) for name, where in unused.items()}
        right = self._expect(case, {**inputs, **filled})
        for name, where in spread.items():
            if np.any(where & ~np.isnan(right[name].exact)):
                raise ReferenceFailed(
                    f"{self.reference.target} reads what no index points to or no length covers: NaN there makes "
                    f"{name} NaN. Mend the reference, or take the index or length out of the contract's `domain`"
                )

    def _expect(self, case: Case, inputs: Inputs) -> dict[str, Expected]:
        ((native, old_native),) = (
            ({name: array.copy() for name, array in results.items()}, old)
            for results, old in self._trusted(self.baseline, [inputs], case, 1)
        )
        if self.wide:
            try:
                return self._expected(case, inputs, native, old_native)
            except ReferenceFailed:
                self.wide = False
        return self._expected(case, inputs, native, {})

    def _expected(self, case: Case, inputs: Inputs, native: Outputs, old_native: Outputs) -> dict[str, Expected]:
        """The reference on these inputs and on some that lie a rounding error beside them."""
        given = _widened(inputs) if self.wide else inputs
        moved = (self._moved(inputs, case, index) for index in range(_probes(inputs)))
        results = self._trusted(self.reference, chain([given], moved), case, 0 if self.wide else 1)
        exact, old_exact = next(results)
        untouched = {
            name: _untouched((array, old_native[name]), (exact[name], old_exact[name])) if name in old_native else _NONE
            for name, array in native.items()
        }
        spreads = {name: Spread(exact[name].astype(np.float64), array) for name, array in native.items()}
        for outputs, _ in results:
            for name, spread in spreads.items():
                spread.add(outputs[name])
        return {
            name: Expected(spread.exact, native[name], spread.yardstick(), np.broadcast_to(free, native[name].shape))
            for (name, spread), free in zip(spreads.items(), untouched.values(), strict=True)
        }

    def mistaken(self, case: Case, several: list[Inputs]) -> list[Outputs | None]:
        """What the trusted implementation makes of each of these inputs; None where it raises.

        Shorter than asked for when its process ended: the last one is what ended it.
        """
        found: list[Outputs | None] = []
        for placed, _, reply in self._asked(self.baseline, several, case, 1):
            try:
                results = self._results(self.baseline, placed, reply)
                found.append({name: array.copy() for name, array in results.items()})
            except ReferenceFailed:
                found.append(None)
            if reply.outcome not in (Outcome.OK, Outcome.ERROR):
                break
        return found

    def play(
        self,
        case: Case,
        inputs: Inputs,
        expected: Mapping[str, Expected],
        *,
        slot: int = 0,
        over: int | None = None,
        which: int = 0,
        keep: bool = False,
        order: Sequence[int] = (),
    ) -> Played:
        """Call the candidate once (or launch after launch, in this order) and judge all of it.

        `slot`: first of the buffers; `over`: of those whose contents these may replace, at other addresses; `which`:
        first or second poison and guard pattern.
        """
        prepared, _ = self._prepared(self.contract, inputs, which)
        placed = place(
            self.candidate,
            prepared,
            self._layouts(case),
            self.aliases(case),
            first_slot=slot,
            over=over,
            pattern=PATTERNS[which],
            steps=self._steps,
            room=self._room(case, self.contract),
        )
        nonce = secrets.randbits(63)
        launch = launch_of(self.contract, dict(case.dims)) if self.chosen.compiled else ()
        more = (*(value for _, value in case.configuration), *launch)
        *before, last = placed.calls(self._numbered(self.contract, case, order), keep=keep, more=more)
        self.calls += 1 + len(before)
        ended = [reply for reply in self.candidate.call_many(before) if reply.result is None]
        reply = ended[0] if ended else self.candidate.call(last, nonce)
        if reply.outcome is Outcome.ABSENT:
            raise NotRunHere(reply.detail.partition(": ")[2][:1000])
        if reply.outcome is Outcome.HANG and self.chosen.device is Device.PTX:
            raise NotRunHere(f"running the PTX takes longer than allowed: {reply.detail}")
        if reply.result is None:
            return Played((_no_result(reply),), None, nonce, placed)
        outputs, faults = self.collected(case, placed, reply.result)
        faults += self._disturbed(placed, prepared)
        if not any(f.kind is FaultKind.METADATA for f in faults):
            faults += self.judged(inputs, expected, outputs)
        return Played(tuple(faults), outputs, nonce, placed)

    def judged(self, inputs: Inputs, expected: Mapping[str, Expected], outputs: Outputs) -> list[Fault]:
        """Every fault of these outputs. Under the policy `property`, the checker decides about values."""
        return judge(self.contract, expected, outputs) or self._checked(inputs, expected, outputs)

    def accepted(self, inputs: Inputs, expected: Mapping[str, Expected], outputs: Outputs) -> bool:
        """Whether `judged` finds no fault; cheaper where nobody asks which."""
        return accepts(self.contract, expected, outputs) and not self._checked(inputs, expected, outputs)

    def _checked(self, inputs: Inputs, expected: Mapping[str, Expected], outputs: Outputs) -> list[Fault]:
        """What the checker says."""
        if self.checker is None:
            return []
        # Outputs that only the result fills say nothing beforehand; the checker gets the inputs and the results.
        given = {n: inputs[n] for n, (role, _) in self.stock.values.items() if role not in FILLED}
        placed = place(self.checker, {**given, **{f"result {n}": outputs[n] for n in expected}})
        reply = self.checker.call(placed.call())
        if reply.outcome is Outcome.ERROR:
            return [Fault(FaultKind.VALUE, "", f"{self.checker.target}: {reply.detail[:400]}")]
        if reply.result is None:
            raise ReferenceFailed(f"{self.checker.target} gives no answer: {reply.outcome} {reply.detail[:300]}")
        holds = len(reply.result.data) == 1 and _DTYPES[reply.result.returns[0].dtype] == np.bool_
        if not holds:
            raise ReferenceFailed(f"{self.checker.target} returns no bool")
        right = np.frombuffer(reply.result.data[0], np.bool_)
        return [] if right.all() else [Fault(FaultKind.VALUE, "", f"{self.checker.target} does not hold")]

    def build(self, case: Case) -> Inputs:
        """The case's data: from the contract, or from the generator that it names. Raises `ReferenceFailed`."""
        inputs = build(self.contract, case)
        if self.generator is None:
            return inputs
        numbers = {"seed": case.seed % (1 << 62), **dict(case.dims)}
        reply = self.generator.call(place(self.generator, numbers).call())
        filled = [n for n, (r, _) in self.stock.values.items() if isinstance(inputs[n], np.ndarray) and r not in FILLED]
        if reply.result is None or len(reply.result.returns) != len(filled):
            raise ReferenceFailed(
                f"{self.generator.target} must return {len(filled)} arrays ({', '.join(filled)}): {reply.detail[:300]}"
            )
        for name, array, data in zip(filled, reply.result.returns, reply.result.data, strict=True):
            due = inputs[name]
            if array.form == 4 or (array.shape, _DTYPES[array.dtype]) != (due.shape, due.dtype):
                raise ReferenceFailed(f"{self.generator.target}: {name} must be {due.dtype.name}{list(due.shape)}")
            inputs[name] = np.frombuffer(data, due.dtype).reshape(due.shape).copy()
        return inputs

    def collected(self, case: Case, placed: Placed, result: Result) -> tuple[Outputs, list[Fault]]:
        """The outputs, copied out of what came back, and what is wrong with their form."""
        outputs = {
            name: placed.view(name).copy()
            for name in judged_arguments(self.contract)
            if name not in self.contract.returns
        }
        returned = list(zip(result.returns, result.data, strict=True))
        declared = self.contract.returns
        if not declared and all(array.arena for array, _ in returned):
            returned = []  # `return out` beside filling it is no second result
        if len(returned) != len(declared):
            text = f"returned {len(returned)} values, the contract declares {len(declared)}"
            return outputs, [Fault(FaultKind.METADATA, "", text)]
        faults = []
        for name, (array, data) in zip(declared, returned, strict=True):
            value, wrong = self._returned(case, name, array, data, placed)
            if wrong:
                faults.append(Fault(FaultKind.METADATA, name, f"{name} {wrong}"))
            elif value is not None:
                outputs[name] = value
        return outputs, faults

    def _returned(
        self, case: Case, name: str, array: Descriptor, data: Buffer, placed: Placed
    ) -> tuple[Array | None, str]:
        """A returned value, or what is wrong with it. Its shape is only a claim until it is compared."""
        values = self.contract.values[name][1]
        if array.form == 4:
            return None, "is not a plain numpy array of a known element type"
        dtype, due = _DTYPES[array.dtype], self.shape(case, name)
        if array.shape != due:
            return None, f"has the shape {list(array.shape)}, the contract says {list(due)}"
        count = math.prod(due)
        if count * dtype.itemsize != len(data):
            return None, f"says {list(array.shape)} and holds {len(data)} bytes"
        if array.arena:
            owner = next((n for n, (arena, _) in placed.views.items() if arena == array.arena - 1), None)
            if owner is None or getattr(values, "alias_of", None) != owner:
                return None, f"shares memory with {owner or 'no buffer that was sent'}, which the contract does not say"
        contiguous = tuple(int(s) for s in np.empty(array.shape, dtype).strides)
        if count and "strided" not in values.layouts and "transposed" not in values.layouts:
            odd = [i for i, n in enumerate(array.shape) if n > 1 and array.strides[i] != contiguous[i]]
            if odd:
                return None, f"has strides {list(array.strides)}, contiguous are {list(contiguous)}"
        return np.frombuffer(data, dtype).reshape(array.shape).copy(), ""

    def _disturbed(self, placed: Placed, prepared: Inputs) -> list[Fault]:
        written = {n for n, (role, values) in self.contract.values.items() if is_written(role, values)}
        faults = []
        for name, count in placed.disturbed(prepared, written):
            if name in written:
                text = f"{count} bytes beside {name} were written (guard zone or gap between rows)"
                faults.append(Fault(FaultKind.GUARD, name, text, {"bytes": count}))
            else:
                text = f"{name} is an input and {count} of its bytes changed"
                faults.append(Fault(FaultKind.INPUT, name, text, {"bytes": count}))
        return faults

    @staticmethod
    def _prepared(contract: KernelContract, inputs: Inputs, which: int) -> tuple[Inputs, Outputs]:
        """What is passed: outputs and workspaces poisoned, returned ones left out; and the poisoned ones."""
        passed = {n: inputs[n] for n in contract.values if n not in contract.returns}
        poison = {
            n: poisoned(v, which)
            for n, v in passed.items()
            if contract.values[n][0] in FILLED and isinstance(v, np.ndarray | Written)
        }
        return {**passed, **poison}, poison

    def _trusted(
        self, worker: Worker, several: Iterable[Inputs], case: Case, which: int
    ) -> Iterator[tuple[Outputs, Outputs]]:
        """For each: (results, which last until the next is asked for; what the outputs held before).

        Raises `ReferenceFailed`.
        """
        for placed, poison, reply in self._asked(worker, several, case, which):
            results = self._results(worker, placed, reply)
            yield results, {n: v for n, v in poison.items() if n in results}

    def _asked(
        self, worker: Worker, several: Iterable[Inputs], case: Case, which: int
    ) -> Iterator[tuple[Placed, Outputs, Reply]]:
        """For each: where it lies, what the outputs held before, what came back; small ones in one exchange."""
        aliases, room = self.aliases(case), self._room(case, self.stock, widest=8)
        numbered = self._numbered(self.stock, case)
        waiting: list[tuple[Placed, Outputs]] = []
        for inputs in several:
            passed, poison = self._prepared(self.stock, inputs, which)
            slot = sum(len(placed.arenas) + 1 for placed, _ in waiting)
            placed = place(worker, passed, {}, aliases, first_slot=slot, room=room)
            waiting.append((placed, poison))
            if sum(placed.size for placed, _ in waiting) > _AT_ONCE:
                yield from self._exchanged(worker, waiting, numbered)
                waiting = []
        yield from self._exchanged(worker, waiting, numbered)

    def _exchanged(
        self, worker: Worker, waiting: list[tuple[Placed, Outputs]], numbered: tuple[int, Sequence[int]] | None
    ) -> Iterator[tuple[Placed, Outputs, Reply]]:
        if waiting:
            calls = [placed.calls(numbered) for placed, _ in waiting]
            replies = worker.call_many([call for some in calls for call in some])
            ends = itertools.accumulate(map(len, calls))
            for (placed, poison), some, end in zip(waiting, calls, ends, strict=True):
                of_this = replies[end - len(some) : end]
                reply = next((r for r in of_this if r.result is None), of_this[-1])
                yield placed, poison, reply
                placed.empty()

    def _results(self, worker: Worker, placed: Placed, reply: Reply) -> Outputs:
        """A trusted function's outputs where they lie; what it returns is taken as it is."""
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
            outputs[name] = np.frombuffer(data, _DTYPES[array.dtype]).reshape(array.shape)
        return outputs

    def _moved(self, inputs: Inputs, case: Case, index: int) -> Inputs:
        """The inputs, each moved by about one rounding error of the promised precision (or of its own, if coarser)."""
        promised = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
        moved = dict(inputs)
        for name in float_arguments(inputs):
            array = inputs[name]
            # Values of one byte are scaled up before anybody computes with them: nothing is rounded to them.
            own = eps_of(array.dtype) / 2 if array.itemsize > 1 else 0.0
            eps = max(promised[self.contract.compute_dtype], own)
            source = Source(derived(case.seed, "probe", index, name))
            dtype = np.dtype(np.float64) if self.wide else array.dtype
            moved[name] = Written(array.shape, dtype, partial(_write_moved, array, eps, source))
        return moved

    def shape(self, case: Case, name: str) -> tuple[int, ...]:
        """Sizes of an argument in a case."""
        return shape_of(self.contract.values[name][1].shape or (), dict(case.dims))


def _write_moved(array: Array, eps: float, source: Source, target: Array) -> None:
    """Every element times 1 and a little."""
    for there, here in in_chunks(target, array):
        # Not plus or minus one unit: equal moves of two inputs would cancel in their difference far too often.
        moved = here.astype(np.float64) * (1.0 + eps * source.bell(here.shape))
        # Where the target is wider it is not rounded again: most moves would round to none at all.
        there[...] = moved if there.dtype != array.dtype else moved.astype(array.dtype)


def _widened(inputs: Inputs) -> Inputs:
    """The same values with float64 in place of every other floating-point type."""

    def write(array: Array, target: Array) -> None:
        target[...] = array

    wide = np.dtype(np.float64)
    return {
        n: Written(v.shape, wide, partial(write, v)) if isinstance(v, np.ndarray) and is_float(v.dtype) else v
        for n, v in inputs.items()
    }


_NONE = np.zeros((), bool)


def _untouched(*pairs: tuple[Array, Array]) -> Array:
    """Where every array of these pairs is the same as the one beside it; one element where none is."""
    same = np.ones(pairs[0][0].shape, bool)
    for pair in pairs:
        for found, after, before in in_chunks(same, *pair):
            found &= _same(after, before)
    return same if same.any() else _NONE


def _same(a: Array, b: Array) -> Array:
    """Element by element; NaN is NaN."""
    if is_float(a.dtype):
        wide, other = a.astype(np.float64), b.astype(np.float64)
        return np.asarray((wide == other) | (np.isnan(wide) & np.isnan(other)))
    return np.asarray(a == b)


def _no_result(reply: Reply) -> Fault:
    detail = f": {reply.detail[:500]}" if reply.detail else ""
    told = {
        Outcome.ERROR: "the candidate raised",
        Outcome.UNLOADABLE: "the candidate cannot be imported",
        Outcome.MISSING: "the candidate's process ended without an answer",
    }.get(reply.outcome, f"the candidate's process ended in {reply.outcome}")
    return Fault(FaultKind.WORKER, "", told + detail, {"outcome": str(reply.outcome)})


def _all_dtypes() -> list[np.dtype[Any]]:
    from validator.differential.numbers import dtype_of
    from validator.run.channel import DTYPE_NAMES

    return [dtype_of(name) for name in DTYPE_NAMES]


_DTYPES = _all_dtypes()
assert all(code_of(d) == i for i, d in enumerate(_DTYPES))
