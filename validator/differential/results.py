"""What came of a kernel's cases."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from validator.differential.cases import Case, case_text
from validator.differential.controls import Controlled
from validator.differential.faults import Fault

__all__ = ["WHERE", "CaseResult", "KernelResult", "replay_command"]

WHERE = "--manifest FILE"
"""Options of `validator replay` where nobody knows them."""


def replay_command(case: Case, where: str = WHERE) -> str:
    """What runs a case again. `where`: the options that find its contract and its trees."""
    return f"validator replay {shlex.quote(case_text(case))} {where}"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of one case."""

    case: Case
    faults: tuple[Fault, ...] = ()
    controlled: Controlled | None = None
    """None: the case failed before controls made sense."""
    unusable: str = ""
    """Why nobody can say what is right here."""
    error: float | None = None
    """RMS error over what an honest implementation may be off by, worst output; shown, never judged."""
    baseline: float | None = None
    """The same of the trusted implementation."""
    chosen: str = ""
    """Of a failure, what was drawn and decides more than a single element does: `w = 1; lens = [2, 5]`."""

    def words(self) -> str:
        """The inputs as a sentence."""
        if not self.chosen:
            return self.case.words()
        inputs, plan, name = replace(self.case, pinned=()).words().rpartition("; plan ")
        return f"{inputs}; {self.chosen}{plan}{name}"

    @property
    def status(self) -> str:
        """`failed`, `unusable`, `void`, `degenerate` or `passed`."""
        if self.faults:
            return "failed"
        if self.unusable or self.controlled is None:
            return "unusable"
        return "void" if self.controlled.void else "degenerate" if self.controlled.degenerate else "passed"


@dataclass
class KernelResult:
    """Everything that was run for one kernel."""

    planned: tuple[Case, ...]
    """Known before the first call; a case without a result is a failure."""
    results: list[CaseResult] = field(default_factory=list)
    shrunk: dict[str, CaseResult] = field(default_factory=dict)
    """Id of a failed case → the smallest case that fails in the same way."""
    blind: tuple[str, ...] = ()
    """Mutants that no case could tell from the right result."""
    tried: tuple[str, ...] = ()
    """Mutants tried."""
    calls: int = 0
    enforced: dict[str, str] = field(default_factory=dict)
    """Confinement of the candidate's process."""
    bound: tuple[str, ...] = ()
    """Functions that were made to raise inside the candidate's process."""
    wide: bool = True
    """The reference ran in float64."""
    sound: bool = True
    """A candidate that is known to do nothing ran last, in a process like the others', and was refused."""

    why_missing: str = ""
    """Why planned cases have no result, where that is known."""

    @property
    def mutated(self) -> int:
        return len(self.tried)

    def of(self, status: str) -> list[CaseResult]:
        return [r for r in self.results if r.status == status]

    @property
    def missing(self) -> list[Case]:
        """Cases that were planned and have no result."""
        done = {r.case.id for r in self.results}
        return [c for c in self.planned if c.id not in done]
