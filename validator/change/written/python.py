"""Kernels that are written in Python: by what decorates them, whatever it is imported as."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from validator.change.written import cuda
from validator.change.written.definition import Definition, Maker

__all__ = ["definitions", "launched", "may_define", "parsed", "uncertain"]

_LARGEST = 4 << 20
"""Bytes of a file that is parsed."""
_RENAMED = 4
"""How often what a name stands for may have another name again."""
_WORDS = re.compile(rb"jit|kernel|prim_func|__global__")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(data: bytes) -> ast.Module | None:
    """None: it is no Python of this interpreter, and nothing is found in it."""
    if len(data) > _LARGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def may_define(data: bytes) -> bool:
    """Whether any word of those that make kernels stands in a file."""
    return _WORDS.search(data) is not None


def definitions(module: ast.Module) -> Iterator[Definition]:
    """Decorated functions, functions that are handed to a compiler by a call, and kernels of CUDA C++ in strings."""
    names = _aliases(module)
    handed = _handed(module, names)
    for node in ast.walk(module):
        if isinstance(node, _Function):
            makers = [_maker(names, decorator) for decorator in node.decorator_list]
            maker = next((m for m in makers if m is not None), handed.get(node.name))
            if maker is not None:
                certain = maker is not Maker.TRITON or node.name in handed
                yield Definition(node.name, node.lineno, _words(node), maker, certain)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value:
            text = cuda.live(node.value.encode("utf-8", "surrogatepass"))
            for one in cuda.definitions(text, cuda.markers(()), header=False):
                yield replace(one, line=node.lineno + one.line - 1 if node.end_lineno != node.lineno else node.lineno)


def uncertain(found: Iterable[Sequence[Definition]]) -> frozenset[str]:
    """Triton functions, of which a kernel may be made or which kernels may call."""
    return frozenset(one.name for ones in found for one in ones if one.maker is Maker.TRITON)


def launched(modules: Iterable[ast.Module], wanted: frozenset[str]) -> frozenset[str]:
    """Triton functions that something other than a kernel names; functions that kernels call are inlined.

    One that nobody names may be launched by a file that did not change: it is if it asks which program it is and gives
    nothing back, and no kernel names it.
    """
    outside: set[str] = set()
    inside: set[str] = set()
    alone: set[str] = set()
    for module in modules:
        names = _aliases(module)
        stack: list[tuple[ast.AST, bool]] = [(module, False)]
        while stack:
            node, within = stack.pop()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in wanted:
                (inside if within else outside).add(node.id)
            elif isinstance(node, ast.Attribute) and node.attr in wanted:
                (inside if within else outside).add(node.attr)
            elif isinstance(node, _Function) and any(_maker(names, d) is Maker.TRITON for d in node.decorator_list):
                within = True
                if _stands_alone(node):
                    alone.add(node.name)
            stack.extend((child, within) for child in ast.iter_child_nodes(node))
    return frozenset(outside | (alone & wanted) - inside)


def _stands_alone(function: _Function) -> bool:
    asks = gives = False
    for node in ast.walk(function):
        asks |= isinstance(node, ast.Attribute) and node.attr == "program_id"
        gives |= isinstance(node, ast.Return) and node.value is not None
    return asks and not gives


def _words(function: _Function) -> str:
    try:
        return ast.dump(function)
    except RecursionError:
        return f"line {function.lineno} to {function.end_lineno}"


def _aliases(module: ast.Module) -> dict[str, str]:
    """Name in this file → what it was imported as, or set to, with dots."""
    found: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found.update((a.asname, a.name) for a in node.names if a.asname)
        elif isinstance(node, ast.ImportFrom):
            found.update((a.asname or a.name, f"{node.module or ''}.{a.name}") for a in node.names)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            dotted = _dotted(node.value)
            if "." in dotted:
                found.setdefault(node.targets[0].id, dotted)
    return found


def _handed(module: ast.Module, names: dict[str, str]) -> dict[str, Maker]:
    """Functions that a call hands to a compiler: `f = triton.jit(f)`."""
    found: dict[str, Maker] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
            maker = _maker(names, node.func)
            if maker is not None:
                found[node.args[0].id] = maker
    return found


def _maker(names: dict[str, str], decorator: ast.expr) -> Maker | None:
    """What compiles a function that is decorated so."""
    dotted = _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    for _ in range(_RENAMED):
        first, dot, rest = dotted.partition(".")
        if first not in names:
            break
        dotted = names[first] + dot + rest
        if dotted.partition(".")[0] == first:  # `from triton import triton`
            break
    *where, what = dotted.split(".")
    if what == "jit" and {"triton", "gluon"} & set(where):
        return Maker.TRITON
    if what == "kernel" and {"cute", "cutlass"} & set(where):
        return Maker.CUTE
    if (what == "jit" and "cuda" in where) or (what == "prim_func" and where):
        return Maker.OTHER
    return None


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of attributes of a name; empty: it is something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
