"""What compiled PTX showed on a CPU, held against what the ordering audit says of the same kernels.

One obligation for each kernel that ran so, `emulated/KERNEL`. A fault that runs show and the audit did not find is a
defect of the audit, and said to be; one that the audit found and no run shows is left open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from validator.manifest.contract import KernelContract
from validator.pipeline.audited import Build, audited
from validator.stage import StageContext
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

if TYPE_CHECKING:  # the emulator is loaded where something ran in it, not by every check
    from validator.emulate.agreement import Static
    from validator.emulate.hazard import Hazard

__all__ = ["FAMILY", "STATEMENT", "compare_runs"]

FAMILY = "emulated"
STATEMENT = "runs of the compiled PTX on a CPU and the ordering audit say the same of every kernel"


def compare_runs(context: StageContext, so_far: StageResult) -> StageResult:
    """Nothing where no kernel of the change ran as PTX, or none was audited."""
    contracts = () if context.manifest is None else context.manifest.kernels
    ran = ((c, _run(c, so_far), audited(c, so_far)) for c in contracts)
    return StageResult(tuple(_obligation(c, run, builds, so_far) for c, run, builds in ran if run and builds))


def _run(contract: KernelContract, so_far: StageResult) -> Evidence | None:
    """The differential run of its compiled PTX."""
    own = {e for o in so_far.obligations if o.id == f"differential/{contract.match}" for e in o.evidence}
    return next((e for e in so_far.evidence if e.id in own and e.strength is Strength.PTX_RUN), None)


def _obligation(contract: KernelContract, run: Evidence, builds: list[Build], so_far: StageResult) -> Obligation:
    from validator.emulate.agreement import agree

    hazards = list(_hazards(run))
    agreement = agree(_static(builds, so_far), hazards)
    if agreement.missed:
        status = Status.REFUTED
        said = f"that the audit missed {', '.join(agreement.missed)} is a defect of the audit, report it"
    elif agreement.unshown:
        status, said = Status.UNPROVEN, f"refuted statically, and no run shows it: {'; '.join(agreement.unshown)}"
    elif agreement.open:
        status, said = Status.UNPROVEN, f"runs show {', '.join(agreement.open)}, which the audit leaves open"
    elif hazards:
        shown = dict.fromkeys(f"{h.kind.value}{f' of {h.memory!r}' if h.memory else ''}" for h in hazards)
        status, said = Status.PROVEN, f"both show {', '.join(shown)}"
    else:
        status, said = Status.PROVEN, "neither shows a fault"
    return Obligation(
        f"{FAMILY}/{contract.match}",
        f"{contract.match}: runs of the compiled PTX on a CPU and the ordering audit say the same",
        status,
        said,
        (run.id, *(b.evidence.id for b in builds)),
        strength=Strength.PTX_RUN,
        denial=f"{contract.match}: runs of the compiled PTX show what the ordering audit does not have",
    )


def _hazards(run: Evidence) -> Iterator[Hazard]:
    from validator.emulate.explain import read_headline

    told = [text for case in run.details.get("cases", ()) for text in case.get("faults", ())]
    told += [step["text"] for step in run.details.get("steps", ())]
    yield from filter(None, map(read_headline, told))


def _static(builds: list[Build], so_far: StageResult) -> Static:
    """The audit's own words: its findings about these kernels, and the arguments that they name."""
    from validator.emulate.agreement import Static

    kernels = {b.name for b in builds}
    findings = tuple(f for f in so_far.findings if f.rule.startswith("order/") and f.where.kernel in kernels)
    movable = (str(row["memory"]) for b in builds for row in b.evidence.details.get("movable", ()))
    names = {name.rpartition(".")[2] for memory in movable for name in memory.split(" or ")}
    named = frozenset(names.union(*(b.early for b in builds)))
    return Static(findings, named, all(b.evidence.status is not Status.UNPROVEN for b in builds))
