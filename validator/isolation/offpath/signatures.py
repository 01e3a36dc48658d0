"""Signatures: defaults, what a call binds to which parameter, and a signature without some of its parameters."""

from __future__ import annotations

import ast

from validator.isolation.offpath.scopes import FunctionNode

__all__ = ["bind_arguments", "by_class", "called_as", "default_of", "drop_parameters", "position_of"]


def called_as(qualified: str) -> frozenset[str]:
    """Names under which calls mean this function: a constructor is called by its class's name too."""
    *owner, name = qualified.split(".")
    return frozenset({name, *owner}) if name == "__init__" else frozenset({name})


def default_of(args: ast.arguments, name: str) -> ast.expr | None:
    """The parameter's default, None when it has none or does not exist."""
    positional = [a.arg for a in (*args.posonlyargs, *args.args)]
    with_default = dict(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
    with_default |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    return with_default.get(name)


def position_of(node: FunctionNode, qualified: str, name: str) -> int | None:
    """Place of a parameter among the positional arguments of a call through an object or a class's name; None: it has
    none, or it depends on how the function is called."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    if name not in names or node.args.vararg or ("." in qualified and node.decorator_list):
        return None
    return names.index(name) - (1 if "." in qualified else 0)


def by_class(function: ast.expr, qualified: str) -> bool:
    """Whether a call may hand the object over as the first argument: `Layer.forward(layer, x)`."""
    owner = qualified.rpartition(".")[0].rpartition(".")[2]
    value = function.value if isinstance(function, ast.Attribute) else None
    return bool(owner) and owner in (getattr(value, "id", ""), getattr(value, "attr", ""))


def drop_parameters(args: ast.arguments, gone: set[str]) -> ast.arguments:
    """The signature without these parameters (each has a default)."""
    if not gone:
        return args
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    kept = [d for a, d in zip(positional, defaults, strict=True) if a.arg not in gone and d is not None]
    keyword = [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if a.arg not in gone]
    return ast.arguments(
        posonlyargs=[a for a in args.posonlyargs if a.arg not in gone],
        args=[a for a in args.args if a.arg not in gone],
        vararg=args.vararg,
        kwonlyargs=[a for a, _ in keyword],
        kw_defaults=[d for _, d in keyword],
        kwarg=args.kwarg,
        defaults=kept,
    )


def bind_arguments(args: ast.arguments, call: ast.Call, *, bound: bool) -> dict[str, ast.expr] | None:
    """Parameter → argument or default; None when that cannot be told. `bound`: the first parameter is given already."""
    if args.vararg or args.kwarg or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    positional = [a.arg for a in (*args.posonlyargs, *args.args)]
    if bound:
        positional = positional[1:]
    if len(call.args) > len(positional) or any(k.arg is None for k in call.keywords):
        return None
    known = dict(zip(positional, call.args, strict=False))
    names = {*positional, *(a.arg for a in args.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg not in names or keyword.arg in known:
            return None
        known[keyword.arg] = keyword.value
    all_positional = [a.arg for a in (*args.posonlyargs, *args.args)]
    defaults = dict(zip(all_positional[len(all_positional) - len(args.defaults) :], args.defaults, strict=True))
    defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    for name in names - set(known):
        if name not in defaults:
            return None
        known[name] = defaults[name]
    return known
