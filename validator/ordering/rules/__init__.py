"""The ordering rules: one module each, listed here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import cast

from validator.ordering.facts import Facts
from validator.ordering.rules import (
    early_async_copy,
    early_atomic,
    early_read,
    early_write,
    movable_load,
    no_wait,
    noncoherent_load_of_written_memory,
    trigger_without_wait,
    undeclared_argument,
    unknown_instruction,
    unresolved_address,
    wait_missing_on_path,
)
from validator.rule import Rule
from validator.verdict.model import Finding

__all__ = ["CHECKS", "MODULES", "RULES"]

MODULES: tuple[ModuleType, ...] = (
    no_wait,
    wait_missing_on_path,
    early_read,
    early_write,
    early_atomic,
    early_async_copy,
    trigger_without_wait,
    noncoherent_load_of_written_memory,
    movable_load,
    undeclared_argument,
    unresolved_address,
    unknown_instruction,
)

RULES: tuple[Rule, ...] = tuple(cast(Rule, module.RULE) for module in MODULES)

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: tuple[Check, ...] = tuple(cast(Check, module.check) for module in MODULES)
