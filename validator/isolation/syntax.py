"""Syntax trees, walked once; and syntax newer than the running interpreter's, lowered to what its `ast` reads.

Covers PEP 695 and 696 (`type X = …`, `def f[T](…)`, `class C[T]`), PEP 758 (`except A, B:`) and PEP 750 (`t"…"` as
an f-string). Line numbers stay. Type parameters vanish: they never change what runs with a switch off.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

__all__ = ["every_node", "lower_new_syntax"]

_TYPE = re.compile(r"^([ \t]*)type[ \t]+([A-Za-z_]\w*)[ \t]*(\[[^=\n]*\])?[ \t]*=(?!=)", re.M)
_GENERIC = re.compile(r"^([ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+[^\W\d]\w*)[ \t]*\[", re.M)
_EXCEPT = re.compile(r"^([ \t]*except\*?[ \t]+)([^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)+)[ \t]*:", re.M)
_TEMPLATE = re.compile(r"(?<![\w\"'])(?:[tT]([rR]?)|([rR])[tT])(?=[\"'])")


@lru_cache(maxsize=256)
def every_node(module: ast.Module) -> tuple[ast.AST, ...]:
    """What `ast.walk` gives, without the load and store marks: every rule asks for it, so a module is walked once."""
    found: list[ast.AST] = [module]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return tuple(found)


def lower_new_syntax(text: str) -> str:
    """The same program for an older parser, as far as it can be told; unchanged where it cannot."""
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
