"""What has surely been evaluated and bound by the time control reaches a place in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from validator.isolation.offpath.scopes import FunctionNode, bound_names
from validator.isolation.syntax import parts, unparse, walk

__all__ = ["Passed", "assigned_by", "evaluated_by", "passed"]

_LEAVES = ast.Return | ast.Raise | ast.Break | ast.Continue


@dataclass
class Passed:
    """Text of expressions that were evaluated, and names and attributes that were stored, on every path."""

    loads: set[str] = field(default_factory=set)
    """Text of attribute and subscript reads."""
    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    """`self.x` and the like, as text."""
    leaves: bool = False

    def add(self, other: Passed) -> None:
        """What happens behind this."""
        self.loads |= other.loads
        self.names |= other.names
        self.attributes |= other.attributes
        self.leaves |= other.leaves


def passed(function: FunctionNode, line: int) -> Passed:
    """What has happened in this function before the statement at `line` starts, on every path to it."""
    found = Passed()
    _reach(function.body, line, found)
    return found


def assigned_by(function: FunctionNode) -> set[str]:
    """Attributes (`self.x`, as text) that the function has set whenever it returns, before it may return early."""
    return _by_the_first_return(function).attributes


def evaluated_by(function: FunctionNode) -> set[str]:
    """Text of attribute and subscript reads that it has evaluated whenever it returns."""
    return _by_the_first_return(function).loads


def _by_the_first_return(function: FunctionNode) -> Passed:
    found = Passed()
    for statement in function.body:
        if any(isinstance(n, ast.Return) for n in walk(statement)):
            break
        found.add(_done([statement]))
    return found


def _reach(body: Iterable[ast.stmt], line: int, found: Passed) -> bool:
    for statement in body:
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
        if first <= line <= (statement.end_lineno or statement.lineno):
            _enter(statement, line, found)
            return True
        found.add(_done([statement]))
    return False


def _enter(statement: ast.stmt, line: int, found: Passed) -> None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    blocks: list[list[ast.stmt]] = [getattr(statement, f, None) or [] for f in ("body", "orelse", "finalbody")]
    blocks += [h.body for h in getattr(statement, "handlers", [])] + [c.body for c in getattr(statement, "cases", [])]
    inside = next((b for b in blocks if b and b[0].lineno <= line <= (b[-1].end_lineno or b[-1].lineno)), None)
    header = list(_header(statement))
    # `if self.x: return self.x` in one line: the line alone does not tell the test from what it decides.
    if inside is None or line <= max((part.end_lineno or part.lineno for part in header), default=0):
        return
    for part in header:
        _expression(part, found)
    if isinstance(statement, ast.For | ast.AsyncFor) and inside is statement.body:
        found.names |= _stored(statement.target)
    for handler in getattr(statement, "handlers", []):
        if inside is handler.body and handler.name:
            found.names.add(handler.name)
    _reach(inside, line, found)


def _header(statement: ast.stmt) -> Iterator[ast.expr]:
    """Expressions that a compound statement evaluates before it enters a block."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            yield test
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
            yield iterated
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield item.context_expr
                if item.optional_vars:
                    yield item.optional_vars
        case ast.Match(subject=subject):
            yield subject


def _done(body: Iterable[ast.stmt]) -> Passed:
    """What these statements have surely done when control is behind them."""
    found = Passed()
    for statement in body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                for part in [value, *targets]:
                    _expression(part, found)
            case ast.AnnAssign(target=place, value=ast.expr() as value) | ast.AugAssign(target=place, value=value):
                _expression(value, found)
                _expression(place, found)
            case ast.Expr(value=value) | ast.Assert(test=value):
                _expression(value, found)
            case ast.If(test=test, body=then, orelse=orelse):
                _expression(test, found)
                found.add(_either(_done(then), _done(orelse)))
            case ast.With(body=inner) | ast.For(body=inner) | ast.While(body=inner):
                for part in _header(statement):
                    _expression(part, found)
            case ast.Try(body=inner, handlers=handlers, finalbody=final):
                found.add(_done(final) if handlers else _done([*inner, *final]))
            case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.names |= set(bound_names([statement]))
            case ast.Delete(targets=targets):
                for target in targets:
                    found.names.discard(unparse(target))
                    found.attributes.discard(unparse(target))
        if isinstance(statement, _LEAVES):
            found.leaves = True
            break
    return found


def _either(one: Passed, other: Passed) -> Passed:
    if one.leaves:
        return other
    if other.leaves:
        return one
    return Passed(one.loads & other.loads, one.names & other.names, one.attributes & other.attributes)


def _expression(node: ast.expr, found: Passed) -> None:
    """What evaluating it (or storing to it) surely does."""
    match node:
        case ast.Lambda():
            return
        case ast.BoolOp(values=[first, *_]) | ast.IfExp(test=first):
            _expression(first, found)
            return
        case ast.ListComp(generators=[first, *_]) | ast.SetComp(generators=[first, *_]):
            _expression(first.iter, found)
            return
        case ast.DictComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            _expression(first.iter, found)
            return
        case ast.Compare(left=left, comparators=[right, *_]):
            _expression(left, found)
            _expression(right, found)
            return
        case ast.Name(id=name, ctx=ast.Store()):
            found.names.add(name)
            return
        case ast.Attribute(ctx=ast.Store()):
            found.attributes.add(unparse(node))
        case ast.Attribute() | ast.Subscript():
            found.loads.add(unparse(node))
    for child in parts(node):
        if isinstance(child, ast.expr):
            _expression(child, found)
        elif isinstance(child, ast.keyword):
            _expression(child.value, found)


def _stored(target: ast.expr) -> set[str]:
    return {n.id for n in walk(target) if isinstance(n, ast.Name)}
