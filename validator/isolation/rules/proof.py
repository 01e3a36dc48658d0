"""The rules of the isolation proof, in the order of the report."""

from __future__ import annotations

from validator.checks import Check
from validator.isolation.rules import (
    added_for_everybody,
    default_path_changed,
    dispatch_hazard,
    entry,
    found_by_name,
    import_cycle,
    import_side_effect,
    leak,
    may_raise,
    monkeypatch,
    not_evaluated,
    private_name,
    residue,
    shipped_kernel_changed,
    shipped_kernel_not_compared,
    switch_ambiguous,
    switch_at_import,
    switch_not_off,
    switch_not_read,
    test_fails,
    test_weakened,
    undeclared_entry,
    wider_than_declared,
)

__all__ = [
    "ADDED",
    "DISCOVERY",
    "EFFECTS",
    "ENTRIES",
    "OFF_PATH",
    "PROOF_RULES",
    "RADIUS",
    "SCOPE",
    "SHIPPED",
    "STEP",
    "SWITCH",
    "TESTS",
]

OFF_PATH: tuple[Check, ...] = (default_path_changed, may_raise, not_evaluated, residue)
DISCOVERY: Check = found_by_name
RADIUS: tuple[Check, ...] = (leak, import_cycle)
ENTRIES: tuple[Check, ...] = (undeclared_entry, entry)
EFFECTS: tuple[Check, ...] = (import_side_effect, monkeypatch, private_name)
SWITCH: tuple[Check, ...] = (switch_not_off, switch_at_import, switch_not_read, switch_ambiguous)
STEP: tuple[Check, ...] = (dispatch_hazard,)
SCOPE: tuple[Check, ...] = (wider_than_declared,)
ADDED: tuple[Check, ...] = (added_for_everybody,)
SHIPPED: tuple[Check, ...] = (shipped_kernel_changed, shipped_kernel_not_compared)
TESTS: tuple[Check, ...] = (test_weakened, test_fails)
PROOF_RULES: tuple[Check, ...] = (
    *OFF_PATH,
    DISCOVERY,
    *RADIUS,
    *ENTRIES,
    *EFFECTS,
    *SWITCH,
    *STEP,
    *SCOPE,
    *ADDED,
    *SHIPPED,
    *TESTS,
)
