"""Partial evaluation of statements with the switch off: what is left of a function, class or module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from validator.isolation.offpath.constants import empty_display, is_constant, is_small, name_of, truth
from validator.isolation.offpath.losses import losses
from validator.isolation.offpath.matching import bound_by, matches
from validator.isolation.offpath.nodes import is_stub, mark_origin, with_fields
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.reduce import Reducer
from validator.isolation.offpath.scopes import FunctionNode, Scope, bound_names, parameters
from validator.isolation.offpath.traceless import without_idle_globals, without_overloads
from validator.isolation.offpath.walrus import leading_walrus, without_walrus
from validator.isolation.syntax import unparse, walk

if TYPE_CHECKING:
    from validator.isolation.offpath.world import World

__all__ = ["Simplifier", "function_body", "simplify_module"]

_Env = dict[str, ast.expr]


def simplify_module(world: World, path: str, module: ast.Module) -> list[ast.stmt]:
    """What is left of the module's statements."""
    place = Place(path, Scope.of(module.body))
    place.module_level = True
    body, _ = Simplifier(world, place).block(without_overloads(world, path, module.body))
    return [*losses(module.body, body), *body]


def function_body(world: World, place: Place, node: FunctionNode, known: _Env) -> tuple[list[ast.stmt], bool]:
    """What is left of a function's body when these parameters are known, and whether its end can be reached."""
    inner = Place(place.path, Scope.of(node.body, node.args), place.class_name, place.self_name)
    inner.enter(node.body)
    inner.function = node
    inner.outer = place if place.function else None
    inner.env = {k: v for k, v in known.items() if inner.may_know(k)}
    return Simplifier(world, inner).block(node.body)


class Simplifier:
    """Simplifies statements in order, with what is known about local names so far."""

    def __init__(self, world: World, place: Place) -> None:
        self.world = world
        self.place = place
        self.reduce = Reducer(world, place)

    def block(self, body: Iterable[ast.stmt]) -> tuple[list[ast.stmt], bool]:
        """(what is left, whether control can reach the end)."""
        out: list[ast.stmt] = []
        for statement in body:
            left, falls = self.statement(statement)
            out += left
            if not falls:
                return out, False
        return out, True

    def statement(self, node: ast.stmt) -> tuple[list[ast.stmt], bool]:
        """One statement."""
        expr = self.reduce.expr
        match node:
            case ast.If():
                return self._if(node)
            case ast.Assign():
                return self._assign(node)
            case ast.AnnAssign():
                return self._annotated(node)
            case ast.AugAssign():
                target = self._target(node.target)
                self._forget([node])
                return [with_fields(node, target=target, value=expr(node.value))], True
            case ast.Expr():
                value = expr(node.value)
                if not self.world.purity(value):
                    return [with_fields(node, value=value)], True
                self.world.note(value, self.place)
                return [], True
            case ast.Return():
                return [with_fields(node, value=expr(node.value) if node.value else None)], False
            case ast.Raise():
                return [
                    with_fields(node, exc=node.exc and expr(node.exc), cause=node.cause and expr(node.cause))
                ], False
            case ast.Break() | ast.Continue():
                return [node], False
            case ast.Pass():
                return [], True
            case ast.Assert():
                condition = self.reduce.test(node.test)
                if truth(condition) and self.world.purity(condition):
                    self.world.note(condition, self.place)
                    return [], True
                return [with_fields(node, test=condition, msg=node.msg and expr(node.msg))], True
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
            case ast.Try():
                return self._try(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return [node if is_stub(node) else self.function(node)], True
            case ast.ClassDef():
                return [self._class(node)], True
            case ast.Match():
                return self._match(node)
        if type(node).__name__ == "TryStar":
            return self._try(node)  # type: ignore[arg-type]  # the same fields as `Try`
        self._forget([node])
        return [node], True

    # Names -----------------------------------------------------------------------------------------------------

    def _forget(self, body: Iterable[ast.stmt]) -> None:
        """Nothing is known any more about names that these statements bind."""
        for name in bound_names(list(body)) if self.place.env else ():
            self.place.env.pop(name, None)

    def _learn(self, name: str, value: ast.expr) -> None:
        empty = isinstance(value, ast.Dict) and not value.keys and self._only_read(name)
        known = is_constant(value) or empty or (self._is_null(value) and name in self.place.entered)
        if known and is_small(value) and self.place.may_know(name) and not self.place.module_level:
            self.place.env[name] = value
        else:
            self.place.env.pop(name, None)

    def _only_read(self, name: str) -> bool:
        """Whether an empty display bound to this name stays empty."""
        return self.place.scope.bindings[name] == 1 and name in self.place.read_only

    def _target(self, node: ast.expr) -> ast.expr:
        """An assignment's target with reduced parts."""
        match node:
            case ast.Attribute(value=value):
                return with_fields(node, value=self.reduce.expr(value))
            case ast.Subscript(value=value, slice=index):
                return with_fields(node, value=self.reduce.expr(value), slice=self.reduce.expr(index))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return with_fields(node, elts=[self._target(e) for e in elements])
            case ast.Starred(value=value):
                return with_fields(node, value=self._target(value))
        return node

    # Simple statements -----------------------------------------------------------------------------------------

    def _assign(self, node: ast.Assign) -> tuple[list[ast.stmt], bool]:
        value = self.reduce.expr(node.value)
        targets = [self._target(t) for t in node.targets]
        self._forget([node])
        for target in targets:
            if isinstance(target, ast.Name):
                self._learn(target.id, value)
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                for one, part in zip(target.elts, value.elts, strict=True):
                    if isinstance(one, ast.Name) and is_constant(part):
                        self._learn(one.id, part)
        single = list(_one_by_one(targets, value))
        return [with_fields(node, targets=[target], value=part) for target, part in single] or [
            with_fields(node, targets=targets, value=value)
        ], True

    def _annotated(self, node: ast.AnnAssign) -> tuple[list[ast.stmt], bool]:
        in_class_or_module = self.place.module_level
        if in_class_or_module:
            return [with_fields(node, value=node.value and self.reduce.expr(node.value))], True
        if node.value is None:
            return [], True
        return self._assign(ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node))

    # Branches --------------------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> tuple[list[ast.stmt], bool]:
        walrus = leading_walrus(node.test)
        if walrus is not None:
            binding = ast.copy_location(ast.Assign(targets=[walrus.target], value=walrus.value), node)
            first, _ = self._assign(binding)
            rest, falls = self._if(with_fields(node, test=without_walrus(node.test)))
            return [*first, *rest], falls
        test = self.reduce.test(node.test)
        known = truth(test) if self.world.purity(test) else None
        if known is not None:
            self.world.note(test, self.place)
            taken, falls = self.block(node.body if known else node.orelse)
            return mark_origin([with_fields(s) for s in taken], node.lineno), falls
        before = dict(self.place.env)
        under, text = self.place.under, unparse(test)
        self.place.under = (*under, text)
        body, body_falls = self.block(node.body)
        after_body, self.place.env = self.place.env, before
        self.place.under = (*under, f"not {text}")
        orelse, else_falls = self.block(node.orelse)
        self.place.under = under
        if not else_falls:
            self.place.env = after_body
        elif body_falls:
            self.place.env = _common(after_body, self.place.env)
        if not body and not orelse:
            if not self.world.purity(test):
                return [ast.copy_location(ast.Expr(value=test), node)], True
            self.world.note(test, self.place, tested=True)
            return [], True
        return [with_fields(node, test=test, body=body, orelse=orelse)], body_falls or else_falls

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> tuple[list[ast.stmt], bool]:
        iterated = None if isinstance(node, ast.While) else self.reduce.expr(node.iter)
        self._forget([node])
        saved = dict(self.place.env)
        if isinstance(node, ast.While):
            test = self.reduce.test(node.test)
            if truth(test) is False and self.world.purity(test):
                self.world.note(test, self.place)
                return self.block(node.orelse)
            body, _ = self.block(node.body)
            fields: dict[str, object] = {"test": test}
        else:
            if iterated is not None and isinstance(node, ast.For) and self.reduce.gives_nothing(iterated):
                return self.block(node.orelse)
            body, _ = self.block(node.body)
            fields = {"iter": iterated, "target": self._target(node.target)}
        self.place.env = dict(saved)
        orelse, _ = self.block(node.orelse)
        self.place.env = _common(saved, self.place.env)
        return [with_fields(node, body=body, orelse=orelse, **fields)], True

    def _with(self, node: ast.With | ast.AsyncWith) -> tuple[list[ast.stmt], bool]:
        items = [
            ast.withitem(
                context_expr=self.reduce.expr(item.context_expr),
                optional_vars=item.optional_vars and self._target(item.optional_vars),
            )
            for item in node.items
        ]
        for item in node.items:
            for name in walk(item.optional_vars) if item.optional_vars else ():
                if isinstance(name, ast.Name):
                    self.place.env.pop(name.id, None)
        kept = [item for item in items if not self._is_null(item.context_expr) or item.optional_vars]
        if not kept and isinstance(node, ast.With):
            return self.block(node.body)
        before = dict(self.place.env)
        body, falls = self.block(node.body)
        if isinstance(node, ast.With) and self._is_unused_stack(node, items, body):
            return body, falls
        self.place.env = before
        # The context manager may swallow an exception from anywhere in the body.
        self._forget([node])
        return [with_fields(node, items=kept or items, body=body)], True

    def _is_unused_stack(self, node: ast.With, items: list[ast.withitem], body: list[ast.stmt]) -> bool:
        """Whether it is `contextlib.ExitStack() as stack`, and nothing that is left, here or later, names `stack`."""
        match items:
            case [ast.withitem(context_expr=made, optional_vars=ast.Name(id=name))] if self.place.function is not None:
                every = sum(isinstance(n, ast.Name) and n.id == name for n in walk(self.place.function))
                here = sum(isinstance(n, ast.Name) and n.id == name for n in walk(node))
                left = any(isinstance(n, ast.Name) and n.id == name for s in body for n in walk(s))
                return self._is_null(made, "ExitStack") and every == here and not left
        return False

    def _is_null(self, node: ast.expr, what: str = "nullcontext") -> bool:
        """Whether the expression makes a context that does nothing: `contextlib.nullcontext()`."""
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            return False
        first, _, rest = name_of(node.func).partition(".")
        local = self.place.local(first)
        bound = [self.place.imports.get(first)] if local else self.world.names.bindings(self.place.path).get(first, [])
        match bound:
            case [ast.ImportFrom(module="contextlib", level=0, names=names)]:
                return not rest and any((a.asname or a.name, a.name) == (first, what) for a in names)
            case [ast.Import(names=names)]:
                plain = any((a.asname or a.name, a.name) == (first, "contextlib") for a in names)
                return plain and rest == what
        return False

    def _try(self, node: ast.Try) -> tuple[list[ast.stmt], bool]:
        saved = dict(self.place.env)
        body, body_falls = self.block(node.body)
        after = self.place.env
        self.place.env = saved
        self._forget([node])
        anywhere = dict(self.place.env)
        handlers: list[ast.ExceptHandler] = []
        falls = False
        for handler in node.handlers:
            self.place.env = dict(anywhere)
            left, handler_falls = self.block(handler.body)
            falls |= handler_falls
            handlers.append(
                with_fields(
                    handler, type=handler.type and self.reduce.expr(handler.type), body=left or [_pass(handler)]
                )
            )
        self.place.env = dict(after) if not handlers else dict(anywhere)
        orelse, else_falls = self.block(node.orelse)
        falls |= body_falls and else_falls
        self.place.env = dict(anywhere) if handlers or node.finalbody else self.place.env
        final, final_falls = self.block(node.finalbody)
        if not body and not orelse:
            return final, final_falls
        if not handlers and not final and not orelse:
            return body, body_falls
        left_over = with_fields(node, body=body or [_pass(node)], handlers=handlers, orelse=orelse, finalbody=final)
        return [left_over], falls and final_falls

    def _match(self, node: ast.Match) -> tuple[list[ast.stmt], bool]:
        subject = self.reduce.expr(node.subject)
        known = is_constant(subject) and self.world.purity(subject)
        if not known:
            self._forget([node])
        saved = dict(self.place.env)
        cases: list[ast.match_case] = []
        for case in node.cases:
            fits = matches(subject, case.pattern) if known else None
            if fits is False:
                continue
            self.place.env = dict(saved)
            for name in bound_by(case.pattern):
                self.place.env.pop(name, None)
            guard = case.guard and self.reduce.test(case.guard)
            if guard is not None and self.world.purity(guard) and truth(guard) is not None:
                self.world.note(guard, self.place)
                fits, guard = (fits, None) if truth(guard) else (False, guard)
            if fits is False:
                continue
            if fits and guard is None and not cases and not bound_by(case.pattern):
                self.world.note(subject, self.place)
                taken, falls = self.block(case.body)
                return mark_origin([with_fields(s) for s in taken], node.lineno), falls
            body, _ = self.block(case.body)
            cases.append(ast.match_case(pattern=case.pattern, guard=guard, body=body or [_pass(node)]))
            if fits and guard is None:
                break
        self.place.env = saved
        self._forget([node])
        if known and not cases:
            self.world.note(subject, self.place)
            return [], True
        return [with_fields(node, subject=subject, cases=cases)], True

    # Definitions -----------------------------------------------------------------------------------------------

    def function(self, node: FunctionNode) -> FunctionNode:
        """A function with what is left of its body, and without what only the switch needs in its signature."""
        decorators = [d for d in (self._decorator(d, node) for d in node.decorator_list) if d is not None]
        self.place.env.pop(node.name, None)
        known = {}
        if not self.place.module_level:
            once = self.place.scope.bindings
            known = {k: v for k, v in self.place.env.items() if once[k] == 1}
        known = {k: v for k, v in known.items() if k not in set(bound_names(node.body))}
        for name in parameters(node.args):
            known.pop(name, None)
        known.update(self.world.arguments.known_parameters(self.place, node))
        inside = self.place
        if self.place.class_name and self.place.module_level:
            positional = [*node.args.posonlyargs, *node.args.args]
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
            inside = Place(self.place.path, self.place.scope, self.place.class_name, "")
            inside.self_name = positional[0].arg if positional and not static else ""
        elif self.place.self_name in parameters(node.args):
            inside = Place(self.place.path, self.place.scope)
            inside.function, inside.outer = self.place.function, self.place.outer
        root, self.world.root = self.world.root, node.body[0].lineno
        body, _ = function_body(self.world, inside, node, known)
        self.world.root = root
        body = [*losses(node.body, body, node.args), *without_idle_globals(body)]
        return with_fields(node, decorator_list=decorators, args=self._arguments(node), body=body or [_pass(node)])

    def _decorator(self, node: ast.expr, decorated: FunctionNode | ast.ClassDef) -> ast.expr | None:
        """The reduced decorator; None when what is decorated behaves the same without it."""
        from validator.isolation.offpath.decorators import (
            hands_back,  # it evaluates functions, and so needs this module
        )

        reduced = self.reduce.expr(node)
        if not hands_back(self.world, reduced, self.place, decorated):
            return reduced
        self.world.idle_decorators.add((self.place.path, node.lineno, unparse(node)))
        return None

    def _arguments(self, node: FunctionNode) -> ast.arguments:
        args = self.world.arguments.without_known_parameters(self.place, node)
        return ast.arguments(
            posonlyargs=args.posonlyargs,
            args=args.args,
            vararg=args.vararg,
            kwonlyargs=args.kwonlyargs,
            kw_defaults=[d and self.reduce.expr(d) for d in args.kw_defaults],
            kwarg=args.kwarg,
            defaults=[self.reduce.expr(d) for d in args.defaults],
        )

    def _class(self, node: ast.ClassDef) -> ast.ClassDef:
        if not self.place.module_level:
            return node  # its names may be the function's
        inner = Place(self.place.path, Scope.of(node.body), node.name)
        inner.module_level = True
        body, _ = Simplifier(self.world, inner).block(without_overloads(self.world, self.place.path, node.body))
        decorators = [d for d in (self._decorator(d, node) for d in node.decorator_list) if d is not None]
        bases = [self.reduce.expr(b) for b in node.bases]
        self.place.env.pop(node.name, None)
        return with_fields(node, decorator_list=decorators, bases=bases, body=body or [_pass(node)])


def _one_by_one(targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of each store in `a = b = None` and `a, b = None, {}`; nothing where their order matters."""
    pairs = [(target, value) for target in targets]
    if isinstance(targets[0], ast.Tuple) and len(targets) == 1:
        if not isinstance(value, ast.Tuple) or len(targets[0].elts) != len(value.elts):
            return
        pairs = list(zip(targets[0].elts, value.elts, strict=True))
    elif not is_constant(value):
        return
    plain = (isinstance(t, ast.Name) or (isinstance(t, ast.Attribute) and name_of(t)) for t, _ in pairs)
    if all(plain) and all(is_constant(v) or empty_display(v) is not None for _, v in pairs):
        yield from pairs


def _pass(at: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Pass(), at)


def _common(a: _Env, b: _Env) -> _Env:
    """What both know alike."""
    return {k: v for k, v in a.items() if k in b and ast.dump(v) == ast.dump(b[k])}
