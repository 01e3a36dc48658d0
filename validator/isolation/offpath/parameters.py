"""Parameters that the head adds to functions of the base, and that keep their default while the switch is off."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from validator.isolation.offpath.constants import is_constant
from validator.isolation.offpath.freshness import last_name
from validator.isolation.offpath.notes import Idle
from validator.isolation.offpath.scopes import functions_of
from validator.isolation.offpath.signatures import by_class, called_as, default_of, position_of
from validator.isolation.offpath.world import World
from validator.isolation.source import Sources
from validator.isolation.syntax import walk

__all__ = ["may_be_passed", "new_parameters"]


def new_parameters(
    head: Sources, base: Sources, files: Iterable[str]
) -> Iterator[tuple[tuple[str, str, str], ast.expr]]:
    """Parameters with a constant default that the head adds to functions of the base, behind all others."""
    for path in files:
        if path not in base:
            continue
        before = functions_of(base.parse(path).module)
        for qualified, node in functions_of(head.parse(path).module).items():
            old = before.get(qualified)
            if old is None:
                continue
            positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            kept = [a.arg for a in (*old.args.posonlyargs, *old.args.args)]
            if positional[: len(kept)] != kept or (old.args.vararg and positional != kept):
                continue
            new = [
                *positional[len(kept) :],
                *(a.arg for a in node.args.kwonlyargs if a.arg not in {k.arg for k in old.args.kwonlyargs}),
            ]
            for name in new:
                default = default_of(node.args, name)
                if default is not None and is_constant(default) and not (old.args.kwarg and base.mentions(name)):
                    yield (path, qualified, name), default


def may_be_passed(world: World, idle: Idle, base: Sources, key: tuple[str, str, str], default: ast.expr) -> bool:
    """Whether a reachable call in the changed files may hand this parameter something else than its default."""
    _, qualified, name = key
    old = functions_of(base.parse(key[0]).module)[qualified]
    limit = len(old.args.posonlyargs) + len(old.args.args) - (1 if "." in qualified else 0)
    called = called_as(qualified)
    position = position_of(functions_of(world.sources.parse(key[0]).module)[qualified], qualified, name)
    for path in world.modules:
        for node in (n for s in world.residual(path) for n in walk(s)):
            if not isinstance(node, ast.Call) or idle.covers(path, node.lineno):
                continue
            for keyword in node.keywords:
                if keyword.arg == name and (
                    not is_constant(keyword.value) or ast.dump(keyword.value) != ast.dump(default)
                ):
                    return True
            more = last_name(node.func) in called and len(node.args) > limit and not old.args.vararg
            if more and not _keeps_default(node, qualified, position, default):
                return True
    return False


def _keeps_default(call: ast.Call, qualified: str, position: int | None, default: ast.expr) -> bool:
    """Whether the positional arguments leave the parameter at this place out, or give it its default."""
    if position is None or any(isinstance(a, ast.Starred) for a in call.args) or by_class(call.func, qualified):
        return False
    given = call.args[position] if position < len(call.args) else default
    return is_constant(given) and ast.dump(given) == ast.dump(default)
