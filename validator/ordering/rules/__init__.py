"""The ordering rules: one module each, listed here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, cast

from validator.ordering.rules import (
    async_copy_not_waited,
    barrier_in_divergent_code,
    early_async_copy,
    early_atomic,
    early_read,
    early_write,
    flag_scope_too_narrow,
    flag_without_acquire,
    hoisted_load,
    lost_prefetch,
    mailbox_used_before_check,
    missing_proxy_fence,
    movable_load,
    no_wait,
    noncoherent_load_of_written_memory,
    peer_memory_unmet,
    publish_without_release,
    role_too_generous,
    tensor_memory_not_waited,
    trigger_without_wait,
    undeclared_argument,
    unknown_instruction,
    unresolved_address,
    wait_missing_on_path,
)
from validator.rule import Rule
from validator.verdict.model import Finding

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["CHECKS", "MODULES", "RULES", "STEP_MODULES"]

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
    flag_without_acquire,
    flag_scope_too_narrow,
    publish_without_release,
    mailbox_used_before_check,
    async_copy_not_waited,
    missing_proxy_fence,
    tensor_memory_not_waited,
    peer_memory_unmet,
    barrier_in_divergent_code,
    undeclared_argument,
    unresolved_address,
    unknown_instruction,
)

STEP_MODULES: tuple[ModuleType, ...] = (role_too_generous, hoisted_load, lost_prefetch)
"""Rules about several kernels or files (`ordering.steps`, `sass.moved`): a page, and no check of one kernel."""

RULES: tuple[Rule, ...] = tuple(cast(Rule, module.RULE) for module in (*MODULES, *STEP_MODULES))

Check = Callable[["Facts"], Iterable[Finding]]

CHECKS: tuple[Check, ...] = tuple(cast(Check, module.check) for module in MODULES)
