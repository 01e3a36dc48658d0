"""Call plans: what is called before, after and between, because some candidates are right only once, or only in order.

Each plan gets a case whose first two calls are already judged; it returns the faults that its own calls show. All
comparisons between calls are of bytes, unless the contract promises no determinism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np

from validator.differential.cases import Case, Inputs, copied, fill_of, float_arguments
from validator.differential.changes import rearranged, scattered_changes, single_changes
from validator.differential.data import launches_of
from validator.differential.device import Device
from validator.differential.expected import Expected
from validator.differential.faults import OF_VALUE, Fault, FaultKind
from validator.differential.judge import judge
from validator.differential.lying import one_and_the_same
from validator.differential.numbers import Array, Source, bits_of, derived, in_chunks, is_float, largest
from validator.differential.padding import unused_parts
from validator.differential.runner import FIRST, SECOND, Outputs, Played, Runner, Series, Turn
from validator.manifest.contract import KernelContract, Role

__all__ = ["PLAN_WORDS", "attributed", "differing", "follow"]

Expectation = Mapping[str, Expected]
Plan = Callable[[Runner, Case, Inputs, Expectation, Outputs], list[Fault]]

_ELSEWHERE = Turn(1000)
"""A call that must not share an address with the first ones."""
_LATER = 16
"""Later calls, at most, after which an earlier result is looked at again: results may lie in a ring of buffers."""
_RING = 4
"""More later calls of large cases, where results lie in buffers of the candidate's own."""
_MANY, _SECONDS = 2000, 0.4
"""Calls, and how long they may take, after which results are looked at again."""
_HIDDEN = 8
"""Failures that a new process did not show, after which no process is started for others."""
_AGAIN = (FIRST, SECOND, FIRST)
"""Buffers that have been used, in turn."""

PLAN_WORDS = {
    "repeat": "called again with the same buffers and values",
    "same-buffer": "called with new values in the same buffers",
    "other-buffer": "called with new values in other buffers, while the first ones hold the old values",
    "flip": "called with one element changed in the same buffers",
    "recheck": "earlier results looked at again after later calls",
    "a-b-a": "called with other sizes in between",
    "batch-mates": "called with every other row of the batch replaced by extremes",
    "any-order": "its launches made in another order",
    "carried-on": "called on the state that it left itself",
    "many-calls": "called with new values after very many calls",
    "fresh": "called as the first call of a new process",
}


def follow(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """The faults that the case's plan shows."""
    return _PLANS[case.plan](runner, case, inputs, expected, first)


def differing(
    contract: KernelContract, expected: Expectation, a: Outputs, b: Outputs, *, always: bool = False
) -> list[tuple[str, int]]:
    """(output, elements) whose bytes differ, where the reference says anything about them.

    Nothing where the contract promises no determinism, unless `always`.
    """
    if contract.deterministic == "spread" and not always:
        return []
    out = []
    for name, want in expected.items():
        if (
            name in a
            and name in b
            and not one_and_the_same(a, b, name)
            and a[name].shape == b[name].shape == want.unspecified.shape
        ):
            count = 0
            for left, right, free in in_chunks(bits_of(a[name]), bits_of(b[name]), want.unspecified):
                if not np.array_equal(left, right):
                    count += int(np.count_nonzero((left != right) & ~free))
            if count:
                out.append((name, count))
    return out


def _same_bytes(
    runner: Runner, expected: Expectation, first: Outputs, then: Played, kind: FaultKind, told: str
) -> list[Fault]:
    """Faults of a later call, and a fault where it gives other bytes than the first one, which was right."""
    faults = _right_at_first(then, kind, told)
    if then.outputs is not None and not faults:
        for name, count in differing(runner.contract, expected, first, then.outputs):
            faults.append(Fault(kind, name, f"{told}, {count} elements of {name} differ", {"elements": count}))
    return faults


def _right_at_first(then: Played, kind: FaultKind, told: str) -> list[Fault]:
    """Faults of a later call with the same values, wrong ones by their cause."""
    return [
        replace(f, kind=kind, message=f"right at first, but {told}: {f.message}") if f.kind in OF_VALUE else f
        for f in then.faults
    ]


def _repeat(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    faults: list[Fault] = []
    with Series(runner, case, inputs, _AGAIN) as series:
        for _ in _AGAIN:
            again = series.next(expected, first)
            faults += _same_bytes(runner, expected, first, again, FaultKind.REPEAT, "called again with the same values")
            if faults:
                break
    return faults


def _judged(
    runner: Runner, case: Case, inputs: Inputs, told: str, turn: Turn = FIRST, then: Turn | None = None
) -> list[Fault]:
    """Faults of a call after others. Wrong here but right as the first call of a process: hidden state.

    A large one is judged while the plan goes on, see `Runner.later`.
    """
    runner.ready(case, inputs, turn)
    expected = runner.expect(case, inputs)

    with Series(runner, case, inputs, [replace(turn, fleeting=True)], then) as series:
        played = series.later(expected, lambda played: not played.faults)
    faults = () if played is None else played.faults
    if not any(f.kind in OF_VALUE for f in faults):
        return list(faults)
    return attributed(runner, case, inputs, expected, faults, told)


def attributed(
    runner: Runner, case: Case, inputs: Inputs, expected: Expectation, faults: tuple[Fault, ...], told: str
) -> list[Fault]:
    """The same faults, called hidden state when a new process gives the right result; or gave it so often that none is
    started any more: where it takes seconds to start, such a candidate would hold the gate for each case."""
    if runner.hidden < _HIDDEN:
        runner.candidate.close()
        if runner.play(case, inputs, expected).faults:
            return list(faults)
        runner.hidden += 1
        told = f"right in a new process, but {told}"
    else:
        told = f"as in {_HIDDEN} cases that were right in a new process, {told}"
    return [
        replace(f, kind=FaultKind.HIDDEN, message=f"{told}: {f.message}") if f.kind in OF_VALUE else f for f in faults
    ]


def _same_buffer(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    other = replace(case, seed=derived(case.seed, "new values"))
    fresh = runner.build(other)
    return _judged(runner, other, fresh, "with new values in the same buffers")


def _other_buffer(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """What was recorded with the first buffers, a graph for one, still finds the old values there."""
    other = replace(case, seed=derived(case.seed, "other buffers"))
    fresh = runner.build(other)
    told = "with new values in other buffers, while the first ones hold the old values"
    if runner.ahead(inputs):  # what it writes to is not kept
        return _judged(runner, other, fresh, told, _ELSEWHERE)
    held = runner.play(case, inputs, expected, known=first)
    faults = _right_at_first(held, FaultKind.REPEAT, "called again with the same values")
    faults = faults or _judged(runner, other, fresh, told, _ELSEWHERE)
    if held.outputs is not None and not faults:
        now = {name: held.placed.view(name).copy() for name in held.outputs if name in held.placed.views}
        for name, count in differing(runner.contract, expected, held.outputs, now, always=True):
            text = f"{count} elements of an earlier {name} changed when the candidate was called with other buffers"
            faults.append(Fault(FaultKind.EARLIER, name, text, {"elements": count}))
    return faults


def _many_calls(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """Some are right as long as somebody may be looking. Not where a call is dear: compiled for a device."""
    if runner.chosen.device is not Device.CPU:
        return _repeat(runner, case, inputs, expected, first)
    if not runner.lasting:  # such a call is made of what the one before it left
        return _repeat(runner, case, inputs, expected, first)
    runner.call_on(case, inputs, _MANY, _SECONDS)
    other = replace(case, seed=derived(case.seed, "new values"))
    return _judged(runner, other, runner.build(other), "with new values in the same buffers, after very many calls")


def _flip(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """One element of one input changes, everything else stays: a fingerprint misses it, the result must not.

    All elements of one of the floats are the same, in other places, and two elements of a row that balance; then one of
    the floats changes, and one of the integers, flags and numbers passed by value. Between them it is called with the
    values as they are: who remembers one call alone has just made one that looks the same to him.
    """
    # Of large cases in the first buffers and in the second by turns: both have held the old values.
    turn, then = FIRST, SECOND if runner.ahead(inputs) else None
    for changes, how in ((rearranged, "with {}"), (single_changes, "with only {} changed")):
        with closing(changes(runner.contract, case, inputs)) as several:
            for changed, told in several:
                if not told:
                    again = runner.play(case, changed, expected, turn, first, then)
                    faults = _right_at_first(again, FaultKind.REPEAT, "called again after a call with other values")
                else:
                    faults = _judged(runner, case, changed, f"{how.format(told)} in the same buffers", turn, then)
                if faults:
                    return faults
                turn, then = (turn, None) if then is None else (then, turn)
    return _unmoved(runner, case, inputs, expected, first) if runner.ahead(inputs) else []


def _unmoved(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """More single elements of a large case, which few cases are: the reference is asked only where a result is the same
    byte for byte as before."""
    turn, then = FIRST, SECOND
    with closing(scattered_changes(runner.contract, case, inputs)) as several:
        for changed, told in several:
            looked = replace(turn, fleeting=bool(told))  # of another result nobody asks what it is
            played = runner.play(case, changed, {} if told else expected, looked, first, then)
            faults = _right_at_first(played, FaultKind.REPEAT, "called again after a call with other values")
            turn, then = then, turn
            if told and played.outputs is not None and not faults:
                same = all(one_and_the_same(first, played.outputs, name) for name in expected)
                faults = _judged(runner, case, changed, f"with only {told} changed", turn, then) if same else []
            if faults:
                return faults
    return []


def _recheck(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    at, then = _apart(runner, inputs)
    kept = runner.play(case, inputs, expected, replace(at, keep=True), first, then)
    if kept.outputs is None or kept.faults:
        return _right_at_first(kept, FaultKind.REPEAT, "called again with the same values")
    other = replace(case, seed=derived(case.seed, "later"))
    later = runner.build(other)
    if runner.lasting and not runner.ahead(inputs):
        runner.call_on(other, later, int(Source(derived(case.seed, "ring")).below(_LATER, ())))
    runner.ready(other, later, then)
    right = runner.expect(other, later)
    faults = list(runner.play(other, later, right, then).faults)
    if any(f.kind in OF_VALUE for f in faults):
        return attributed(runner, other, later, right, tuple(faults), "after a call with other values")
    for _ in range(_RING if runner.ahead(inputs) and runner.contract.returns and not faults else 0):
        faults += runner.play(other, later, right, then).faults
    reply = runner.candidate.recall(kept.nonce, kept.placed.room)
    if reply.result is None:
        return [*faults, Fault(FaultKind.WORKER, "", f"earlier results cannot be looked at: {reply.outcome}")]
    now = runner.collected(case, kept.placed, reply.result, kept.outputs)
    faults += now.faults
    for name, count in differing(runner.contract, expected, kept.outputs, now.outputs):
        text = f"{count} elements of an earlier {name} changed when the candidate was called again"
        faults.append(Fault(FaultKind.EARLIER, name, text, {"elements": count}))
    return faults


def _apart(runner: Runner, inputs: Inputs) -> tuple[Turn, Turn]:
    """Buffers of a call that is looked at again, and of those after it: never the same. What nobody can write need not
    lie in memory twice."""
    if runner.ahead(inputs):
        return FIRST, SECOND
    return replace(SECOND, over=None), FIRST


def _interleaved(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    between = replace(
        case,
        dims=tuple(runner.space.smallest().items()),
        seed=derived(case.seed, "between"),
        variants=(),
        layouts=(),
    )
    other = runner.build(between)
    faults = _judged(runner, between, other, "after a call of other sizes", _ELSEWHERE)
    again = runner.play(case, inputs, expected, known=first)
    told = "after a call with other sizes"
    return faults + _same_bytes(runner, expected, first, again, FaultKind.HIDDEN, told)


def _batch_mates(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """One row stays, all others get extreme values: the row's results must not move."""
    contract = runner.contract
    axes = {
        name: values.shape.index(contract.batch)
        for name, (_, values) in contract.values.items()
        if values.shape is not None and contract.batch in values.shape
    }
    rows = dict(case.dims).get(contract.batch or "", 0)
    if rows < 2 or not axes:
        return []
    row = int(Source(derived(case.seed, "row")).below(rows, (1,))[0])
    changed = copied(inputs)
    others = [r for r in range(rows) if r != row]
    if case.seed % 2:  # a single outlier shows what an average over many hides
        others = others[:1]
    for name in float_arguments(inputs):
        domain = contract.values[name][1].domain
        if name in axes and not (domain.probability or domain.sorted or domain.values):
            _, top = fill_of(contract, case, name).ends(0.0, min(100.0, largest(inputs[name].dtype)))
            changed[name][(slice(None),) * axes[name] + (others,)] = top
    played = runner.play(case, changed, runner.expect(case, changed))
    if played.outputs is None:
        return list(played.faults)
    faults = [f for f in played.faults if f.kind is not FaultKind.VALUE]
    picked = {n: (slice(None),) * axes[n] + (row,) for n in expected if n in axes}
    wanted = {n: _row(expected[n], at) for n, at in picked.items()}
    got = {n: played.outputs[n][at] for n, at in picked.items()}
    told = f"with rows {_listed(others)} replaced by extremes, row {row} kept"
    faults += [replace(f, kind=FaultKind.BATCH, message=f"{told}: {f.message}") for f in judge(contract, wanted, got)]
    if contract.deterministic == "across-batch" and not faults:
        before = {n: first[n][at] for n, at in picked.items()}
        for name, count in differing(contract, wanted, before, got):
            faults.append(Fault(FaultKind.BATCH, name, f"{told}, {count} elements of its {name} differ in their bytes"))
    return faults


def _listed(rows: list[int]) -> str:
    return ", ".join(map(str, rows[:6])) + (f" and {len(rows) - 6} more" if len(rows) > 6 else "")


def _row(want: Expected, at: tuple[object, ...]) -> Expected:
    judged = (want.exact, want.native, want.yardstick, want.unspecified)
    parts = (*judged, want.undecided, want.least, want.most, want.alone)
    return Expected(*(None if part is None else np.asarray(part[at]) for part in parts))  # type: ignore[index,arg-type]


def _fresh(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    runner.candidate.close()
    played = runner.play(case, inputs, expected, known=first)
    told = "as the first call of a new process"
    return _same_bytes(runner, expected, first, played, FaultKind.HIDDEN, told)


def _any_order(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """The launches of one result from the last to the first, then in an order drawn for the case."""
    count = launches_of(runner.contract, case)
    orders = [range(count - 1, -1, -1), Source(derived(case.seed, "order")).order(count).tolist()]
    for order in orders if count > 1 else ():
        again = runner.play(case, inputs, expected, Turn(order=order))
        told = f"with its launches in the order {_listed([int(n) for n in order])}"
        faults = [
            replace(f, kind=FaultKind.ORDER, message=f"{told}: {f.message}") if f.kind in OF_VALUE else f
            for f in again.faults
        ] or _same_bytes(runner, expected, first, again, FaultKind.ORDER, told)
        if faults:
            return faults
    return []


def _carried_on(runner: Runner, case: Case, inputs: Inputs, expected: Expectation, first: Outputs) -> list[Fault]:
    """New values on the state that the first call left, twice: what one launch leaves is what the next one finds."""
    left, before = first, inputs
    for step in range(2):
        other = replace(case, seed=derived(case.seed, "carried on", step))
        fresh = runner.build(other)
        states = [n for n, (role, _) in runner.contract.values.items() if role is Role.STATE and n in left]
        if any(_overflowed(before[n], left[n]) for n in states):
            return []  # nobody goes on from there
        fresh |= {n: left[n] for n in states}
        if case.padding:
            _padded_anew(runner, other, before, fresh, states)
        before = fresh
        wanted = runner.expect(other, fresh)
        then = runner.play(other, fresh, wanted)
        if then.faults or then.outputs is None:
            told = f"on the state that call {step + 1} left"
            return attributed(runner, other, fresh, wanted, then.faults, told)
        left = then.outputs
    return []


def _overflowed(before: Array, after: Array) -> bool:
    """Whether a state left the numbers where it was one."""
    if not is_float(after.dtype):
        return False
    pairs = in_chunks(before, after)
    return any(bool(np.any(np.isfinite(b.astype(np.float64)) & ~np.isfinite(a.astype(np.float64)))) for b, a in pairs)


def _padded_anew(runner: Runner, case: Case, before: Inputs, now: Inputs, states: list[str]) -> None:
    """The NaN of a state's unused parts follows what is unused now: a launch left it there, but none made it.

    Where it stood before and is used now, callers would have put values.
    """
    plain = runner.build(replace(case, padding=False))
    unused_before = unused_parts(runner.contract, before)
    for name, unused in unused_parts(runner.contract, now).items():
        if name in states:
            state = now[name] = now[name].copy()
            untouched = unused_before[name] & np.isnan(state)
            state[untouched] = plain[name][untouched]
            state[unused] = np.nan


_PLANS: dict[str, Plan] = {
    "repeat": _repeat,
    "same-buffer": _same_buffer,
    "other-buffer": _other_buffer,
    "flip": _flip,
    "recheck": _recheck,
    "a-b-a": _interleaved,
    "batch-mates": _batch_mates,
    "any-order": _any_order,
    "carried-on": _carried_on,
    "many-calls": _many_calls,
    "fresh": _fresh,
}
