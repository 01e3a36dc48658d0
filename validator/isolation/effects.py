"""What a module does when it is imported, besides defining things."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.purity import Purity
from validator.isolation.offpath.scopes import bound_names
from validator.isolation.source import Source
from validator.isolation.syntax import unparse, walk

__all__ = ["INERT_DECORATORS", "Effect", "import_effects", "statement_effects"]

_QUIET = frozenset({"jit", "kernel", "autotune", "heuristics", "constexpr_function", "register_fake"})
INERT_DECORATORS = frozenset(
    {
        "staticmethod", "classmethod", "property", "cached_property", "lru_cache", "cache", "wraps",
        "dataclass", "contextmanager", "override", "overload", "final", "no_grad", "inference_mode",
        "total_ordering", "setter", "getter", "deleter", "asynccontextmanager", "abstractmethod",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that importing a module does to something else."""

    line: int
    what: str
    """Reads on from the module's name: "sets `x.y`", "calls `f`"."""
    certain: bool
    """False: a call whose effect is not known."""


def import_effects(source: Source) -> Iterator[Effect]:
    """Effects of importing the file, in order. A file that does not parse has one, unknown."""
    if source.module is None:
        yield Effect(source.line or 1, source.problem, False)
        return
    yield from statement_effects(source.module.body)
    yield from _changed_in_place(source.module)


def statement_effects(body: list[ast.stmt]) -> Iterator[Effect]:
    """Effects of running these statements of a module, in order."""
    yield from _effects(body, Purity(lambda name: False))


def _effects(body: list[ast.stmt], pure: Purity) -> Iterator[Effect]:
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global():
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from _definition(node, pure)
            case ast.If(test=test) | ast.While(test=test):
                yield from _evaluated([test], pure)
                if name_of(test).split(".")[-1] != "TYPE_CHECKING" and not _is_main(test):
                    yield from _effects(node.body, pure)
                yield from _effects(node.orelse, pure)
            case ast.Try():
                for block in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
                    yield from _effects(block, pure)
            case ast.For(iter=iterated):
                yield from _evaluated([iterated], pure)
                yield from _effects([*node.body, *node.orelse], pure)
            case ast.With(items=items):
                yield from _evaluated([item.context_expr for item in items], pure)
                yield from _effects(node.body, pure)
            case ast.Match(subject=subject, cases=cases):
                yield from _evaluated([subject, *(c.guard for c in cases)], pure)
                for case in cases:
                    yield from _effects(case.body, pure)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete():
                yield from _store(node, pure)
            case ast.Raise():
                yield Effect(node.lineno, f"raises `{_shown(node.exc) if node.exc else 'an error'}`", True)
            case ast.Assert(test=test):
                yield from _evaluated([test], pure)
            case ast.Expr(value=value):
                if not pure(value):
                    certain = isinstance(value, ast.Call)
                    yield Effect(node.lineno, f"calls `{_shown(value)}`", certain)


def _evaluated(parts: Iterable[ast.expr | None], pure: Purity) -> Iterator[Effect]:
    """What is called for a value on the way."""
    for part in parts:
        if part is not None and not pure(part):
            yield Effect(part.lineno, f"calls `{_shown(part)}` for a value", False)


def _definition(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, pure: Purity) -> Iterator[Effect]:
    for decorator in node.decorator_list:
        name = name_of(decorator.func if isinstance(decorator, ast.Call) else decorator).split(".")[-1]
        if name not in INERT_DECORATORS and name not in _QUIET:
            yield Effect(
                decorator.lineno, f"hands `{node.name}` to the decorator `{_shown(decorator)}`", "regist" in name
            )
    if isinstance(node, ast.ClassDef):
        metaclass = (k.value for k in node.keywords if k.arg == "metaclass" and not name_of(k.value).endswith("Meta"))
        for value in metaclass:
            yield Effect(value.lineno, f"makes `{node.name}` by the metaclass `{_shown(value)}`", False)
        yield from _evaluated([*node.bases, *(k.value for k in node.keywords)], pure)
        yield from _effects(node.body, pure)
    else:
        annotations = (a.annotation for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
        yield from _evaluated([*node.args.defaults, *node.args.kw_defaults, *annotations, node.returns], pure)


def _changed_in_place(module: ast.Module) -> Iterator[Effect]:
    """`|=` and its kind on what was imported: the other module's object is changed."""
    imported = {n for s in module.body if isinstance(s, ast.Import | ast.ImportFrom) for n in bound_names([s])}
    for node in module.body:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in imported:
            yield Effect(node.lineno, f"changes `{node.target.id}`, which it imports, in place", True)


def _store(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete, pure: Purity) -> Iterator[Effect]:
    targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
    # A plain name stores into the module itself; most targets are one, and need no walk.
    for target in (t for whole in targets if not isinstance(whole, ast.Name) for t in walk(whole)):
        if isinstance(target, ast.Attribute | ast.Subscript) and isinstance(target.ctx, ast.Store | ast.Del):
            yield Effect(node.lineno, f"sets `{unparse(target)[:80]}`", True)
    if isinstance(node, ast.AnnAssign):
        yield from _evaluated([node.annotation], pure)
    value = None if isinstance(node, ast.Delete) else node.value
    if value is not None and not isinstance(value, ast.Constant) and not pure(value):
        yield Effect(node.lineno, f"calls `{_shown(value)}` for a value", False)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and name_of(test.left) == "__name__"


def _shown(node: ast.expr) -> str:
    text = unparse(node.func if isinstance(node, ast.Call) else node)
    return text if len(text) <= 80 else text[:79] + "…"
