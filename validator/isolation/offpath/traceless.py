"""Statements that leave nothing behind: overloads of what is defined next, `global` of names that nothing binds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from validator.isolation.offpath.scopes import bindings

if TYPE_CHECKING:
    from validator.isolation.offpath.world import World

__all__ = ["without_idle_globals", "without_overloads"]


def without_overloads(world: World, path: str, body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without `@overload` right before what is defined: nothing of them lasts."""
    kept: list[ast.stmt] = []
    for statement in reversed(body):
        after = getattr(kept[-1], "name", "") if kept else ""
        if world.names.is_overload(path, statement) and after == getattr(statement, "name", None):
            world.overloads.setdefault(path, []).append(statement)
        else:
            kept.append(statement)
    return kept[::-1]


def without_idle_globals(body: list[ast.stmt]) -> list[ast.stmt]:
    """The function's statements without `global x` where nothing binds `x` any more."""
    bound = {name for name, _ in bindings(body)}
    return [s for s in body if not isinstance(s, ast.Global) or bound.intersection(s.names)]
