"""Decorators of the tree that, with the switch off, hand back what they get, or something that only hands calls on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from validator.isolation.offpath.constants import is_constant, name_of
from validator.isolation.offpath.names import Function
from validator.isolation.offpath.nodes import inert
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.scopes import FunctionNode, Scope, bound_names, parameters, walk_scope
from validator.isolation.offpath.signatures import bind_arguments
from validator.isolation.offpath.simplify import function_body

if TYPE_CHECKING:
    from validator.isolation.offpath.world import World

__all__ = ["hands_back", "only_wraps"]


def hands_back(world: World, decorator: ast.expr, place: Place, decorated: FunctionNode | ast.ClassDef) -> bool:
    """Whether decorating the function changes nothing that its callers can tell, and has no effect."""
    function = world.function(decorator.func if isinstance(decorator, ast.Call) else decorator, place)
    if function is None or function.class_name or function.node.decorator_list:
        return False
    if not isinstance(decorator, ast.Call):
        whole = _simplified(world, function)
        return world.returns_parameter(function) or (whole is not None and _keeps(whole, decorated, world))
    if not all(is_constant(a) for a in (*decorator.args, *(k.value for k in decorator.keywords))):
        return False
    known = bind_arguments(function.node.args, decorator, bound=False)
    if known is None or not all(map(is_constant, known.values())):
        return False
    made = _made(function_body(world, _inside(function), function.node, known)[0], world)
    return made is not None and _keeps(made, decorated, world)


def only_wraps(world: World, decorator: ast.expr, place: Place) -> bool:
    """Whether decorating a function only makes another one around it, which runs when it is called."""
    function = world.function(decorator.func if isinstance(decorator, ast.Call) else decorator, place)
    if function is None or function.class_name or function.node.decorator_list or isinstance(decorator, ast.Call):
        return False
    whole = _simplified(world, function)
    made = _made(whole.body, world) if whole is not None else None
    return made is not None and inert(ast.FunctionDef(made.name, made.args, [], [], None)) and _is_wrapped(made, whole)


def _is_wrapped(made: ast.FunctionDef, decorator: ast.FunctionDef | None) -> bool:
    """Whether all that decorates the new function makes it look like the decorator's argument."""
    first = next(iter(decorator.args.args), None) if decorator is not None else None
    for outer in made.decorator_list:
        match outer:
            case ast.Call(func=function, args=[ast.Name(id=name)], keywords=[]) if first and name == first.arg:
                if name_of(function) not in ("wraps", "functools.wraps"):
                    return False
            case _:
                return False
    return True


def _inside(function: Function) -> Place:
    return Place(function.path, Scope())


def _simplified(world: World, function: Function) -> ast.FunctionDef | None:
    """The decorator with what is left of its body."""
    node = function.node
    if not isinstance(node, ast.FunctionDef):
        return None
    body, _ = function_body(world, _inside(function), node, {})
    return ast.copy_location(
        ast.FunctionDef(name=node.name, args=node.args, body=body, decorator_list=[], returns=None), node
    )


def _made(body: list[ast.stmt], world: World) -> ast.FunctionDef | None:
    """The function that these statements define and return, when they do nothing else."""
    left = [s for s in body if not _private(s, world)]
    match left:
        case [ast.FunctionDef(name=name) as made, ast.Return(value=ast.Name(id=returned))] if name == returned:
            return made
    return None


def _private(node: ast.stmt, world: World) -> bool:
    """Whether a statement only binds local names to something free of effects."""
    return (
        isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets) and world.purity(node.value)
    )


def _keeps(decorator: FunctionNode, decorated: FunctionNode | ast.ClassDef, world: World) -> bool:
    """Whether a decorator gives back its argument, or a wrapper that hands every call on to it."""
    first = next(iter(decorator.args.args), None)
    if first is None or decorator.decorator_list:
        return False
    if first.arg in bound_names(decorator.body):
        return False
    match [s for s in decorator.body if not _private(s, world)]:
        case [ast.Return(value=ast.Name(id=name))] if name == first.arg:
            return True
    wrapper = _made(decorator.body, world)
    return wrapper is not None and _hands_on(wrapper, first.arg, decorated)


def _hands_on(wrapper: ast.FunctionDef, wrapped: str, decorated: FunctionNode | ast.ClassDef) -> bool:
    """Whether the wrapper does nothing but call the function with what it gets, and looks like it."""
    if not isinstance(decorated, ast.FunctionDef) or any(
        isinstance(n, ast.Yield | ast.YieldFrom) for n in walk_scope(decorated.body)
    ):
        return False  # what asks whether it is a coroutine or a generator function would get another answer
    match wrapper.decorator_list:
        case [ast.Call(func=function, args=[ast.Name(id=name)], keywords=[])] if name == wrapped:
            if name_of(function).split(".")[-1] != "wraps":
                return False
        case _:
            return False
    args = wrapper.args
    named = [a.arg for a in (*args.posonlyargs, *args.args)]
    own = [a.arg for a in (*decorated.args.posonlyargs, *decorated.args.args)]
    if named != own[: len(named)] or args.defaults or args.kwonlyargs or wrapped in parameters(args):
        return False
    match wrapper.body:
        case [ast.Return(value=ast.Call(func=ast.Name(id=name), args=given, keywords=keywords))] if name == wrapped:
            return _names(given) == [*named, f"*{args.vararg.arg}" if args.vararg else ""] and [
                (k.arg, name_of(k.value)) for k in keywords
            ] == [(None, args.kwarg.arg if args.kwarg else "")]
    return False


def _names(given: list[ast.expr]) -> list[str]:
    return [f"*{name_of(a.value)}" if isinstance(a, ast.Starred) else name_of(a) for a in given]
