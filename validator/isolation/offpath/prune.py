"""Leaves out of a pair of files the functions that both have word for word: they need no evaluation.

What such a function does can only change through something it uses; that then differs itself, and is shown there.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from validator.isolation.offpath.nodes import inert, ranks, stub, with_fields
from validator.isolation.offpath.scopes import FunctionNode, bound_names
from validator.isolation.source import Source

__all__ = ["prune"]


def prune(base: Source, head: Source) -> tuple[ast.Module, ast.Module]:
    """Both modules without the functions that both have in the same words: left out, or where making them runs
    something or their order differs, with a stub in their place."""
    assert base.module is not None
    assert head.module is not None
    old, new = dict(_functions(base)), dict(_functions(head))
    same = {key for key, (_, text) in new.items() if key in old and old[key][1] == text}
    places = [_ranked(module) for module in (base.module, head.module)]
    in_order = [(k, places[0][id(old[k][0])]) for k in old if k in same] == [
        (k, places[1][id(new[k][0])]) for k in new if k in same
    ]
    return (
        _without(base.module, {id(old[key][0]) for key in same}, in_order),
        _without(head.module, {id(new[key][0]) for key in same}, in_order),
    )


def _ranked(node: ast.Module | ast.ClassDef) -> dict[int, int]:
    """`id` of a statement → how many before it, in its own block, may do something."""
    found = dict(zip(map(id, node.body), ranks(node.body), strict=True))
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            found |= _ranked(inner)
    return found


def _without(module: ast.Module, same: set[int], in_order: bool) -> ast.Module:
    return ast.Module(body=_emptied(module.body, same, in_order), type_ignores=[])


def _functions(source: Source) -> Iterator[tuple[tuple[str, int], tuple[FunctionNode, tuple[str, ...]]]]:
    """((qualified name, how many of that name came before), (function, its lines)) of module and class level."""
    seen: dict[str, int] = {}
    for prefix, node in _definitions("", source.module.body if source.module else []):
        name = prefix + node.name
        seen[name] = seen.get(name, -1) + 1
        start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        yield (name, seen[name]), (node, source.lines[start - 1 : node.end_lineno])


def _definitions(prefix: str, body: list[ast.stmt]) -> Iterator[tuple[str, FunctionNode]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _definitions(f"{prefix}{node.name}.", node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix, node


def _emptied(body: list[ast.stmt], same: set[int], in_order: bool) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    bound = Counter(bound_names(body))
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and id(node) in same:
            alone = bound[node.name] == 1 and not bound["*"]
            out += [] if in_order and inert(node) and alone else [stub(node)]
        elif isinstance(node, ast.ClassDef):
            out.append(with_fields(node, body=_emptied(node.body, same, in_order)))
        else:
            out.append(node)
    return out
