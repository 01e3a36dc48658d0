"""One kernel, all its cases: run, judge, control, shrink; nothing here decides what it means for the change."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from validator.differential.adequacy import Visibility
from validator.differential.cases import Case, cases
from validator.differential.combined import combined_cases
from validator.differential.data import NO_ANSWER
from validator.differential.device import NotRunHere
from validator.differential.errors import DifferentialError
from validator.differential.expected import Expected
from validator.differential.faults import OF_VALUE, Fault, FaultKind
from validator.differential.journal import Finished, Journal
from validator.differential.misfit import lacks_package, reference_misfit, takes_others
from validator.differential.results import CaseResult, KernelResult
from validator.differential.runner import Outputs, Runner
from validator.differential.running import run_case
from validator.differential.simpler import STEPS, Step
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Outcome, Worker

__all__ = ["Keep", "is_news", "planned_cases", "run_cases", "run_kernel", "unkept", "without_decoys"]

_SHRUNK = 3
"""Failures that are shrunk; more of the same tell no more."""
_TRIES, _IN_ALL = 60, 240
"""Runs spent on shrinking one failure since it was last made smaller, and altogether: where it goes on, it may."""
_LARGE = 1 << 16
"""Elements of the largest argument from which a run counts as four."""
_DEADLINES = 4
"""Runs without a result after which no further one is spent on it: each may take its whole deadline."""
_WITHOUT = 24
"""Cases without a result after which no more are run."""


Keep = Callable[[CaseResult, CaseResult | None], None]
"""Takes a failed case at once, and again with the smallest case that fails in the same way once that is known."""


def unkept(failed: CaseResult, simpler: CaseResult | None) -> None:
    """Nobody wants to know before the end."""


def run_kernel(
    runner: Runner,
    seed: int,
    count: int,
    first: tuple[Case, ...] = (),
    progress: Callable[[str], None] = lambda _: None,
    enough: Callable[[CaseResult], bool] = lambda _: False,
    keep: Keep = unkept,
    journal: Journal | None = None,
) -> KernelResult:
    """Run all cases of a contract, or those up to the first result that is `enough`.

    `first`: stored cases that are tried before the others. `keep` gets each kind of failure as soon as there is one.
    `journal`: what an earlier run of the same finished is not run again.
    """
    return run_cases(runner, planned_cases(runner.contract, seed, count, first), progress, enough, keep, journal)


def planned_cases(
    contract: KernelContract, seed: int, count: int, first: tuple[Case, ...] = (), strength: int | None = None
) -> tuple[Case, ...]:
    """Everything that is run for a kernel, known before the first call: stored cases, those by construction, those that
    bring their values together, and random ones; of the last two `count` in all, more where a `strength` needs more."""
    together = combined_cases(contract, seed, count // 2, strength)
    made = cases(contract, seed, max(0, count - len(together)))
    constructed = (case for case in made if case.input_class != "random")
    random = (case for case in made if case.input_class == "random")
    return tuple({c.id: c for c in (*first, *constructed, *together, *random)}.values())


def run_cases(
    runner: Runner,
    planned: tuple[Case, ...],
    progress: Callable[[str], None] = lambda _: None,
    enough: Callable[[CaseResult], bool] = lambda _: False,
    keep: Keep = unkept,
    journal: Journal | None = None,
) -> KernelResult:
    """Run exactly these cases, or those up to the first result that is `enough`.

    Raises:
        NotRunHere: the device that the candidate asks for is not here, or a package that it imports.
        DifferentialError: there is no such candidate, or it lies among tests.
    """
    if (started := runner.candidate.start()).outcome is Outcome.ABSENT:
        raise NotRunHere(started.detail.partition(": ")[2])
    target = runner.candidate.target
    if started.outcome is Outcome.UNLOADABLE and _is_not_there(target, started.detail):
        told = _AMONG_TESTS if started.detail.startswith(_OF_TESTS) else ""
        raise DifferentialError(f"the candidate {target} cannot be imported: {started.detail}{told}")
    if started.outcome is Outcome.UNLOADABLE and (told := lacks_package(runner, started.detail)):
        raise NotRunHere(told)
    journal = Journal() if journal is None else journal
    result = KernelResult(planned)
    others, tolerance = _Others(runner), Visibility(runner)
    for index, case in enumerate(planned):
        finished = journal.get(case.id)
        if finished is None:
            finished = _finish(runner, case, others, tolerance)
            journal.add(finished)
        else:
            _take_up(finished, runner, others, tolerance)
        result.results.append(finished.result)
        if len(result.results) == 1 and (told := _misfit(runner, finished.result)):
            raise DifferentialError(told)
        if is_news(finished.result, result):
            keep(finished.result, None)
            if finished.shrunk is None:
                simpler = shrink(runner, finished.result)
                finished = replace(finished, shrunk=simpler, calls=runner.calls, attributed=runner.attributed)
                finished = replace(finished, hidden=runner.hidden)
                journal.add(finished)
            result.shrunk[case.id] = simpler = finished.shrunk or finished.result
            keep(finished.result, simpler)
        if index % 50 == 49:
            progress(f"{runner.contract.match}: {index + 1} of {len(planned)} cases")
        if enough(finished.result) or _hopeless(result):
            break
    last = [r.case for r in result.of("passed")[-5:]]
    result.sound = not last or any(refuses_nothing_done(runner, case) for case in reversed(last))
    result.results = without_decoys(runner, result.results)
    result.blind, result.tried = tuple(sorted(tolerance.tried - tolerance.visible)), tuple(sorted(tolerance.tried))
    result.calls, result.wide = runner.calls, runner.reference.wide
    result.enforced, result.bound = dict(runner.candidate.enforced), runner.candidate.bound
    return result


def _misfit(runner: Runner, first: CaseResult) -> str:
    """Why no other case can be run either, in the words of whoever wrote the contract; empty where they can.

    Raises:
        NotRunHere: the candidate imports, as it is called, a package that is not here.
    """
    raised = next((f.message for f in first.faults if f.kind is FaultKind.WORKER), "")
    if told := lacks_package(runner, raised.removeprefix("the candidate raised: ")):
        raise NotRunHere(told)
    return reference_misfit(runner, first) if first.unusable else takes_others(runner, first)


_OF_TESTS = tuple(
    f"ModuleNotFoundError: No module named '{name}{end}"
    for name in ("validator", "pytest", "hypothesis")
    for end in "'."
)
_AMONG_TESTS = "; its process has none of the packages that tests use: move the function to a module without them"


def _is_not_there(target: str, error: str) -> bool:
    """Whether there is no such module or function, or none outside of tests: nothing of it was seen, right or wrong."""
    module, _, function = target.partition(":")
    parents = [module[:at] for at, char in enumerate(module) if char == "."]
    missing = [
        f"TypeError: {target} is no function",
        *(f"ModuleNotFoundError: No module named {name!r}" for name in (module, *parents)),
    ]
    return error.startswith((*missing, *_OF_TESTS, f"AttributeError: module {module!r} has no attribute {function!r}"))


class _Others:
    """Right results of the last case of each size: what the control `other-case` hands in."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._known: dict[tuple[tuple[str, int], ...], Outputs | Case] = {}

    def of(self, case: Case) -> Outputs | None:
        """Made again where only a journal knows that there was such a case."""
        found = self._known.get(case.dims)
        if isinstance(found, Case):
            expected = self._runner.expect(found, self._runner.build(found))
            found = self._known[case.dims] = _right(expected)
        return found

    def put(self, case: Case, right: Outputs | None = None) -> None:
        """`right`: its right results; None: they are not at hand."""
        self._known[case.dims] = case if right is None else right


def _right(expected: Mapping[str, Expected]) -> Outputs:
    return {name: want.native for name, want in expected.items()}


def _finish(runner: Runner, case: Case, others: _Others, tolerance: Visibility) -> Finished:
    """Run one case, and look with it for mistakes that nothing has shown yet."""
    tried, visible = set(tolerance.tried), set(tolerance.visible)
    done = run_case(runner, case, others.of(case))
    if done.expected is not None and done.inputs is not None:
        others.put(case, _right(done.expected))
        if done.result.status == "passed":
            tolerance.look(case, done.inputs, done.expected)
    return Finished(
        done.result,
        runner.calls,
        runner.attributed,
        runner.hidden,
        runner.reference.wide,
        tuple(sorted(tolerance.tried - tried)),
        tuple(sorted(tolerance.visible - visible)),
        tolerance.budget,
    )


def _take_up(finished: Finished, runner: Runner, others: _Others, tolerance: Visibility) -> None:
    """Leave everything as it was after this case."""
    if not finished.result.unusable:
        others.put(finished.result.case)
    if finished.result.status == "passed":
        tolerance.is_new(finished.result.case)
    runner.calls, runner.attributed, runner.hidden = finished.calls, finished.attributed, finished.hidden
    runner.reference.wide = finished.wide
    tolerance.tried.update(finished.tried)
    tolerance.visible.update(finished.visible)
    tolerance.budget = finished.budget


def is_news(failed: CaseResult, result: KernelResult) -> bool:
    """Whether it shows a kind of fault that no shrunk case shows yet."""
    known = {f.kind for r in result.shrunk.values() for f in r.faults}
    return len(result.shrunk) < _SHRUNK and not known.issuperset(f.kind for f in failed.faults)


_NOTHING = "def run(*arguments):\n    pass\n"


def refuses_nothing_done(runner: Runner, case: Case) -> bool:
    """Whether the same judgement, over a real process, refuses a candidate that does nothing at all."""
    inputs = runner.build(case)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "nothing.py").write_text(_NOTHING)
        with Worker("nothing:run", Path(folder), runner.candidate.limits) as worker:
            idle = replace(runner, candidate=worker)
            return bool(idle.play(case, inputs, idle.expect(case, inputs)).faults)


def without_decoys(runner: Runner, results: list[CaseResult]) -> list[CaseResult]:
    """The results, the last one that passed a failure where the candidate is right without what is essential to it."""
    passed = [r for r in results if r.status == "passed"][-5:]
    if runner.chosen.compiled or not passed:
        return results
    told = [text for target in runner.stock.essential if (text := _decoy(runner, target, [r.case for r in passed]))]
    faults = tuple(Fault(FaultKind.DECOY, "", text) for text in told)
    return [replace(r, faults=faults) if faults and r is passed[-1] else r for r in results]


def _decoy(runner: Runner, target: str, cases: list[Case]) -> str:
    """Why a function is not what makes these cases right; empty when one of them is wrong without it."""
    with replace(runner.candidate, idle=(target,)) as worker:
        worker.start()
        if target not in worker.bound:
            return f"the manifest calls {target} essential, and the head has no such function"
        idle = replace(runner, candidate=worker)
        for case in cases:
            inputs = idle.build(case)
            if idle.play(case, inputs, idle.expect(case, inputs)).faults:
                return ""
    return f"with {target} doing nothing, the result is the same in {len(cases)} of {len(cases)} cases"


def _hopeless(result: KernelResult) -> bool:
    """Whether going on tells no more: the first eight cases all ended without a result, or many have by now.

    Each may have taken its whole deadline, so that a candidate which hangs in every other case would hold the gate.
    """
    unusable = [r.unusable for r in result.results if r.unusable]
    elsewhere = sum(told.startswith("not run here") for told in unusable)
    without = sum(bool(r.faults and all(f.kind is FaultKind.WORKER for f in r.faults)) for r in result.results)
    late = sum(NO_ANSWER in told for told in unusable)
    nothing = without + len(unusable) == len(result.results) >= 8
    return nothing or without + elsewhere >= _WITHOUT or late >= _DEADLINES


def shrink(runner: Runner, failed: CaseResult) -> CaseResult:
    """The smallest case, by a fixed order of simplifications, that still shows one of the same kinds of fault."""
    best = _smallest(runner, failed)
    if best is not failed:
        best = replace(best, case=replace(best.case, origin=f"made smaller from: {failed.case.origin}"))
    if best is failed or not any(f.kind in OF_VALUE for f in best.faults):
        return best
    runner.candidate.close()  # what only earlier calls bring about is no case of its own
    return best if _alike(failed, run_case(runner, best.case).result) else failed


def _alike(failed: CaseResult, other: CaseResult) -> bool:
    """Whether they show a fault of one kind."""
    return not {f.kind for f in failed.faults}.isdisjoint(f.kind for f in other.faults)


def _smallest(runner: Runner, failed: CaseResult) -> CaseResult:
    search, before = _Search(runner, failed, failed), None
    while before is not search.best:
        before = search.best
        for step in STEPS:
            while search.goes_on(step):
                pass
    return search.best


@dataclass
class _Search:
    """For the smallest case that fails as one does, within a number of runs: the same ones on any machine."""

    runner: Runner
    failed: CaseResult
    best: CaseResult
    tried: set[Case] = field(default_factory=set)
    spent: int = 0
    since: int = 0
    """Runs since the best one was found."""
    without: int = 0
    """Runs that gave no result."""

    def goes_on(self, step: Step) -> bool:
        """Whether one of the cases that are simpler in this way fails alike: that is the best one then."""
        case, runner = self.best.case, self.runner
        for simpler in step(runner.contract, runner.space, case):
            if simpler in self.tried:
                continue
            self.tried.add(simpler)
            if self.since >= _TRIES or self.spent >= _IN_ALL or self.without > _DEADLINES:
                return False
            weight = 4 if runner.space.elements(dict(simpler.dims)) >= _LARGE else 1
            self.spent, self.since = self.spent + weight, self.since + 1
            result = run_case(runner, simpler).result
            self.without += any(f.kind is FaultKind.WORKER for f in result.faults)
            if _alike(self.failed, result):
                self.best, self.since = result, 0
                return True
        return False
