"""What the ordering audit says of a kernel, held against launches of it on a GPU.

Three obligations a kernel: `neighbour/KERNEL` (behind a late producer, publisher and reader), `delays/KERNEL` (with its
own threads held up) and `sanitizer/KERNEL` (under compute-sanitizer). A fault that audit and launches show is refuted
twice; one that launches show and the audit did not find is a defect of the audit, and said to be; one that no delay
shows is not disproved. Where nothing can be launched each is unproven with the reason.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from validator.manifest.contract import KernelContract
from validator.pipeline.audited import Build, audited, bytes_of, launchable_builds, texts
from validator.pipeline.launched import (
    Answer,
    Outcome,
    beside_neighbours,
    delayed,
    not_launched,
    under_sanitizer,
    worst_of,
)
from validator.stage import StageContext
from validator.verdict.model import Evidence, Finding, Obligation, StageResult, Status, Strength

__all__ = ["FAMILIES", "FAMILY", "STATEMENT", "Launcher", "Observer", "cross_check"]

_SECONDS = 120.0
"""For one kernel in one way; the first also starts the process."""
_PASSED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""What the observer's process is told of the environment."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of obligation."""

    name: str
    statement: str
    """Of every kernel."""
    denial: str
    gap: str
    """What no launch of this kind shows."""


NEIGHBOUR = Family(
    "neighbour",
    "behind a late producer and a late reader, every kernel computes what it computes alone",
    "computes something else behind a late producer or a late reader than alone",
    "faults that need other neighbours, sizes or delays than these",
)
DELAYS = Family(
    "delays",
    "with some of its threads held up at its synchronisation, every kernel computes what it computes alone",
    "computes something else with some of its threads held up",
    "faults that need other delays, seeds or sizes than these",
)
SANITIZER = Family(
    "sanitizer",
    "compute-sanitizer reports nothing of a launch of any kernel",
    "does what compute-sanitizer reports",
    "launches of other sizes than this one, and what the tools do not watch (early accesses among it)",
)
FAMILIES = (NEIGHBOUR, DELAYS, SANITIZER)
FAMILY, STATEMENT = NEIGHBOUR.name, NEIGHBOUR.statement


class Observer(Protocol):
    """Launches kernels elsewhere, and never raises for what a kernel does."""

    def ask(self, request: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Launcher:
    """How this machine launches. Tests hand in their own."""

    lacking: Callable[[], str]
    """Why nothing can be launched, as far as can be seen without starting a driver."""
    opened: Callable[[Path], Any]
    """An `Observer` for a folder, as a context manager."""
    watched: Callable[[Path, Path], list[Answer]]
    """One launch of a request's file under every tool of compute-sanitizer, in a folder."""


def _lacking() -> str:
    from validator.run.adapters import ADAPTERS

    return ADAPTERS["cuda"].lacking()


def _environment(folder: Path) -> dict[str, str]:
    known = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**known, "HOME": str(folder), "TMPDIR": str(folder)}


_PROGRAM = (sys.executable, "-m", "validator.pipeline.observer")


@contextmanager
def _opened(folder: Path) -> Iterator[Observer]:
    from validator.gpu.watched import Watched

    with Watched(_PROGRAM, _SECONDS, _environment(folder)) as watched:
        yield watched


def _watched(folder: Path, request: Path) -> list[Answer]:
    from validator.gpu.driver import NotHere
    from validator.gpu.sanitizer import TOOLS, Tool, sanitized

    def one(tool: Tool) -> Answer:
        said = sanitized([*_PROGRAM, str(request)], tool, _SECONDS, _environment(folder))
        if isinstance(said, NotHere):
            return {"tool": tool, "not_here": said.reason}
        return {"tool": tool, "errors": said.errors, "reports": list(said.reports)}

    with ThreadPoolExecutor(len(TOOLS)) as pool:
        return list(pool.map(one, TOOLS))


HERE = Launcher(_lacking, _opened, _watched)


def cross_check(context: StageContext, so_far: StageResult, launcher: Launcher = HERE) -> StageResult:
    """Launch what was audited."""
    manifest = context.manifest
    if manifest is None or not manifest.kernels or not any(o.id.startswith("ordering") for o in so_far.obligations):
        return StageResult()  # nothing was audited
    if lacking := launcher.lacking():
        return _not_run(lacking)
    with launcher.opened(context.workdir) as observer:
        machine = observer.ask({})
        if reason := machine.get("not_here") or machine.get("failed"):
            return _not_run(str(reason))
        context.progress(f"{FAMILY}: launching kernels on {machine['device']}")
        session = _Session(context, launcher, observer, machine)
        parts = [p for contract in manifest.kernels for p in session.settled(contract, audited(contract, so_far))]
    findings = dict.fromkeys(finding for _, _, found in parts for finding in found)
    return StageResult(tuple(o for o, _, _ in parts), tuple(e for _, own, _ in parts for e in own), tuple(findings))


def _not_run(reason: str) -> StageResult:
    told = f"not run here: {reason}"
    return StageResult(tuple(Obligation(f.name, f.statement, Status.UNPROVEN, told) for f in FAMILIES))


Part = tuple[Obligation, list[Evidence], tuple[Finding, ...]]
Asked = Callable[[Build], tuple[Outcome, Answer]]


@dataclass(frozen=True, slots=True)
class _Session:
    """A device that answers, and the change whose kernels it launches."""

    context: StageContext
    launcher: Launcher
    observer: Observer
    machine: Answer

    def settled(self, contract: KernelContract, builds: Sequence[Build]) -> Iterator[Part]:
        """Every kind of launch of one kernel."""
        capability = self.machine["capability"]
        launchable, written = launchable_builds(builds, capability), texts(builds, capability)
        device = self.machine["device"]
        nothing, no_text = f"no audited build for {device}", f"no PTX of it that the driver of {device} compiles"
        yield self._part(NEIGHBOUR, contract, launchable, nothing, lambda build: self._beside(contract, build))
        yield self._part(DELAYS, contract, written, no_text, lambda build: self._delayed(contract, build))
        yield self._part(SANITIZER, contract, launchable, nothing, lambda build: self._watched(contract, build))

    def _part(
        self, family: Family, contract: KernelContract, builds: Iterable[Build], nothing: str, asked: Asked
    ) -> Part:
        outcomes, evidence = [], []
        for build in builds:
            outcome, answer = asked(build)
            outcomes.append(outcome)
            if outcome.ran:
                evidence.append(self._evidence(family, build, outcome, answer))
        told = worst_of(outcomes or [Outcome(Status.UNPROVEN, f"not run here: {nothing}")])
        obligation = Obligation(
            f"{family.name}/{contract.match}",
            f"{contract.match}: {family.statement}",
            told.status,
            told.said,
            evidence=tuple(e.id for e in evidence),
            findings=tuple(f.id for f in told.findings),
            strength=Strength.GPU_RUN if evidence else None,
            denial=f"{contract.match} {family.denial}",
        )
        return obligation, evidence, told.findings

    def _beside(self, contract: KernelContract, build: Build) -> tuple[Outcome, Answer]:
        with self._request("neighbour", contract, build) as request:
            answer = request if not_launched(request) else self.observer.ask(request)
        return beside_neighbours(contract, build, answer), answer

    def _delayed(self, contract: KernelContract, build: Build) -> tuple[Outcome, Answer]:
        with self._request("delays", contract, build) as request:
            answer = request if not_launched(request) else self.observer.ask(request)
        return delayed(contract, build, answer), answer

    def _watched(self, contract: KernelContract, build: Build) -> tuple[Outcome, Answer]:
        with self._request("once", contract, build) as request:
            if not_launched(request):
                rows: list[Answer] = [request]
            else:
                file = Path(request["image"]).with_suffix(".json")
                file.write_text(json.dumps(request))
                rows = self.launcher.watched(self.context.workdir, file)
                file.unlink()
        return under_sanitizer(contract, build, rows), {"tools": rows}

    @contextmanager
    def _request(self, what: str, contract: KernelContract, build: Build) -> Iterator[Mapping[str, Any]]:
        """What to launch, in a file of this run; or why there is nothing."""
        image = bytes_of(build, self.context.change.head_tree, self.context.made)
        if image is None:
            yield {"not_launchable": f"{build.artifact} is not in the head"}
            return
        with tempfile.NamedTemporaryFile(dir=self.context.workdir, suffix=f".{build.isa}") as file:
            file.write(image)
            file.flush()
            table = contract.model_dump(mode="json", exclude_defaults=True)
            settled = {"settled": build.settled} if build.settled else {}
            yield {"what": what, "image": file.name, "kernel": build.name, "contract": table, **settled}

    def _evidence(self, family: Family, build: Build, outcome: Outcome, answer: Answer) -> Evidence:
        curves = [_curve(answer)] if family is NEIGHBOUR else []
        return Evidence(
            id=f"{family.name}/{build.artifact}/{build.arch}/{build.name}",
            kind=family.name,
            strength=Strength.GPU_RUN,
            summary=f"{build.name} of {build.artifact} on {self.machine['device']}: {outcome.said}",
            status=outcome.status,
            inputs=dict(build.evidence.inputs),
            figures={
                "kernel": build.name,
                "arch": build.arch,
                "isa": build.isa.value,
                "device": str(self.machine["device"]),
                "CUDA driver version": int(self.machine["cuda"]),
                **(_neighbours(answer) if family is NEIGHBOUR else {}),
            },
            not_covered=(family.gap,),
            details={**answer, "series": curves},
        )


def _neighbours(answer: Answer) -> dict[str, int | str]:
    from validator.gpu.neighbour import DELAYS_US, LAUNCHES

    return {
        "delays": ", ".join(f"{delay} µs" for delay in DELAYS_US),
        "launches of each": LAUNCHES,
        "wrong launches at most": max(
            (*answer["late_producer"], *answer["late_reader"], *answer["publisher"]), default=0
        ),
    }


def _curve(answer: Answer) -> dict[str, Any]:
    """Wrong launches over the delay, for the summary's picture (`validator.report.story`)."""
    from validator.gpu.neighbour import DELAYS_US, LAUNCHES

    kinds = (("late_producer", "late producer"), ("late_reader", "late reader"), ("publisher", "publisher"))
    return {
        "title": f"Wrong launches behind a neighbour, of {LAUNCHES} at each delay",
        "x": "delay, µs",
        "y": "wrong launches",
        "lines": [
            {"name": name, "points": [list(point) for point in zip(DELAYS_US, answer[key], strict=False)]}
            for key, name in kinds
            if answer[key]
        ],
    }
