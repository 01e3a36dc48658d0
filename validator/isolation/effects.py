"""What a module does when it is imported, besides defining things."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Protocol

from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.providers import OF_THE_CLASS
from validator.isolation.offpath.purity import Purity
from validator.isolation.offpath.scopes import bound_names
from validator.isolation.source import Source
from validator.isolation.syntax import unparse, walk

__all__ = ["Effect", "Meaning", "import_effects", "statement_effects"]


class Meaning(Protocol):
    """What the names of one module mean: see `offpath.names.Meanings`."""

    def is_quiet(self, decorator: ast.expr) -> bool:
        """Whether the decorator hands what it gets to nobody."""

    def is_itself(self, dotted: str) -> bool:
        """Whether a name means what it is called in Python or in a known package, not something of the tree."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that importing a module does to something else."""

    line: int
    what: str
    """Reads on from the module's name: "sets `x.y`", "calls `f`"."""
    certain: bool
    """False: a call whose effect is not known."""


def import_effects(source: Source, meaning: Meaning) -> Iterator[Effect]:
    """Effects of importing the file, in order. A file that does not parse has one, unknown."""
    if source.module is None:
        yield Effect(source.line or 1, source.problem, False)
        return
    yield from statement_effects(source.module.body, meaning)
    yield from _changed_in_place(source.module)


def statement_effects(body: list[ast.stmt], meaning: Meaning) -> Iterator[Effect]:
    """Effects of running these statements of a module, in order."""
    yield from _Effects(meaning).block(body)


class _Effects:
    """Reads statements of one module."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.pure = Purity(lambda name: False, meaning.is_itself)

    def block(self, body: list[ast.stmt], hidden: Set[str] = frozenset()) -> Iterator[Effect]:
        """`hidden`: names that the class around binds itself."""
        for node in body:
            match node:
                case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global():
                    pass
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    yield from self.definition(node, hidden)
                case ast.If(test=test) | ast.While(test=test):
                    yield from self.evaluated([test])
                    if name_of(test).split(".")[-1] != "TYPE_CHECKING" and not _is_main(test):
                        yield from self.block(node.body)
                    yield from self.block(node.orelse)
                case ast.Try():
                    for block in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
                        yield from self.block(block)
                case ast.For(iter=iterated):
                    yield from self.evaluated([iterated])
                    yield from self.block([*node.body, *node.orelse])
                case ast.With(items=items):
                    yield from self.evaluated([item.context_expr for item in items])
                    yield from self.block(node.body)
                case ast.Match(subject=subject, cases=cases):
                    yield from self.evaluated([subject, *(c.guard for c in cases)])
                    for case in cases:
                        yield from self.block(case.body)
                case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete():
                    yield from self.store(node)
                case ast.Raise():
                    yield Effect(node.lineno, f"raises `{_shown(node.exc) if node.exc else 'an error'}`", True)
                case ast.Assert(test=test):
                    yield from self.evaluated([test])
                case ast.Expr(value=value):
                    if not self.pure(value):
                        yield Effect(node.lineno, f"calls `{_shown(value)}`", isinstance(value, ast.Call))

    def evaluated(self, parts: Iterable[ast.expr | None]) -> Iterator[Effect]:
        """What is called for a value on the way."""
        for part in parts:
            if part is not None and not self.pure(part):
                yield Effect(part.lineno, f"calls `{_shown(part)}` for a value", False)

    def definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, hidden: Set[str]
    ) -> Iterator[Effect]:
        """What making a function or class runs."""
        for decorator in node.decorator_list:
            first, _, rest = name_of(decorator.func if isinstance(decorator, ast.Call) else decorator).partition(".")
            own = first in hidden and rest not in OF_THE_CLASS
            if own or not self.meaning.is_quiet(decorator):
                what = f"hands `{node.name}` to the decorator `{_shown(decorator)}`"
                yield Effect(decorator.lineno, what, "regist" in (rest or first).rpartition(".")[2])
            elif isinstance(decorator, ast.Call):
                yield from self.evaluated([*decorator.args, *(k.value for k in decorator.keywords)])
        if isinstance(node, ast.ClassDef):
            metaclass = (k.value for k in node.keywords if k.arg == "metaclass")
            for value in (v for v in metaclass if not name_of(v).endswith("Meta")):
                yield Effect(value.lineno, f"makes `{node.name}` by the metaclass `{_shown(value)}`", False)
            yield from self.evaluated([*node.bases, *(k.value for k in node.keywords)])
            yield from self.block(node.body, frozenset(bound_names(node.body)))
        else:
            annotations = (a.annotation for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
            yield from self.evaluated([*node.args.defaults, *node.args.kw_defaults, *annotations, node.returns])

    def store(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> Iterator[Effect]:
        """Stores into something else than the module itself."""
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        # A plain name stores into the module itself; most targets are one, and need no walk.
        for target in (t for whole in targets if not isinstance(whole, ast.Name) for t in walk(whole)):
            if isinstance(target, ast.Attribute | ast.Subscript) and isinstance(target.ctx, ast.Store | ast.Del):
                yield Effect(node.lineno, f"sets `{unparse(target)[:80]}`", True)
        if isinstance(node, ast.AnnAssign):
            yield from self.evaluated([node.annotation])
        value = None if isinstance(node, ast.Delete) else node.value
        if value is not None and not isinstance(value, ast.Constant) and not self.pure(value):
            yield Effect(node.lineno, f"calls `{_shown(value)}` for a value", False)


def _changed_in_place(module: ast.Module) -> Iterator[Effect]:
    """`|=` and its kind on what was imported: the other module's object is changed."""
    imported = {n for s in module.body if isinstance(s, ast.Import | ast.ImportFrom) for n in bound_names([s])}
    for node in module.body:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in imported:
            yield Effect(node.lineno, f"changes `{node.target.id}`, which it imports, in place", True)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and name_of(test.left) == "__name__"


def _shown(node: ast.expr) -> str:
    text = unparse(node.func if isinstance(node, ast.Call) else node)
    return text if len(text) <= 80 else text[:79] + "…"
