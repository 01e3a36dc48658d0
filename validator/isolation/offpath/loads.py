"""Whether the statements of a module work when it is loaded, one after the other.

Every name has to be bound by then, every expression has to give a value. What surely fails is told from what only may.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from validator.isolation.offpath.constants import name_of, truth
from validator.isolation.offpath.kinds import Builtin, Module
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.purity import Purity
from validator.isolation.offpath.raising import Raising
from validator.isolation.offpath.scopes import Scope, bound_names
from validator.isolation.offpath.values import FAILS, worked_out
from validator.isolation.syntax import parts, unparse, walk

__all__ = ["Failure", "failures"]

_GIVEN = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__package__", "__path__", "__spec__",
                                     "__module__", "__qualname__", "__annotations__"}  # fmt: skip
_ALL_ERRORS = frozenset({"", "Exception", "BaseException"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that fails, or of which nothing shows that it works."""

    line: int
    what: str
    """Reads on from "line n ", and before "when imported"."""
    certain: bool


def failures(raises: Raising, path: str) -> Iterator[Failure]:
    """Of loading this file, in order."""
    module = raises.kinds.world.sources.parse(path).module
    if module is not None:
        yield from _Loading(raises, path, module).block(module.body)


class _Loading:
    """Goes through a module's statements with the names that are bound by then."""

    def __init__(self, raises: Raising, path: str, module: ast.Module) -> None:
        self.raises = raises
        self.names: Names = raises.kinds.world.names
        self.path = path
        self.bound: set[str] = set()
        self.place = Place(path, Scope.of(module.body))
        self.place.module_level = True
        future = (s for s in module.body if isinstance(s, ast.ImportFrom) and s.module == "__future__")
        self.postponed = any(alias.name == "annotations" for s in future for alias in s.names)
        self.pure = Purity(lambda name: False, self.names.at(path).is_itself)
        self.anything = False
        """A star import may have bound any name."""

    def block(self, body: Sequence[ast.stmt]) -> Iterator[Failure]:
        """Statements in order; what they bind is bound afterwards."""
        for node in body:
            yield from self.statement(node)

    def statement(self, node: ast.stmt) -> Iterator[Failure]:
        """One statement."""
        match node:
            case ast.Import():
                self.bound |= set(bound_names([node]))
            case ast.ImportFrom():
                self.imported(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self.function(node)
            case ast.ClassDef():
                yield from self.made_class(node)
            case ast.Assign(targets=targets, value=value):
                yield from self.evaluated(value)
                for target in targets:
                    yield from self.stored(target, value)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                yield from self.annotated(annotation)
                if value is not None:
                    yield from self.evaluated(value)
                    yield from self.stored(target, value)
            case ast.AugAssign(target=target, value=value):
                read = ast.copy_location(ast.Name(id=name_of(target), ctx=ast.Load()), target)
                yield from self.evaluated(read) if isinstance(target, ast.Name) else ()
                yield from self.evaluated(value)
            case ast.Expr(value=value):
                yield from self.evaluated(value)
            case ast.Delete(targets=targets):
                yield from (f for t in targets if isinstance(t, ast.Name) for f in self.unbound(t, t.id))
                self.bound -= {t.id for t in targets if isinstance(t, ast.Name)}
            case ast.Assert(test=test):
                yield from self.evaluated(test)
                if truth(test) is False:
                    yield Failure(node.lineno, f"asserts `{unparse(test)[:80]}`, which is false,", True)
                elif truth(test) is None:
                    yield Failure(node.lineno, f"asserts `{unparse(test)[:80]}`, which may be false,", False)
            case ast.If(test=test):
                yield from self.branches(node, test)
            case ast.Try():
                yield from self.tried(node)
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                yield from self.evaluated(iterated)
                before = set(self.bound)
                self.bound |= set(bound_names([ast.Assign(targets=[target], value=iterated, lineno=node.lineno)]))
                yield from self.block(body)
                some = isinstance(iterated, ast.Tuple | ast.List | ast.Set) and iterated.elts
                self.bound = self.bound if some else before
                yield from self.block(orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                yield from self.evaluated(test)
                before = set(self.bound)
                yield from self.block(body)
                self.bound = before
                yield from self.block(orelse)
            case ast.With(items=items, body=body):
                yield from (f for item in items for f in self.evaluated(item.context_expr))
                self.bound |= {n for i in items if i.optional_vars for n in _stored(i.optional_vars)}
                yield from self.block(body)
            case ast.Pass() | ast.Raise() | ast.Global():
                pass
            case _:
                shown = unparse(node).splitlines()[0][:80]
                yield Failure(node.lineno, f"does `{shown}`, which was not looked into,", False)
                self.bound |= set(bound_names([node]))

    # Statements ----------------------------------------------------------------------------------------------------

    def imported(self, node: ast.ImportFrom) -> None:
        """Names that an import brings in: those of a star import are the ones that the module has."""
        self.bound |= {alias.asname or alias.name for alias in node.names}
        if any(alias.name == "*" for alias in node.names):
            found = self.names.sources.module_path(self.names.sources.resolve(self.path, node))
            known = self.names.bindings(found) if found else {"*": []}
            self.anything |= "*" in known or "__all__" in known
            self.bound |= set(known)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Failure]:
        """Decorators, defaults and annotations."""
        a = node.args
        yield from self.decorated(node)
        for part in (*a.defaults, *(d for d in a.kw_defaults if d is not None)):
            yield from self.evaluated(part)
        for argument in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
            if argument is not None and argument.annotation is not None:
                yield from self.annotated(argument.annotation)
        if node.returns is not None:
            yield from self.annotated(node.returns)
        self.bound.add(node.name)

    def decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[Failure]:
        """Decorators: those that are known are there, and others are effects."""
        for decorator in node.decorator_list:
            yield from self.unread(decorator)
            if isinstance(decorator, ast.Call) and self.names.at(self.path).is_quiet(decorator):
                for part in (*decorator.args, *(k.value for k in decorator.keywords)):
                    yield from self.evaluated(part)

    def made_class(self, node: ast.ClassDef) -> Iterator[Failure]:
        """Decorators, bases, keywords and body; the body's names are its own."""
        yield from self.decorated(node)
        for part in (*node.bases, *(k.value for k in node.keywords)):
            yield from self.evaluated(part)
        outside, around = set(self.bound), self.place
        self.place = Place(self.path, Scope.of(node.body), node.name)
        self.place.module_level = True
        self.bound |= {"__class__"}
        for statement in node.body:
            yield from self.statement(statement)
            self.place.hidden = frozenset(self.bound - outside)
        self.bound, self.place = outside, around
        self.bound.add(node.name)

    def branches(self, node: ast.If, test: ast.expr) -> Iterator[Failure]:
        """What both branches bind is bound."""
        yield from self.evaluated(test)
        types = self.names.is_type_checking(self.path, test)
        is_main = isinstance(test, ast.Compare) and name_of(test.left) == "__name__"
        before = set(self.bound)
        if not (types or is_main):
            yield from self.block(node.body)
        then, self.bound = self.bound, set(before)
        yield from self.block(node.orelse)
        if not (types or is_main):
            self.bound = then if _leaves(node.orelse) else self.bound if _leaves(node.body) else self.bound & then
        elif not node.orelse:
            self.bound = before

    def tried(self, node: ast.Try) -> Iterator[Failure]:
        """What is caught is no failure."""
        before = set(self.bound)
        caught = {name_of(h.type) for h in node.handlers} | {
            name_of(e) for h in node.handlers if isinstance(h.type, ast.Tuple) for e in h.type.elts
        }
        found = list(self.block([*node.body, *node.orelse]))
        yield from () if caught & _ALL_ERRORS and node.handlers else found
        outcomes = [self.bound]
        for handler in node.handlers:
            self.bound = before | ({handler.name} if handler.name else set())
            yield from (f for part in [handler.type] if part is not None for f in self.evaluated(part))
            yield from self.block(handler.body)
            outcomes += [] if _leaves(handler.body) else [self.bound]
        self.bound = set.intersection(*map(set, outcomes))
        yield from self.block(node.finalbody)

    def stored(self, target: ast.expr, value: ast.expr) -> Iterator[Failure]:
        """What an assignment takes apart has to have as many parts."""
        if isinstance(target, ast.Tuple | ast.List):
            many = isinstance(value, ast.Tuple | ast.List) and not any(isinstance(e, ast.Starred) for e in value.elts)
            starred = any(isinstance(e, ast.Starred) for e in target.elts)
            if isinstance(value, ast.Tuple | ast.List) and many and not starred and len(value.elts) != len(target.elts):
                yield Failure(target.lineno, f"takes {len(target.elts)} values out of {len(value.elts)}", True)
            elif not many or starred:
                yield Failure(target.lineno, f"takes `{unparse(value)[:80]}` apart, which may not fit,", False)
        self.bound |= set(_stored(target))

    # Expressions ---------------------------------------------------------------------------------------------------

    def annotated(self, node: ast.expr) -> Iterator[Failure]:
        """An annotation, unless annotations are text in this file."""
        if self.postponed:
            return
        missing = list(self.unread(node))
        part = None if missing else self.raises.annotation(node, self.place)
        yield from missing
        if part is not None:
            yield self.may_fail(part)

    def evaluated(self, node: ast.expr) -> Iterator[Failure]:
        """An expression that is evaluated now."""
        missing = list(self.unread(node))
        part = None if missing else self.raises.part(node, self.place)
        yield from missing
        if part is not None and not self.is_said(part):
            yield self.may_fail(part)

    def is_said(self, part: ast.expr) -> bool:
        """Whether it is an effect of loading the module anyway: a call that is not known."""
        return not self.pure(part)

    def may_fail(self, part: ast.expr) -> Failure:
        """The part that is, or may be, an error."""
        shown = unparse(part)[:80]
        if self.surely(part):
            return Failure(part.lineno, f"evaluates `{shown}`, which is an error,", True)
        return Failure(part.lineno, f"evaluates `{shown}`, and nothing shows that this raises no error,", False)

    def surely(self, part: ast.expr) -> bool:
        """Whether it is an error and nothing else."""
        if worked_out(part, self.raises.known(self.place)) is FAILS:
            return True
        if isinstance(part, ast.Attribute):
            if isinstance(part.value, ast.Constant) and part.value.value is None:
                return True
            kind = self.raises.kinds.of(part.value, self.place)
            if isinstance(kind, Builtin):
                return not hasattr(kind.type, part.attr)
            return isinstance(kind, Module) and not {"*", "__getattr__"} & set(self.names.bindings(kind.path))
        return False

    def unread(self, node: ast.expr) -> Iterator[Failure]:
        """Names of the module's scope that nothing has bound by now."""
        todo: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
        while todo:
            part, own = todo.pop()
            if isinstance(part, ast.Lambda):
                continue
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id not in own:
                yield from self.unbound(part, part.id)
            generators: list[ast.comprehension] = getattr(part, "generators", [])
            own |= {n.id for g in generators for n in walk(g.target) if isinstance(n, ast.Name)}
            todo += [(child, own) for child in reversed(parts(part))]
            if isinstance(part, ast.NamedExpr):
                self.bound.add(part.target.id)

    def unbound(self, node: ast.expr, name: str) -> Iterator[Failure]:
        if name not in self.bound and name not in _GIVEN and not self.anything:
            bound = self.names.binds(self.path, name)
            yield Failure(node.lineno, f"reads `{name}`, which nothing binds{' before' if bound else ''},", True)


def _stored(node: ast.expr) -> Iterator[str]:
    """Names that a target binds."""
    return (n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)
