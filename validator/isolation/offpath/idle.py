"""Functions and classes that only the head has and that nothing reaches while the switch is off.

Whoever calls one has to name it. So one whose name the base does not hold at all runs only where code that runs names
it, in the changed files with the switch off: a fixpoint over names, as text and as identifiers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from validator.isolation.offpath.names import Names
from validator.isolation.offpath.notes import Idle
from validator.isolation.offpath.world import World
from validator.isolation.source import Sources
from validator.isolation.syntax import parts, walk

__all__ = ["idle_in"]

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class _Body:
    """What runs only if somebody names it."""

    path: str
    name: str
    node: _Definition
    inner: tuple[ast.AST, ...]

    def spans(self) -> Iterator[range]:
        """Lines of what only its callers run; what making it runs stands before."""
        members = self.node.body if isinstance(self.node, ast.ClassDef) else [self.node]
        for function in members:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.body:
                made = (part for part in _halves(function)[0] if isinstance(part, ast.expr))
                header = max([function.lineno, *(part.end_lineno or part.lineno for part in made)])
                first = function.body[0].lineno
                if first > header:
                    yield range(first, (function.end_lineno or first) + 1)


def idle_in(world: World, base: Sources, *, sure: bool = False) -> Idle:
    """Over what is left of the changed files of the head.

    `sure`: only what the change itself names somewhere, behind the switch or in the isolated package. What nothing
    names at all may be meant for somebody outside the tree.
    """
    waiting: list[_Body] = []
    named: set[str] = set()
    for path in world.modules:
        for statement in world.residual(path):
            _look(path, statement, world.names, base, named, waiting)
    # A decorator that is left out, as it only hands calls on, runs all the same.
    named.update(word for _, _, text in world.idle_decorators for word in re.findall(r"\w+", text))
    while reached := [body for body in waiting if body.name in named]:
        waiting = [body for body in waiting if body.name not in named]
        for body in reached:
            for part in body.inner:
                _look(body.path, part, world.names, base, named, waiting)
    lines: dict[str, list[range]] = {}
    for body in filter(_Used(world).by_the_change, waiting) if sure else waiting:
        lines.setdefault(body.path, []).extend(body.spans())
    return Idle({path: tuple(spans) for path, spans in lines.items()})


class _Used:
    """Which names the head's own changed and isolated files use."""

    def __init__(self, world: World) -> None:
        self.sources = world.sources
        modules = (module for path in world.modules if (module := self.sources.parse(path).module) is not None)
        self.named = frozenset().union(*map(_all_names, modules))

    def by_the_change(self, body: _Body) -> bool:
        """Whether something there names the function or class."""
        name = body.name.encode()
        isolated = (p for p in self.sources.paths if self.sources.isolated(p))
        return body.name in self.named or any(name in self.sources.data(p) for p in isolated)


@lru_cache(maxsize=64)
def _all_names(module: ast.Module) -> frozenset[str]:
    """Of a whole file, which every round asks for."""
    return frozenset(name for node in walk(module) for name in _names(node))


def _look(path: str, start: ast.AST, names: Names, base: Sources, named: set[str], waiting: list[_Body]) -> None:
    """Collect the names in what runs, and set aside what runs only by its name."""
    todo = [start]
    while todo:
        node = todo.pop()
        if isinstance(node, _Definition) and _is_own(path, node, names, base):
            now, later = _halves(node)
            waiting.append(_Body(path, node.name, node, tuple(later)))
            todo += now
            continue
        named.update(_names(node))
        todo += parts(node)


def _is_own(path: str, node: _Definition, names: Names, base: Sources) -> bool:
    """Whether only the head has the name, and nothing but its name leads to the definition."""
    special = node.name.startswith("__") and node.name.endswith("__")
    decorated = not all(names.is_inert(path, d) for d in node.decorator_list)
    hooked = isinstance(node, ast.ClassDef) and bool(node.keywords)
    return not (special or decorated or hooked or base.knows(node.name, path))


def _halves(node: _Definition) -> tuple[list[ast.AST], list[ast.AST]]:
    """(what making it runs, what runs when it is called or looked into)."""
    if isinstance(node, ast.ClassDef):
        functions = [s for s in node.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)]
        made = [part for function in functions for part in _halves(function)[0]]
        rest = [s for s in node.body if s not in functions]
        return [*node.decorator_list, *node.bases, *rest, *made], [*functions]
    defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
    return [*node.decorator_list, *defaults], [*node.body]


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if not isinstance(node.ctx, ast.Store):
            yield name
        case ast.Attribute(attr=name):
            yield name
        case ast.Constant(value=str(text)):
            yield text
        case ast.ImportFrom(names=names):
            yield from (alias.name for alias in names)
