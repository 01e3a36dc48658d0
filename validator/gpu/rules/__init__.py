"""Rules over launches on a GPU: one module each, its docstring the page of `validator explain`.

What was launched, and what came of it, is settled by `validator.pipeline.crosscheck`; a module here says what it means.
"""

from __future__ import annotations

from types import ModuleType

from validator.gpu.rules import changing_role, delayed_inside, missed_by_audit, sanitizer_report, shown_early_access

__all__ = ["RULES"]

RULES: tuple[ModuleType, ...] = (
    missed_by_audit,
    shown_early_access,
    delayed_inside,
    sanitizer_report,
    changing_role,
)
