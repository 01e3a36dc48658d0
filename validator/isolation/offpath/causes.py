"""Why a switch that is off still lets something through: what a new function that reads it may give."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validator.isolation.offpath.constants import is_constant, value_of
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.scopes import FunctionNode, Scope, functions_of
from validator.isolation.offpath.simplify import function_body
from validator.isolation.offpath.world import World
from validator.isolation.source import Sources
from validator.isolation.syntax import unparse, walk

__all__ = ["Cause", "causes"]


@dataclass(frozen=True, slots=True)
class Cause:
    """One place where such a function gives something else than "off"."""

    path: str
    line: int
    function: str
    gives: str
    """Reads on from "with the switch off, `function` may": "return `x`", "raise"."""


def causes(world: World, base: Sources, modules: Mapping[str, ast.Module]) -> Iterator[Cause]:
    """Look at functions that only the head has, that read the switch, and that something left over calls."""
    called = {
        getattr(n.func, "attr", None) or getattr(n.func, "id", None)
        for p in modules
        for s in world.residual(p)
        for n in walk(s)
        if isinstance(n, ast.Call)
    }
    for path, module in modules.items():
        known = functions_of(base.parse(path).module) if path in base else {}
        for qualified, node in functions_of(module).items():
            if qualified in known or node.name not in called or not _reads_switch(world, node):
                continue
            owner = qualified.rpartition(".")[0]
            first = [*node.args.posonlyargs, *node.args.args]
            place = Place(path, Scope(), owner, first[0].arg if owner and first else "")
            body, _ = function_body(world, place, node, {})
            for line, gives in _odd(body, world.form.switch.default):
                yield Cause(path, line, qualified, gives)


def _reads_switch(world: World, node: FunctionNode) -> bool:
    switch = world.form.switch
    words = {switch.name, switch.container} - {""}
    names = {getattr(n, "attr", None) for n in walk(node)} | {
        n.value for n in walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    return bool(words & names)


def _odd(body: list[ast.stmt], default: object) -> Iterator[tuple[int, str]]:
    """Results that do not mean "off"."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Raise):
                yield node.lineno, "raise"
            elif isinstance(node, ast.Return) and node.value is not None:
                off = is_constant(node.value) and (not value_of(node.value) or value_of(node.value) == default)
                if not off:
                    yield node.lineno, f"return `{unparse(node.value)[:80]}`"
