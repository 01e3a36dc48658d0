"""Functions that are written differently and do the same.

A function is rewritten step by step, each step keeping what it does: every part of an expression gets a name of its
own, in the order of evaluation; a local name that is bound once stands for what it was bound to; calls of functions
that only one side has are replaced by their bodies; local names are numbered. Two functions that end up the same are
the same. What is not understood ends the attempt.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from validator.isolation.offpath.nodes import clone, with_fields
from validator.isolation.offpath.scopes import FunctionNode, Scope, bound_names, parameters, walk_scope
from validator.isolation.offpath.shapes import (
    Numbering,
    bound_inside,
    is_none,
    is_temporary,
    leaves_code,
    positive_first,
    renamed,
    single_exit,
    surely_bound,
    without_empty_keywords,
)
from validator.isolation.offpath.signatures import bind_arguments
from validator.isolation.syntax import walk

__all__ = ["Known", "canonical"]

_MAX_INLINED = 32
"""Calls that are replaced in one function."""
_MAX_NODES = 20_000
"""Nodes of a function that is looked at."""


class _Unknown(Exception):
    """Something that is not understood."""


@dataclass(slots=True)
class _Frame:
    """One function, or one that was put in its place."""

    scope: Scope
    parameters: frozenset[str]
    replaced: bool = False
    """It stands in place of a call."""
    values: dict[str, ast.expr] = field(default_factory=dict)
    """Local name → what it always stands for."""
    names: dict[str, str] = field(default_factory=dict)
    """Local name → its number."""


class Known(Protocol):
    """What is known about the names that a function uses."""

    def callee(self, name: str, *, method: bool, awaited: bool) -> FunctionNode | None:
        """The function of this name, or the method of the function's own object, if calls of it may be replaced.
        `awaited`: one whose calls are awaited."""

    def stable(self, name: str) -> bool:
        """Whether a global name means the same at all times."""


def canonical(node: FunctionNode, known: Known) -> str | None:
    """Text that is equal for functions that do the same; None: it is not understood."""
    if sum(1 for _ in walk(node)) > _MAX_NODES:
        return None
    early: frozenset[str] = frozenset()
    try:
        for _ in range(2):  # the first time shows which names are read before they are bound
            flat = _Flattener(node, known, early)
            body = flat.block(positive_first(node.body))
            early = frozenset(flat.early)
    except (_Unknown, RecursionError):
        return None
    body = without_empty_keywords(body)
    while body and isinstance(body[-1], ast.Return) and is_none(body[-1].value):
        body = body[:-1]
    return ast.dump(Numbering().visit(clone(with_fields(node, body=body))))


# Flattening -----------------------------------------------------------------------------------------------------


class _Flattener:
    def __init__(self, node: FunctionNode, known: Known, early: frozenset[str]) -> None:
        self.known = known
        self.known_early = early
        self.early: set[str] = set()
        """Names that were read before they were bound."""
        positional = [*node.args.posonlyargs, *node.args.args]
        self.self_name = positional[0].arg if positional else ""
        self.frame = _frame(node, "")
        for name in self.frame.parameters:
            if self.frame.scope.bindings[name] == 1:
                self.frame.values[name] = _read(f"<={name}>")
            else:
                self.frame.names[name] = f"<v:{name}>"
        self.sealed: set[str] = set()
        """Names of calls that were replaced, to which nothing stores any more."""
        self.out: list[ast.stmt] = []
        self.depth = -1
        self.temporaries = 0
        self.locals = 0
        self.inlined = 0
        self.active: list[str] = [node.name]

    # Statements ------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """These statements, flattened, on their own."""
        outside, self.out = self.out, []
        self.depth += 1
        for statement in body:
            self.statement(statement)
        self.depth -= 1
        inside, self.out = self.out, outside
        return inside

    def statement(self, node: ast.stmt) -> None:
        """Append what one statement does."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bind(name, self.expr(value))
            case ast.Assign(targets=[target], value=value):
                atom = self.expr(value)
                self.emit(ast.Assign(targets=[self.target(target)], value=atom, lineno=0))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                atom = self.expr(value)
                self.emit(ast.AugAssign(target=with_fields(target, id=self.named(name)), op=op, value=atom))
            case ast.AugAssign(target=target, op=op, value=ast.Constant() | ast.Name() as value):
                # Python reads the old value before it evaluates the new one: only what has no effect may stand there.
                self.emit(with_fields(node, target=self.target(target), value=self.expr(value)))
            case ast.Expr(value=ast.Constant()):
                self.emit(node)  # a mark, see `losses`
            case ast.Expr(value=value):
                self.expr(value)
            case ast.Return(value=value):
                self.returned(value)
            case ast.Raise(exc=exc, cause=cause):
                thrown = self.expr(exc) if exc else None
                self.emit(ast.Raise(exc=thrown, cause=self.expr(cause) if cause else None))
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.expr(test)
                self.emit(ast.If(test=condition, body=self.block(body), orelse=self.block(orelse)))
            case ast.While(test=test, body=body, orelse=orelse):
                self.emit(ast.While(test=self.opaque(test), body=self.block(body), orelse=self.block(orelse)))
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                over = self.expr(iterated)
                place = self.names_of(target)
                self.emit(ast.For(target=place, iter=over, body=self.block(body), orelse=self.block(orelse), lineno=0))
            case ast.With(items=[item], body=body):
                entered = self.expr(item.context_expr)
                place_or_none = self.names_of(item.optional_vars) if item.optional_vars else None
                items = [ast.withitem(context_expr=entered, optional_vars=place_or_none)]
                self.emit(ast.With(items=items, body=self.block(body), lineno=0))
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                if any(h.name for h in handlers):
                    raise _Unknown
                tried = self.block(body)
                caught = [
                    ast.ExceptHandler(type=self.opaque(h.type) if h.type else None, name=None, body=self.block(h.body))
                    for h in handlers
                ]
                self.emit(ast.Try(body=tried, handlers=caught, orelse=self.block(orelse), finalbody=self.block(final)))
            case ast.Assert(test=test, msg=msg):
                self.emit(ast.Assert(test=self.expr(test), msg=self.opaque(msg) if msg else None))
            case ast.Break() | ast.Continue() | ast.Import() | ast.ImportFrom():
                self.emit(node)
            case ast.Pass():
                pass
            case _:
                raise _Unknown

    def returned(self, value: ast.expr | None) -> None:
        """`return value`; a call in its place is replaced whatever it holds."""
        awaited = isinstance(value, ast.Await)
        call = value.value if isinstance(value, ast.Await) else value
        entered = self.entered(call, awaited=awaited) if isinstance(call, ast.Call) else None
        if entered is not None:
            self.run(*entered, tail=True)
        else:
            self.emit(ast.Return(value=self.expr(value) if value else None))

    def bind(self, name: str, atom: ast.expr) -> None:
        """Bind a local name: it stands for the value from now on, or is stored to."""
        frame = self.frame
        once = frame.scope.bindings[name] == 1 and name not in frame.scope.shared
        # A name that stands for something older than its binding could be read where it is not bound yet.
        sure = frame.replaced or self.depth == 0 or is_temporary(atom)
        if once and sure and name not in self.known_early and self.fixed(atom):
            frame.values[name] = atom
        else:
            self.emit(_store(self.named(name), atom))

    def target(self, node: ast.expr) -> ast.expr:
        """What one value is stored to, its parts evaluated."""
        match node:
            case ast.Attribute(value=value):
                return with_fields(node, value=self.expr(value))
            case ast.Subscript(value=value, slice=index):
                owner = self.expr(value)
                return with_fields(node, value=owner, slice=self.expr(index))
        return self.names_of(node)

    def names_of(self, node: ast.expr) -> ast.expr:
        """The same for names alone: with anything else among them, earlier stores decide where later ones go."""
        match node:
            case ast.Name(id=name):
                return ast.Name(id=self.named(name), ctx=ast.Store())
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return with_fields(node, elts=[self.names_of(e) for e in elements])
        raise _Unknown

    def emit(self, node: ast.stmt) -> None:
        self.out.append(node)

    # Expressions -----------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> ast.expr:
        """A constant or a name that stands for the value; what has to be evaluated is appended."""
        match node:
            case ast.Constant():
                return node
            case ast.Name(id=name):
                return self.name(name)
            case ast.Call():
                return self.call(node)
            case ast.Attribute(value=value):
                return self.kept(with_fields(node, value=self.expr(value)))
            case ast.Subscript(value=value, slice=index):
                owner = self.expr(value)
                return self.kept(with_fields(node, value=owner, slice=self.expr(index)))
            case ast.BinOp(left=left, right=right):
                first = self.expr(left)
                return self.kept(with_fields(node, left=first, right=self.expr(right)))
            case ast.UnaryOp(operand=operand):
                return self.kept(with_fields(node, operand=self.expr(operand)))
            case ast.Compare(left=left, comparators=[right]):
                first = self.expr(left)
                return self.kept(with_fields(node, left=first, comparators=[self.expr(right)]))
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return self.kept(with_fields(node, elts=[self.element(e) for e in elements]))
            case ast.Slice(lower=lower, upper=upper, step=step):
                ends = [self.expr(e) if e else None for e in (lower, upper, step)]
                return ast.Slice(lower=ends[0], upper=ends[1], step=ends[2])
            case ast.Dict(keys=keys, values=values) if all(keys):
                pairs = [(self.expr(k), self.expr(v)) for k, v in zip(keys, values, strict=True) if k]
                return self.kept(with_fields(node, keys=[k for k, _ in pairs], values=[v for _, v in pairs]))
            case ast.BoolOp(values=[first, *rest]):
                return self.kept(with_fields(node, values=[self.expr(first), *map(self.opaque, rest)]))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self.expr(test)
                return self.kept(with_fields(node, test=condition, body=self.opaque(body), orelse=self.opaque(orelse)))
            case ast.Await(value=value):
                entered = self.entered(value, only_at_end=True, awaited=True) if isinstance(value, ast.Call) else None
                return (
                    self.run(*entered, tail=False) if entered else self.kept(with_fields(node, value=self.expr(value)))
                )
            case ast.NamedExpr() | ast.Yield() | ast.YieldFrom():
                raise _Unknown
        return self.kept(self.opaque(node))

    def element(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Starred):
            return with_fields(node, value=self.expr(node.value))
        return self.expr(node)

    def name(self, name: str) -> ast.expr:
        """What stands for the name here."""
        local = self.local(name)
        if local is not None:
            return local
        return _read(name) if self.known.stable(name) else self.kept(_read(name))

    def local(self, name: str) -> ast.expr | None:
        """The same for a local name; None: it is none."""
        frame = self.frame
        if name in frame.values:
            return frame.values[name]
        if name not in frame.scope.bindings:
            return None
        if name not in frame.parameters:
            self.early.add(name)
        return _read(self.named(name))

    def call(self, node: ast.Call) -> ast.expr:
        entered = self.entered(node, only_at_end=True)
        if entered is not None:
            return self.run(*entered, tail=False)
        function = self.expr(node.func)
        args = [self.element(a) for a in node.args]
        keywords = [ast.keyword(arg=k.arg, value=self.expr(k.value)) for k in node.keywords]
        return self.kept(ast.Call(func=function, args=args, keywords=keywords))

    def kept(self, node: ast.expr) -> ast.expr:
        """A name for what the expression gives."""
        self.temporaries += 1
        name = f"<{self.temporaries}>"
        self.emit(_store(name, node))
        return _read(name)

    def opaque(self, node: ast.expr) -> ast.expr:
        """An expression as it stands, which may be evaluated later, often or never; with what names stand for."""
        if any(isinstance(n, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for n in walk(node)):
            raise _Unknown
        copied = renamed(clone(node))
        hidden = set(bound_inside(copied))
        if hidden & set(self.frame.scope.bindings):
            raise _Unknown
        return _Substitute(self, hidden).visit(copied)  # type: ignore[no-any-return]  # an expression stays one

    # Names -----------------------------------------------------------------------------------------------------

    def fixed(self, atom: ast.expr) -> bool:
        """Whether it gives the same at any later time."""
        if isinstance(atom, ast.Name):
            if atom.id.startswith("<"):
                return atom.id in self.sealed or not atom.id.startswith("<v")
            return self.known.stable(atom.id)
        return isinstance(atom, ast.Constant)

    def named(self, name: str) -> str:
        """What a local name is called from now on."""
        names = self.frame.names
        if name not in names:
            self.locals += 1
            names[name] = f"<v{self.locals}>"
        return names[name]

    # Calls that are replaced -----------------------------------------------------------------------------------

    def replaceable(self, node: ast.Call, *, awaited: bool) -> FunctionNode | None:
        """The function whose body may stand in place of the call."""
        found: FunctionNode | None = None
        match node.func:
            case ast.Name(id=name) if name not in self.frame.scope.bindings:
                found = self.known.callee(name, method=False, awaited=awaited)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in self.frame.values:
                own = self.frame.values[owner]
                if isinstance(own, ast.Name) and own.id == f"<={self.self_name}>":
                    found = self.known.callee(name, method=True, awaited=awaited)
        if found is None or found.name in self.active or self.inlined >= _MAX_INLINED:
            return None
        return found if surely_bound(found) else None

    def entered(
        self, node: ast.Call, *, only_at_end: bool = False, awaited: bool = False
    ) -> tuple[FunctionNode, _Frame] | None:
        """The function that takes the call's place, and its frame with the evaluated arguments; None: none can."""
        function = self.replaceable(node, awaited=awaited)
        if function is None or (only_at_end and not single_exit(function.body)):
            return None
        method = isinstance(node.func, ast.Attribute)
        given = bind_arguments(function.args, node, bound=method)
        if given is None or not all(isinstance(d, ast.Constant) for d in _defaults(function.args)):
            return None
        self.inlined += 1
        frame = _frame(function, f"{self.inlined}:")
        written = [*node.args, *(k.value for k in node.keywords)]
        atoms = {id(argument): self.expr(argument) for argument in written}
        values = {name: atoms.get(id(value), value) for name, value in given.items()}
        if method:
            values[[*function.args.posonlyargs, *function.args.args][0].arg] = _read(f"<={self.self_name}>")
        for name in (*parameters(function.args),):
            # While the call runs, nothing changes the caller's names, but what it leaves behind may look at them later.
            if frame.scope.bindings[name] == 1 and (self.fixed(values[name]) or not leaves_code(function)):
                frame.values[name] = values[name]
            else:
                frame.names[name] = f"<v{self.inlined}:{name}>"
                self.emit(_store(frame.names[name], values[name]))
        return function, frame

    def run(self, function: FunctionNode, frame: _Frame, *, tail: bool) -> ast.expr:
        """Append what the body does; what it gives, where its end is its only exit."""
        outside, self.frame = self.frame, frame
        self.active.append(function.name)
        result: ast.expr = ast.Constant(value=None)
        last = function.body[-1] if function.body else None
        for statement in function.body:
            if not tail and statement is last and isinstance(statement, ast.Return):
                result = self.expr(statement.value) if statement.value else result
                if isinstance(result, ast.Name) and result.id in frame.names.values():
                    self.sealed.add(result.id)  # nothing stores to it behind the call
                result = result if self.fixed(result) else self.kept(result)
            else:
                self.statement(statement)
        if tail and not isinstance(last, ast.Return | ast.Raise):
            self.emit(ast.Return(value=None))
        self.active.pop()
        self.frame = outside
        return result


class _Substitute(ast.NodeTransformer):
    """Puts what names stand for into an expression that stays as it is."""

    def __init__(self, flattener: _Flattener, hidden: Set[str]) -> None:
        self.flattener = flattener
        self.hidden = hidden

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name of a scope inside the expression, and a global one, stay."""
        found = None if node.id in self.hidden else self.flattener.local(node.id)
        return node if found is None else found


def _frame(node: FunctionNode, prefix: str) -> _Frame:
    """`prefix` tells names apart that keep theirs: those that no plain store binds."""
    scope = Scope.of(node.body, node.args)
    if scope.shared or scope.dynamic or any(isinstance(s, ast.Expr) and _is_mark(s) for s in node.body if prefix):
        raise _Unknown
    imported = (n for n in walk_scope(node.body) if isinstance(n, ast.Import | ast.ImportFrom))
    names = {name: f"<v:{prefix}{name}>" for statement in imported for name in bound_names([statement])}
    # A comprehension's names are its own.
    inner = (c for s in node.body for c in walk(s) if isinstance(c, ast.comprehension))
    targets = Counter(n.id for c in inner for n in walk(c.target) if isinstance(n, ast.Name))
    scope = Scope(scope.bindings - targets, scope.shared, scope.dynamic)
    return _Frame(scope, frozenset(parameters(node.args)), bool(prefix), names=names)


def _is_mark(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant)


def _read(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _store(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value, lineno=0)


def _defaults(args: ast.arguments) -> Iterator[ast.expr]:
    yield from args.defaults
    yield from (d for d in args.kw_defaults if d is not None)
