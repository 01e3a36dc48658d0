"""Leaves out of a pair of files the functions that both have word for word: they need no evaluation.

What such a function does can only change through something it uses; that then differs itself, and is shown there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from validator.isolation.offpath.nodes import with_fields
from validator.isolation.offpath.scopes import FunctionNode
from validator.isolation.source import Source

__all__ = ["prune"]


def prune(base: Source, head: Source) -> tuple[ast.Module, ast.Module]:
    """Both modules, with `pass` for the body of every function that is the same text at the same place of both."""
    assert base.module is not None
    assert head.module is not None
    old, new = dict(_functions(base)), dict(_functions(head))
    same = {key for key, (_, text) in new.items() if key in old and old[key][1] == text}
    return tuple(  # type: ignore[return-value]  # a pair
        ast.Module(body=_emptied(side.module.body, {id(found[key][0]) for key in same}), type_ignores=[])
        for side, found in ((base, old), (head, new))
        if side.module is not None
    )


def _functions(source: Source) -> Iterator[tuple[tuple[str, int], tuple[FunctionNode, tuple[str, ...]]]]:
    """((qualified name, how many of that name came before), (function, its lines)) of module and class level."""
    seen: dict[str, int] = {}
    todo: list[tuple[str, ast.stmt]] = [("", s) for s in (source.module.body if source.module else [])]
    while todo:
        prefix, node = todo.pop(0)
        if isinstance(node, ast.ClassDef):
            todo = [(f"{prefix}{node.name}.", s) for s in node.body] + todo
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = prefix + node.name
            seen[name] = seen.get(name, -1) + 1
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield (name, seen[name]), (node, source.lines[start - 1 : node.end_lineno])


def _emptied(body: list[ast.stmt], same: set[int]) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for node in body:
        if id(node) in same:
            out.append(with_fields(node, body=[ast.copy_location(ast.Pass(), node)]))
        elif isinstance(node, ast.ClassDef):
            out.append(with_fields(node, body=_emptied(node.body, same)))
        else:
            out.append(node)
    return out
