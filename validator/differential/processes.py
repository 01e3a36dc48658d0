"""One contract's processes, and the two trees that their callables are imported from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from validator.differential.errors import DifferentialError
from validator.differential.runner import Runner
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits, Worker

__all__ = ["Trees", "runner_for"]


@dataclass(frozen=True, slots=True)
class Trees:
    """Where callables are imported from."""

    head: Path
    base: Path

    def below(self, root: str) -> Trees:
        """The same trees, from a folder in them on."""
        return Trees(self.head / root, self.base / root)


@contextmanager
def runner_for(contract: KernelContract, trees: Trees, limits: Limits | None = None) -> Iterator[Runner]:
    """The processes of one contract, ended when the block ends."""
    if contract.candidate is None or contract.reference is None:
        raise DifferentialError(f"{contract.match}: needs `candidate` and `reference`")
    limits = limits or Limits()
    trusted = tuple(t for t in (contract.reference, contract.baseline) if t is not None)
    forbidden = tuple(t for t in trusted if t != contract.candidate)
    with ExitStack() as stack:
        candidate = stack.enter_context(Worker(contract.candidate, trees.head, limits, forbidden))
        reference = stack.enter_context(Worker(contract.reference, trees.base, limits))
        baseline = reference
        if contract.baseline is not None:
            baseline = stack.enter_context(Worker(contract.baseline, trees.base, limits))
        checker = generator = None
        if contract.tolerance.policy == "property" and contract.tolerance.checker is not None:
            checker = stack.enter_context(Worker(contract.tolerance.checker, trees.base, limits))
        if contract.generator is not None:
            generator = stack.enter_context(Worker(contract.generator, trees.base, limits))
        yield Runner(contract, candidate, reference, baseline, checker, generator)
