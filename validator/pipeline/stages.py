"""The stages in the order in which they run. A stage is imported when it runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from validator.stage import Stage

__all__ = ["STAGES", "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One stage and what it settles, in case it cannot say so itself."""

    name: str
    """Obligation, or family of obligations, that it settles."""
    where: str
    """`module:function`."""
    statement: str
    doing: str
    """For a line of progress."""

    def load(self) -> Stage:
        module, _, function = self.where.partition(":")
        stage: Stage = getattr(importlib.import_module(module), function)
        return stage


STAGES = (
    Entry(
        "gate",
        "validator.gate.stage:run",
        "nothing that judges the change is edited by it",
        "who edits what judges them",
    ),
    Entry(
        "isolation",
        "validator.isolation.stage:run",
        "the change stays inside its declared paths and off the default path",
        "which files are touched",
    ),
    Entry(
        "isolation/shipped-kernels-built",
        "validator.build.shipped:run",
        "kernels that already shipped can be built at the base and at the head",
        "building kernels that already shipped",
    ),
    Entry(
        "isolation/proof",
        "validator.isolation.proof:run",
        "with the switch off, everything does what it did before",
        "what runs with the switch off",
    ),
    Entry(
        "scope",
        "validator.scope.stage:run",
        "the manifest is complete and asks for no more than the policy allows",
        "what the manifest asks for",
    ),
    Entry(
        "build",
        "validator.build.stage:run",
        "the compiled files that ship are what their sources build to",
        "compiling kernels",
    ),
    Entry(
        "ordering",
        "validator.ordering.stage:run",
        "nothing is read before the wait that makes it valid",
        "auditing compiled kernels",
    ),
    Entry(
        "differential",
        "validator.differential.stage:run",
        "the CPU callable of every kernel agrees with its reference",
        "running candidates against references",
    ),
)
