"""What the ordering audit says of a kernel, held against launches of it behind a neighbour on a GPU.

One obligation a kernel, `neighbour/KERNEL`. A fault that both show is refuted twice; one that launches show and the
audit did not find is a defect of the audit, and said to be; one that no delay shows is not disproved. Where nothing can
be launched the obligation is unproven with the reason.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from validator.change.model import ChangeError
from validator.manifest.contract import KernelContract
from validator.stage import StageContext
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

__all__ = ["FAMILY", "STATEMENT", "Observer", "cross_check", "judged"]

FAMILY = "neighbour"
STATEMENT = "behind a late producer and a late reader, every kernel computes what it computes alone"
_SECONDS = 60.0
"""For one kernel; the first also starts the process."""
_LARGEST = 512 << 20
_PASSED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""What the observer's process is told of the environment."""

Answer = Mapping[str, Any]


class Observer(Protocol):
    """Launches kernels elsewhere, and never raises for what a kernel does."""

    def ask(self, request: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Audited:
    """What the audit of one kernel's machine code found."""

    evidence: Evidence
    early: tuple[str, ...]
    """Arguments that are touched early without leave."""

    @property
    def name(self) -> str:
        return str(self.evidence.figures["kernel"])

    @property
    def artifact(self) -> str:
        return str(self.evidence.figures["artifact"])

    @property
    def arch(self) -> str:
        return str(self.evidence.figures["arch"])


def cross_check(
    context: StageContext, so_far: StageResult, observer: Callable[[Path], Any] | None = None
) -> StageResult:
    """Launch what was audited. `observer`: opens one for a folder, as a context manager (tests hand in their own)."""
    manifest = context.manifest
    if manifest is None or not manifest.kernels or not any(o.id.startswith("ordering") for o in so_far.obligations):
        return StageResult()  # nothing was audited
    if observer is None and (lacking := _lacking()):
        return _not_run(lacking)
    with (_observer if observer is None else observer)(context.workdir) as asked:
        machine = asked.ask({})
        if reason := machine.get("not_here") or machine.get("failed"):
            return _not_run(str(reason))
        context.progress(f"{FAMILY}: launching kernels on {machine['device']}")
        results = [_kernel(context, contract, _of(contract, so_far), asked, machine) for contract in manifest.kernels]
    return StageResult(tuple(o for o, _ in results), tuple(e for _, found in results for e in found))


def _lacking() -> str:
    """Why nothing can be launched here, as far as can be seen without starting a driver."""
    from validator.run.adapters import ADAPTERS

    return ADAPTERS["cuda"].lacking()


@contextmanager
def _observer(folder: Path) -> Iterator[Observer]:
    from validator.gpu.watched import Watched

    environment = [f"{name}={os.environ[name]}" for name in _PASSED if name in os.environ]
    command = [
        "/usr/bin/env",
        "-i",
        *environment,
        f"HOME={folder}",
        sys.executable,
        "-m",
        "validator.pipeline.observer",
    ]
    with Watched(command, _SECONDS) as watched:
        yield watched


def _not_run(reason: str) -> StageResult:
    told = f"not run here: {reason}"
    return StageResult((Obligation(FAMILY, STATEMENT, Status.UNPROVEN, told),))


def _of(contract: KernelContract, so_far: StageResult) -> list[_Audited]:
    """Audits of machine code that settled the obligation of this contract."""
    own = {e for o in so_far.obligations if o.id == f"ordering/{contract.match}" for e in o.evidence}
    found = []
    for evidence in so_far.evidence:
        if evidence.id in own and evidence.kind == "ordering-audit" and evidence.figures["isa"] == "sass":
            rows = (row for row in evidence.details.get("early", ()) if not row["allowed"])
            names = (name.rpartition(".")[2] for row in rows for name in row["memory"].split(" or ") if name)
            found.append(_Audited(evidence, tuple(dict.fromkeys(names))))
    return found


def _kernel(
    context: StageContext, contract: KernelContract, audited: Iterable[_Audited], observer: Observer, machine: Answer
) -> tuple[Obligation, list[Evidence]]:
    """Every build of one kernel that this device runs."""
    major, minor = machine["capability"]
    fitting = [a for a in audited if a.arch.rstrip("af") == f"sm_{major}{minor}"]
    outcomes: list[tuple[Status, str]] = []
    evidence = []
    for one in fitting:
        answer = _asked(context, contract, one, observer)
        status, said = judged(one.evidence.status, one.early, answer)
        outcomes.append((status, said))
        if "shown" in answer:
            evidence.append(_evidence(one, machine, answer, status, said))
    if not outcomes:
        outcomes = [(Status.UNPROVEN, f"not run here: no audited machine code for {machine['device']}")]
    order = (Status.REFUTED, Status.UNPROVEN, Status.PROVEN)
    status, said = min(outcomes, key=lambda outcome: order.index(outcome[0]))
    obligation = Obligation(
        f"{FAMILY}/{contract.match}",
        f"{contract.match}: {STATEMENT.replace('every kernel computes what it', 'it computes what it')}",
        status,
        said,
        evidence=tuple(e.id for e in evidence),
        strength=Strength.GPU_RUN if evidence else None,
        denial=f"{contract.match} computes something else behind a late producer or a late reader than alone",
    )
    return obligation, evidence


def _asked(context: StageContext, contract: KernelContract, one: _Audited, observer: Observer) -> Answer:
    """The observer's answer about one build."""
    image = _image(context, one.artifact)
    if image is None:
        return {"not_launchable": f"{one.artifact} is not in the head"}
    with tempfile.NamedTemporaryFile(dir=context.workdir, suffix=".cubin") as file:
        file.write(image)
        file.flush()
        table = contract.model_dump(mode="json", exclude_defaults=True)
        answer: Answer = observer.ask({"image": file.name, "kernel": one.name, "contract": table})
    return answer


def _image(context: StageContext, artifact: str) -> bytes | None:
    """The cubin of an audited artifact: a file of the head, or a piece of one (`file!member`).

    None where it is neither, as what a build made here.
    """
    file, _, member = artifact.partition("!")
    try:
        data = context.change.head_tree.read(file, _LARGEST)
    except ChangeError:
        return None
    if not member:
        return data
    from validator.binary.containers import Found, find_binaries
    from validator.binary.tools import Tools

    pieces = (piece for piece in find_binaries(data, file, Tools.find()) if isinstance(piece, Found))
    return next((piece.data for piece in pieces if piece.artifact == artifact), None)


def judged(static: Status, early: tuple[str, ...], seen: Answer) -> tuple[Status, str]:
    """What the audit (its status, and what it found to be touched early) and the launches say together."""
    refuted = static is Status.REFUTED and bool(early)
    before = f"refuted statically ({', '.join(early)})" if refuted else "no early access found statically"
    for key, words in (
        ("not_launchable", "not launched"),
        ("failed", "the launch failed"),
        ("not_here", "not run here"),
    ):
        if key in seen:
            return Status.UNPROVEN, f"{before}; {words}: {seen[key]}"
    if seen["ordinary"]:
        said = f"{seen['ordinary']} of the ordinary launches differ from one another, so that a delay proves nothing"
        return Status.UNPROVEN, f"{before}; {said}"
    if seen["shown"]:
        named = ", ".join(seen["arguments"])
        shown = f"shown dynamically at ≥ {seen['least_delay_us']} µs delay, argument {named}"
        if refuted and set(seen["arguments"]) <= set(early):
            return Status.REFUTED, f"{before}, {shown}"
        missed = ", ".join(n for n in seen["arguments"] if n not in early) or named
        return Status.REFUTED, f"{before}, {shown}: that the audit missed {missed} is a defect of the audit, report it"
    blind = f"; nothing would show of {', '.join(seen['blind'])}, which reach no result" if seen["blind"] else ""
    if refuted:
        return Status.UNPROVEN, f"{before}, no delay showed it{blind}"
    return Status.PROVEN, f"{before}, and no delay showed one{blind}"


def _evidence(one: _Audited, machine: Answer, answer: Answer, status: Status, said: str) -> Evidence:
    from validator.gpu.neighbour import DELAYS_US, LAUNCHES

    most = max((*answer["late_producer"], *answer["late_reader"], *answer["publisher"]), default=0)
    return Evidence(
        id=f"{FAMILY}/{one.artifact}/{one.arch}/{one.name}",
        kind="neighbour",
        strength=Strength.GPU_RUN,
        summary=f"{one.name} of {one.artifact} behind a neighbour on {machine['device']}: {said}",
        status=status,
        inputs=dict(one.evidence.inputs),
        figures={
            "kernel": one.name,
            "arch": one.arch,
            "device": str(machine["device"]),
            "CUDA driver version": int(machine["cuda"]),
            "delays": ", ".join(f"{delay} µs" for delay in DELAYS_US),
            "launches of each": LAUNCHES,
            "wrong launches at most": most,
        },
        not_covered=("faults that need other neighbours, sizes or delays than these",),
        details={**answer, "series": [_curve(answer, DELAYS_US, LAUNCHES)]},
    )


def _curve(answer: Answer, delays: Sequence[int], launches: int) -> dict[str, Any]:
    """Wrong launches over the delay, for the summary's picture (`validator.report.story`)."""
    kinds = (("late_producer", "late producer"), ("late_reader", "late reader"), ("publisher", "publisher"))
    return {
        "title": f"Wrong launches behind a neighbour, of {launches} at each delay",
        "x": "delay, µs",
        "y": "wrong launches",
        "lines": [
            {"name": name, "points": [list(point) for point in zip(delays, answer[key], strict=False)]}
            for key, name in kinds
            if answer[key]
        ],
    }
