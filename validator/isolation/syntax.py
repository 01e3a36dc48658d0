"""Syntax trees, walked once; and syntax newer than the running interpreter's, lowered to what its `ast` reads.

Covers PEP 695 and 696 (`type X = …`, `def f[T](…)`, `class C[T]`), PEP 701 (f-strings with anything inside), PEP 758
(`except A, B:`) and PEP 750 (`t"…"` as an f-string). Line numbers stay. Type parameters vanish: they never change what
runs with a switch off.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from validator.isolation.fstrings import lower_fstrings

__all__ = ["functions", "lower_new_syntax", "nodes", "parse_new_syntax", "parts", "unparse", "walk"]

_Node = TypeVar("_Node", bound=ast.AST)

_TYPE = re.compile(r"^([ \t]*)type[ \t]+([A-Za-z_]\w*)[ \t]*(\[[^=\n]*\])?[ \t]*=(?!=)", re.M)
_GENERIC = re.compile(r"^([ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+[^\W\d]\w*)[ \t]*\[", re.M)
_EXCEPT = re.compile(r"^([ \t]*except\*?[ \t]+)([^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)+)[ \t]*:", re.M)
_TEMPLATE = re.compile(r"(?<![\w\"'])(?:[tT]([rR]?)|([rR])[tT])(?=[\"'])")


_INERT = frozenset(
    {
        "ctx", "op", "ops", "id", "attr", "arg", "kind", "level", "module", "asname", "conversion", "simple",
        "is_async", "lineno", "type_comment", "type_ignores", "tag", "kwd_attrs", "rest",
    }
)  # fmt: skip
"""Fields that hold no code: names, marks, operators."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """Type of a node → its fields that may hold nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = () if issubclass(kind, ast.Constant) else tuple(name for name in kind._fields if name not in _INERT)
        self[kind] = found
        return found


_FIELDS = _Fields()


def parts(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives, without operators and marks of loads and stores: in a fraction of the time."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """What `ast.walk` gives, without operators and marks of loads and stores."""
    todo = [node]
    for one in todo:
        yield one
        todo += parts(one)


@lru_cache(maxsize=256)
def _by_kind(module: ast.Module) -> dict[type[ast.AST], list[ast.AST]]:
    """Every node of a module by its type, outer ones first: every rule asks for some, so a module is walked once."""
    found: list[ast.AST] = [module]
    kinds: dict[type[ast.AST], list[ast.AST]] = {}
    for node in found:
        kind = type(node)
        if kind in kinds:
            kinds[kind].append(node)
        else:
            kinds[kind] = [node]
        for name in _FIELDS[kind]:
            value = getattr(node, name, None)
            if type(value) is list:
                found += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return kinds


def nodes(module: ast.Module | None, *kinds: type[_Node]) -> Iterator[_Node]:
    """Every node of these types in a module; nothing where there is no module."""
    if module is not None:
        found = _by_kind(module)
        for kind in kinds:
            yield from found.get(kind, ())  # type: ignore[misc]  # they are of the type they are filed under


def functions(module: ast.Module | None) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    yield from nodes(module, ast.FunctionDef)
    yield from nodes(module, ast.AsyncFunctionDef)


def parse_new_syntax(text: str) -> ast.Module:
    """The tree of a program in newer syntax than the running interpreter's. Raises what `ast.parse` raises."""
    lowered, put_back = lower_fstrings(text)
    return put_back(ast.parse(f"{_lower_statements(lowered)}\n"))


def lower_new_syntax(text: str) -> str:
    """The same program for an older parser, as far as it can be told; fields of f-strings may be names instead."""
    return _lower_statements(lower_fstrings(text)[0])


def unparse(node: ast.AST) -> str:
    """Source of a node; where an older interpreter cannot write what a newer one reads, its structure."""
    try:
        return ast.unparse(node)
    except ValueError:
        return ast.dump(node)


def _lower_statements(text: str) -> str:
    """Unchanged where it cannot be told."""
    text = _TYPE.sub(r"\1\2 =", text)
    text = _EXCEPT.sub(r"\1(\2):", text)
    text = _TEMPLATE.sub(lambda m: "f" + (m[1] or m[2] or ""), text)
    out: list[str] = []
    position = 0
    for match in _GENERIC.finditer(text):
        if match.start() < position:
            continue
        end = _closing(text, match.end() - 1)
        out += [text[position : match.end(1)], _newlines(text[match.end(1) : end])]
        position = end
    return "".join([*out, text[position:]])


def _closing(text: str, start: int) -> int:
    """Index behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, min(len(text), start + 10_000)):
        depth += (text[i] == "[") - (text[i] == "]")
        if not depth:
            return i + 1
    return start


def _newlines(text: str) -> str:
    """Line continuations, as many as the removed text had newlines."""
    return "\\\n" * text.count("\n")
