"""Validation of agent-generated GPU kernel changes, before they merge.

Importing this package costs nothing: every stage is imported by the command that needs it.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`@validator.contract(...)` on tests, where `validator.pytest` is loaded."""
    if name == "contract":
        from validator.pytest import contract

        return contract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
