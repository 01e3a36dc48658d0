"""A case's data as callables get it: made, poisoned where nothing is promised, launch after launch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from validator.differential.arena import Written, dtype_at
from validator.differential.buffers import place
from validator.differential.cases import FILLED, Case, Inputs, build, fill_of
from validator.differential.errors import DifferentialError
from validator.differential.inputs import Room
from validator.differential.numbers import Array, dtype_of
from validator.differential.poison import poisoned
from validator.manifest.contract import KernelContract
from validator.manifest.dims import parse_expression
from validator.run.channel import ALIGNED
from validator.run.sandbox import Worker

__all__ = ["NO_ANSWER", "Data", "ReferenceFailed", "launches_of", "numbered", "prepared", "room_for"]


NO_ANSWER = "gives no result within its deadline"
"""What is said of a trusted function that may do so in every case."""


class ReferenceFailed(DifferentialError):
    """A function of the base revision gives no result for a case, so nobody can say what is right."""


@dataclass(frozen=True, slots=True)
class Data:
    """Where a case's arguments come from."""

    contract: KernelContract
    """As the candidate sees it."""
    stock: KernelContract
    """As the trusted callables see it."""
    generator: Worker | None = None
    """Makes the arguments where the contract cannot describe them."""

    def build(self, case: Case, rooms: Mapping[str, Room] = MappingProxyType({})) -> Inputs:
        """The case's data: from the contract, and from the generator that it names. Raises `ReferenceFailed`.

        `rooms`: where an argument's ordinary values are drawn, if not anywhere.
        """
        return build(self.contract, case, rooms, self._generated(case))

    def _generated(self, case: Case) -> dict[str, Array]:
        """What the generator gives for a case, in the types of the case."""
        names = self.stock.generated
        if self.generator is None or not names:
            return {}
        numbers = {"seed": case.seed % (1 << 62), **dict(case.dims)}
        reply = self.generator.call(place(self.generator, numbers).call())
        if reply.result is None or len(reply.result.returns) != len(names):
            told = f"{self.generator.target} must return {len(names)} arrays ({', '.join(names)})"
            raise ReferenceFailed(f"{told}: {reply.detail[:300]}")
        found = {}
        for name, array, data in zip(names, reply.result.returns, reply.result.data, strict=True):
            due = fill_of(self.stock, case, name)
            types = {due.dtype, *map(dtype_of, due.values.dtype)}
            if array.form == 4 or array.shape != due.shape or dtype_at(array.dtype) not in types:
                raise ReferenceFailed(f"{self.generator.target}: {name} must be {due.dtype.name}{list(due.shape)}")
            found[name] = np.frombuffer(data, dtype_at(array.dtype)).reshape(due.shape).astype(due.dtype)
        return found


def prepared(contract: KernelContract, inputs: Inputs, which: int) -> tuple[Inputs, Inputs]:
    """What is passed: outputs and workspaces poisoned, returned ones left out; and the poisoned ones."""
    passed = {n: inputs[n] for n in contract.values if n not in contract.returns}
    poison = {
        n: poisoned(v, which)
        for n, v in passed.items()
        if contract.values[n][0] in FILLED and isinstance(v, np.ndarray | Written)
    }
    return {**passed, **poison}, poison


def room_for(contract: KernelContract, case: Case, widest: int = 0) -> int:
    """Bytes for what is returned. `widest`: of an element, where it may be wider than the contract says."""
    total = 0
    for name in contract.returns:
        fill = fill_of(contract, case, name)
        length = math.prod(fill.shape) * max(fill.dtype.itemsize, widest)
        total += -(-length // ALIGNED) * ALIGNED
    return total


def launches_of(contract: KernelContract, case: Case) -> int:
    """Launches that make one result."""
    several = contract.launches
    return 1 if several is None else parse_expression(str(several.count)).value(dict(case.dims))


def numbered(contract: KernelContract, case: Case, order: Sequence[int] = ()) -> tuple[int, Sequence[int]] | None:
    """(position of the argument that says which launch it is, its values in turn); None: there is one launch."""
    if contract.launches is None:
        return None
    names = [name for name in contract.values if name not in contract.returns]
    return names.index(contract.launches.argument), order or range(launches_of(contract, case))
