"""Rules of the differential stage: one module each, its docstring the page of `validator explain`."""

from __future__ import annotations

from types import ModuleType

from validator.differential.faults import FaultKind
from validator.differential.rules import (
    batch_mates,
    blind_tolerance,
    decoy_kernel,
    depends_on_order,
    hidden_state,
    memory_disturbed,
    no_result,
    not_repeatable,
    old_contents,
    tolerance_too_wide,
    wrong_metadata,
    wrong_result,
)
from validator.rule import Rule

__all__ = ["BY_FAULT", "RULES"]

RULES: tuple[ModuleType, ...] = (
    wrong_result,
    wrong_metadata,
    memory_disturbed,
    old_contents,
    not_repeatable,
    hidden_state,
    batch_mates,
    depends_on_order,
    decoy_kernel,
    no_result,
    tolerance_too_wide,
    blind_tolerance,
)

BY_FAULT: dict[FaultKind, Rule] = {
    FaultKind.VALUE: wrong_result.RULE,
    FaultKind.CLASS: wrong_result.RULE,
    FaultKind.METADATA: wrong_metadata.RULE,
    FaultKind.INPUT: memory_disturbed.RULE,
    FaultKind.GUARD: memory_disturbed.RULE,
    FaultKind.DIRTY: old_contents.RULE,
    FaultKind.REPEAT: not_repeatable.RULE,
    FaultKind.HIDDEN: hidden_state.RULE,
    FaultKind.EARLIER: hidden_state.RULE,
    FaultKind.BATCH: batch_mates.RULE,
    FaultKind.DECOY: decoy_kernel.RULE,
    FaultKind.ORDER: depends_on_order.RULE,
    FaultKind.WORKER: no_result.RULE,
}
"""Which rule a fault breaks."""
