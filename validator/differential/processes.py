"""One contract's processes, and the two trees that their callables are imported from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from validator.differential.data import Data
from validator.differential.device import Candidate, Device, NotRunHere, candidate_of
from validator.differential.errors import DifferentialError
from validator.differential.reference import Reference
from validator.differential.runner import Runner
from validator.gpu.shelf import Shelf
from validator.manifest.contract import KernelContract
from validator.run.adapters import ADAPTERS
from validator.run.sandbox import Limits, Worker

__all__ = ["Trees", "runner_for"]


_FAR_APART = 256 << 30
"""Bytes of address space for arguments with distant rows: next to nothing of it is ever touched."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Where callables are imported from."""

    head: Path
    base: Path
    artifacts: Path | None = None
    """Root of the head tree, from where compiled artifacts are named; None: `head` is it."""

    def below(self, root: str) -> Trees:
        """The same trees, from a folder in them on."""
        return Trees(self.head / root, self.base / root, self.artifacts or self.head)


@contextmanager
def runner_for(
    contract: KernelContract, trees: Trees, limits: Limits | None = None, device: Device = Device.CPU
) -> Iterator[Runner]:
    """The processes of one contract on a device, ended when the block ends. Raises `DifferentialError`."""
    if contract.reference is None:
        raise DifferentialError(f"{contract.match}: needs a `reference`")
    chosen = candidate_of(contract, device)
    limits = limits or Limits()
    with ExitStack() as stack:
        candidate = stack.enter_context(_worker(chosen, contract, trees, limits))
        if chosen.device is Device.CUDA:
            candidate.elsewhere = Shelf()
        reference, twin = (stack.enter_context(_trusted(contract, contract.reference, trees, limits)) for _ in range(2))
        baseline = reference
        if contract.baseline is not None:
            baseline = stack.enter_context(_trusted(contract, contract.baseline, trees, limits))
        checker = generator = None
        if contract.tolerance.policy == "property" and contract.tolerance.checker is not None:
            checker = stack.enter_context(Worker(contract.tolerance.checker, trees.base, limits))
        if contract.generator is not None:
            generator = stack.enter_context(Worker(contract.generator, trees.base, limits))
        data = Data(chosen.contract, contract, generator)
        yield Runner(chosen, candidate, Reference(data, reference, baseline, twin), checker)


def _trusted(contract: KernelContract, target: str, trees: Trees, limits: Limits) -> Worker:
    """A process of the stock path, on numpy arrays or on torch's CPU tensors."""
    adapter = ADAPTERS[contract.trusted]
    if lacking := adapter.lacking():
        raise NotRunHere(lacking)
    return Worker(target, trees.base, limits, adapter=adapter, options={"device": "cpu"}, spilled=True)


def _worker(chosen: Candidate, contract: KernelContract, trees: Trees, limits: Limits) -> Worker:
    """The candidate's process. What it is compared with raises there, where there is Python to call it from."""
    tree = (trees.artifacts or trees.head) if chosen.compiled else trees.head
    trusted = () if chosen.compiled else (contract.reference, contract.baseline)
    forbidden = tuple(t for t in trusted if t is not None and t != chosen.target)
    allowed = replace(limits, wall=limits.wall * chosen.patience, start=limits.start * 2)
    if any("distant" in values.layouts for _, values in contract.values.values()):
        allowed = replace(allowed, memory=limits.memory + _FAR_APART)
    options = chosen.adapter.prepared(chosen.target, tree, chosen.options)
    return Worker(chosen.target, tree, allowed, forbidden, adapter=chosen.adapter, options=options)
