"""One canonical shape for code that does the same: dead stores gone, aliases followed, branches in one form."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from validator.isolation.offpath.constants import name_of, negate
from validator.isolation.offpath.nodes import clone, inert, is_stub, with_fields
from validator.isolation.offpath.purity import Purity
from validator.isolation.offpath.scopes import FunctionNode, Scope, walk_scope
from validator.isolation.syntax import parts, walk

__all__ = ["normalise"]

_MAX_ALIASES = 200
"""In one block: each is looked for in all that follows."""
_LEAVE = ast.Return | ast.Raise | ast.Break | ast.Continue


_Note = Callable[[ast.expr], None]
"""Told of every expression that is evaluated and left out."""


class Rules(Protocol):
    """What normalising asks about one tree."""

    @property
    def purity(self) -> Purity:
        """Whether leaving out an expression leaves out an effect."""

    def note_in(self, node: ast.expr, path: str, function: FunctionNode, class_name: str) -> None:
        """Told of every expression that is evaluated in the function and left out."""


def normalise(rules: Rules, path: str, body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module in canonical shape."""
    return _Normaliser(rules, path).definitions(_shape(body), "")


class _Normaliser:
    def __init__(self, rules: Rules, path: str) -> None:
        self.rules = rules
        self.path = path

    def definitions(self, body: list[ast.stmt], owner: str) -> list[ast.stmt]:
        return [self.definition(s, owner) for s in body]

    def definition(self, node: ast.stmt, owner: str) -> ast.stmt:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if is_stub(node):
                return node
            return _function(node, self.rules.purity, lambda e: self.rules.note_in(e, self.path, node, owner), self)
        if isinstance(node, ast.ClassDef):
            return with_fields(node, body=self.definitions(_shape(node.body), node.name))
        if isinstance(node, ast.If | ast.Try | ast.With):
            return with_fields(node, **{f: self.definitions(getattr(node, f), owner) for f in _block_fields(node)})
        return node


def _function(node: FunctionNode, pure: Purity, note: _Note, inside: _Normaliser) -> FunctionNode:
    scope = Scope.of(node.body, node.args)
    body = node.body
    if not scope.dynamic:
        for _ in range(20):
            before = sum(1 for s in body for _ in walk(s))
            body = _drop_dead(_without_empty(_follow_aliases(body, scope, pure, note), scope), scope, pure, note)
            if sum(1 for s in body for _ in walk(s)) == before:
                break
    body = _shape(body)
    while body and isinstance(body[-1], ast.Return) and _none(body[-1].value):
        body = body[:-1]
    return with_fields(node, body=inside.definitions(body, ""))


def _none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _block_fields(node: ast.AST) -> list[str]:
    return [f for f in ("body", "orelse", "finalbody") if isinstance(getattr(node, f, None), list)]


# Shape ----------------------------------------------------------------------------------------------------------


def _shape(body: list[ast.stmt]) -> list[ast.stmt]:
    """Branches in one form: no `else` behind a branch that leaves, no `not`, no nested `if` that is an `and`."""
    out: list[ast.stmt] = []
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            out += [ast.copy_location(with_fields(statement, names=[a]), a) for a in statement.names]
            continue
        if not isinstance(statement, ast.If):
            out.append(_inner(statement))
            continue
        shaped = _shape_if(statement)
        rest = shaped.orelse
        if rest and shaped.body and _leaves(shaped.body):
            return [*out, with_fields(shaped, orelse=[]), *_shape([*rest, *body[i + 1 :]])]
        out.append(shaped)
    return out


def _inner(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node
    fields: dict[str, object] = {f: _shape(getattr(node, f)) for f in _block_fields(node)}
    if isinstance(node, ast.Try):
        fields["handlers"] = [with_fields(h, body=_shape(h.body)) for h in node.handlers]
    if isinstance(node, ast.Match):
        fields["cases"] = [ast.match_case(pattern=c.pattern, guard=c.guard, body=_shape(c.body)) for c in node.cases]
    if isinstance(node, ast.Return) and _none(node.value):
        fields["value"] = None
    return with_fields(node, **fields) if fields else node


def _shape_if(node: ast.If) -> ast.If:
    test, body, orelse = node.test, _shape(node.body), _shape(node.orelse)
    if not body or (orelse and isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        test, body, orelse = negate(test), orelse, body
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.UnaryOp):
        inner = test.operand
        test = inner.operand if isinstance(inner.op, ast.Not) else test
    if not orelse and len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        parts = [*_conjuncts(test), *_conjuncts(body[0].test)]
        test, body = ast.copy_location(ast.BoolOp(op=ast.And(), values=parts), test), body[0].body
    return with_fields(node, test=test, body=body, orelse=orelse)


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    return node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]


def _leaves(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, _LEAVE)


# Names ----------------------------------------------------------------------------------------------------------


def _loads(body: list[ast.stmt]) -> Counter[str]:
    return Counter(
        n.id for s in body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load | ast.Del)
    )


def _drop_dead(body: list[ast.stmt], scope: Scope, pure: Purity, note: _Note) -> list[ast.stmt]:
    """Without stores to local names that nothing reads and whose value has no effect, and without such functions."""
    loads = _loads(body)
    loads.subtract(_deleted_unread(body, loads, scope))

    def dead(node: ast.stmt) -> bool:
        if isinstance(node, ast.Delete):
            return all(isinstance(t, ast.Name) and not loads[t.id] and t.id not in scope.shared for t in node.targets)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return inert(node) and not loads[node.name] and node.name not in scope.shared
        return (
            isinstance(node, ast.Assign)
            and all(isinstance(t, ast.Name) and not loads[t.id] and t.id not in scope.shared for t in node.targets)
            and pure(node.value)
        )

    return _filter(body, dead, note)


def _deleted_unread(body: list[ast.stmt], loads: Counter[str], scope: Scope) -> list[str]:
    """Names that one statement binds and a later one of the same block deletes, and that nothing else reads."""
    stored: set[str] = set()
    found: list[str] = []
    for node in body:
        if isinstance(node, ast.Assign):
            stored |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.Delete):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            found += [n for n in names if n in stored and loads[n] == 1 and scope.bindings[n] == 2]
    return found


def _filter(body: list[ast.stmt], dead: Callable[[ast.stmt], bool], note: _Note) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for node in body:
        if dead(node):
            if isinstance(node, ast.Assign):
                note(node.value)
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            out.append(node)
            continue
        fields: dict[str, object] = {f: _filter(getattr(node, f), dead, note) for f in _block_fields(node)}
        if isinstance(node, ast.Try):
            fields["handlers"] = [with_fields(h, body=_filter(h.body, dead, note)) for h in node.handlers]
        out.append(with_fields(node, **fields) if fields else node)
    return out


def _follow_aliases(body: list[ast.stmt], scope: Scope, pure: Purity, note: _Note) -> list[ast.stmt]:
    """`step = kda.step; step(x)` → `kda.step(x)`, where nothing can have changed `kda.step` in between."""
    out = list(body)
    stores = (s for s in out if isinstance(s, ast.Assign) and name_of(s.value))
    if sum(1 for _ in stores) > _MAX_ALIASES:
        return out
    for i, node in enumerate(out):
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        path = name_of(value)
        if not path or scope.bindings[name] != 1 or name in scope.shared or not pure(value):
            continue
        root = path.split(".")[0]
        if scope.bindings[root] > 1 or root in scope.shared:
            continue
        rest = out[i + 1 :]
        if not _loads(rest)[name] or _in_nested(rest, name):
            continue
        # A local name that is bound once stays what it is; a global one may be stored to by whatever is called.
        if (path == root and scope.bindings[root] == 1) or _used_before_effects(rest, name):
            if not _evaluated_next(rest[0], name):
                note(value)
            return [*out[:i], *(_Substitute(name, value).visit(clone(s)) for s in rest)]
    return out


def _evaluated_next(statement: ast.stmt, name: str) -> bool:
    """Whether the statement evaluates the name before anything else: what it stands for is evaluated there as well."""
    match statement:
        case ast.Expr(value=ast.expr() as first) | ast.Return(value=ast.expr() as first) | ast.If(test=first):
            pass
        case ast.Assign(value=first, targets=targets) if all(isinstance(t, ast.Name) for t in targets):
            pass
        case _:
            return False
    while not isinstance(first, ast.Name):
        match first:
            case (
                ast.Call(func=inner) | ast.Attribute(value=inner) | ast.Await(value=inner) | ast.Subscript(value=inner)
            ):
                first = inner
            case ast.Compare(left=inner) | ast.BinOp(left=inner) | ast.BoolOp(values=[inner, *_]):
                first = inner
            case _:
                return False
    return first.id == name


def _without_empty(body: list[ast.stmt], scope: Scope) -> list[ast.stmt]:
    """`more = {}; f(**more)` → `more = {}; f()`, where nothing else reads `more`."""
    loads = _loads(body)
    stores = [s for s in body if isinstance(s, ast.Assign) and len(s.targets) == 1]
    for store in stores:
        name = name_of(store.targets[0])
        empty = isinstance(store.value, ast.Dict | ast.List | ast.Tuple) and not list(walk(store.value))[1:]
        if not empty or scope.bindings[name] != 1 or name in scope.shared or not loads[name]:
            continue
        spread = [p for s in body for n in walk(s) for p in _spread(n) if name_of(p) == name]
        if len(spread) == loads[name] and not _in_nested(body, name):
            return [_Unspread(name).visit(clone(s)) for s in body]
    return body


def _spread(node: ast.AST) -> list[ast.expr]:
    """What a call spreads into its arguments."""
    if not isinstance(node, ast.Call):
        return []
    return [
        *(a.value for a in node.args if isinstance(a, ast.Starred)),
        *(k.value for k in node.keywords if k.arg is None),
    ]


class _Unspread(ast.NodeTransformer):
    """Leaves out `*name` and `**name` of calls."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """A call, without them."""
        node.args = [a for a in node.args if not (isinstance(a, ast.Starred) and name_of(a.value) == self.name)]
        node.keywords = [k for k in node.keywords if k.arg is not None or name_of(k.value) != self.name]
        self.generic_visit(node)
        return node


def _in_nested(body: list[ast.stmt], name: str) -> bool:
    """Whether a nested function or comprehension reads the name: it may run later."""
    own = sum(isinstance(n, ast.Name) and n.id == name for n in walk_scope(body))
    every = sum(isinstance(n, ast.Name) and n.id == name for s in body for n in walk(s))
    return own != every


def _used_before_effects(body: list[ast.stmt], name: str) -> bool:
    """Whether every read of the name comes before anything that could store to what it stands for."""
    left = _loads(body)[name]
    for event in _events(body):
        if event == name:
            left -= 1
            if not left:
                return True
        elif event is None:
            return False
    return not left


def _events(body: list[ast.stmt]) -> Iterator[str | None]:
    """Names read, in the order of evaluation; None where an effect may happen (also: where control may turn)."""
    for node in body:
        if isinstance(node, ast.Expr | ast.Return) and node.value is not None:
            yield from _expression_events(node.value)
        elif isinstance(node, ast.Assign):
            yield from _expression_events(node.value)
            if not all(isinstance(t, ast.Name) for t in node.targets):
                yield None
        elif isinstance(node, ast.If):
            yield from _expression_events(node.test)
            yield from _events(node.body)
            yield from _events(node.orelse)
        else:
            yield None
            return


def _expression_events(node: ast.expr) -> Iterator[str | None]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Call(func=function, args=args, keywords=keywords):
            yield from _expression_events(function)
            for part in [*args, *(k.value for k in keywords)]:
                yield from _expression_events(part)
            yield None
        case ast.Lambda():
            return
        case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr():
            yield None
        case _:
            for child in parts(node):
                if isinstance(child, ast.expr):
                    yield from _expression_events(child)
                elif isinstance(child, ast.comprehension):
                    yield None


class _Substitute(ast.NodeTransformer):
    """Replaces reads of a name by an expression."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name = name
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A read of the name becomes the value, which keeps its own place."""
        return self.value if node.id == self.name and isinstance(node.ctx, ast.Load) else node
