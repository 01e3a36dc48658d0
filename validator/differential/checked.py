"""What a checker of the base revision says of results, where many are right (tolerance policy `property`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from validator.differential.arena import dtype_at
from validator.differential.buffers import place
from validator.differential.cases import FILLED, Inputs
from validator.differential.data import ReferenceFailed
from validator.differential.faults import Fault, FaultKind
from validator.differential.numbers import Array
from validator.differential.reference import Outputs
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Outcome, Worker

__all__ = ["checked"]

_ARGUMENTS = (
    " (a checker gets the arguments that are no outputs, in the contract's order, then the results, in that order)"
)


def checked(
    checker: Worker, stock: KernelContract, inputs: Inputs, trusted: Mapping[str, Array], outputs: Outputs
) -> list[Fault]:
    """Faults that the checker finds. `trusted`: what the trusted implementation gives; `stock`: the contract as it sees
    it.

    Raises `ReferenceFailed` where the checker says nothing, or raises whatever the results.
    """
    # Outputs that only the result fills say nothing beforehand; the checker gets the inputs and the results.
    given = {n: inputs[n] for n, (role, _) in stock.values.items() if role not in FILLED}
    placed = place(checker, {**given, **{f"result {n}": outputs[n] for n in trusted}})
    reply = checker.call(placed.call())
    if reply.outcome is Outcome.ERROR:
        if all(outputs[name] is trusted[name] for name in trusted):
            told = "raises for what the trusted implementation gives"
            raise ReferenceFailed(f"{checker.target} {told}: {reply.detail[:300]}{_ARGUMENTS}")
        checked(checker, stock, inputs, trusted, dict(trusted))  # who is right must be able to pass
        return [Fault(FaultKind.VALUE, "", f"{checker.target}: {reply.detail[:400]}")]
    if reply.result is None:
        raise ReferenceFailed(f"{checker.target} gives no answer: {reply.outcome} {reply.detail[:300]}")
    if len(reply.result.data) != 1 or dtype_at(reply.result.returns[0].dtype) != np.bool_:
        raise ReferenceFailed(f"{checker.target} returns no bool")
    right = np.frombuffer(reply.result.data[0], np.bool_)
    return [] if right.all() else [Fault(FaultKind.VALUE, "", f"{checker.target} does not hold")]
