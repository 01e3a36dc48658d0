"""Names of modules that code puts together when it runs: `import_module(f"engine.models.{arch}")`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from validator.isolation.offpath.constants import is_constant, name_of, value_of
from validator.isolation.source import Sources
from validator.isolation.syntax import functions, nodes, walk

__all__ = ["PutTogether", "put_together"]

LOADERS = ("import_module", "__import__", "find_spec")
_MOST = 256
_ANYTHING = r"[\w.]*"
_HOLES = 3
"""What stands behind more unknown parts than these is not looked at: matching would take time."""


@dataclass(frozen=True, slots=True)
class PutTogether:
    """One name of a module that is known in part."""

    path: str
    line: int
    pattern: re.Pattern[str]
    """What the whole dotted name can be."""


def put_together(base: Sources) -> Iterator[PutTogether]:
    """Every such name in files outside the isolated paths whose beginning is known."""
    for path in sorted({p for word in LOADERS for p in base.mentions(word)}):
        module = base.parse(path).module
        for call in nodes(module, ast.Call):
            if name_of(call.func).rpartition(".")[2] in LOADERS and call.args and module is not None:
                pieces = _Pieces(module, call.lineno).of(call.args[0])
                pattern = _whole(base, path, pieces)
                if pattern is not None:
                    yield PutTogether(path, call.lineno, pattern)


def _whole(base: Sources, path: str, pieces: list[Set[str]]) -> re.Pattern[str] | None:
    """None: nothing is put together, or the beginning is not known."""
    first = pieces[0] if pieces else frozenset[str]()
    if len(pieces) < 2 or len(first) != 1 or "." not in (begin := next(iter(first))):
        return None
    if begin.startswith("."):
        package = base.module_name(path) if path.endswith("__init__.py") else base.module_name(path).rpartition(".")[0]
        pieces = [frozenset({f"{package}{begin}"}), *pieces[1:]]
    shown: list[str] = []
    for piece in pieces:
        if not piece and shown.count(_ANYTHING) == _HOLES:
            return re.compile("".join(shown) + ".*", re.S)
        if piece or shown[-1] != _ANYTHING:
            shown.append(f"(?:{'|'.join(map(re.escape, sorted(piece)))})" if piece else _ANYTHING)
    return re.compile("".join(shown))


class _Pieces:
    """Takes an expression for a text apart: each piece is what it may be; the empty set: anything."""

    def __init__(self, module: ast.Module, line: int) -> None:
        self.module = module
        around = [f for f in functions(module) if f.lineno <= line <= (f.end_lineno or 0)]
        self.body: ast.AST = max(around, key=lambda f: f.lineno, default=module)

    def of(self, node: ast.expr, depth: int = 0) -> list[Set[str]]:
        """From left to right."""
        match node:
            case ast.Constant(value=str(text)):
                return [frozenset({text})]
            case ast.JoinedStr(values=values):
                return [piece for value in values for piece in self.of(value, depth)]
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self.of(value, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [*self.of(left, depth), *self.of(right, depth)]
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
                return _holes(re.split(r"%\w", text))
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                return _holes(re.split(r"\{[^{}]*\}", text))
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value="."), attr="join"), args=[ast.List(elts=elements)]
            ):
                pieces = [piece for e in elements for piece in (*self.of(e, depth), frozenset({"."}))]
                return pieces[:-1]
            case ast.Name(id=name) if depth < 4:
                return self._name(name, depth)
            case (
                ast.Subscript(value=ast.Name(id=table))
                | ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="get"), args=[_])
            ):
                return [self._values(table)]
        return [frozenset()]

    def _name(self, name: str, depth: int) -> list[Set[str]]:
        """A name that one assignment binds, or that a loop over constants goes through."""
        bound = [
            n
            for scope in dict.fromkeys((self.body, self.module))
            for n in walk(scope)
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        ]
        stored = {id(n) for n in bound}
        for node in walk(self.module) if len(stored) == 1 else ():
            match node:
                case ast.Assign(targets=[target], value=value) if id(target) in stored:
                    return self.of(value, depth + 1)
                case ast.For(target=target, iter=iterated) if id(target) in stored:
                    return [_constants(iterated)]
        return [frozenset()]

    def _values(self, table: str) -> Set[str]:
        """Of a table of the module that is written out; empty where something else may be in it."""
        plain = [n.value for n in nodes(self.module, ast.Assign) if table in map(name_of, n.targets)]
        annotated = [n.value for n in nodes(self.module, ast.AnnAssign) if table == name_of(n.target)]
        shown = next(iter((*plain, *annotated)), None) if len(plain) + len(annotated) == 1 else None
        return _constants(shown.values) if isinstance(shown, ast.Dict) else frozenset()


def _holes(texts: list[str]) -> list[Set[str]]:
    """Known texts with something between each two."""
    pieces = [piece for text in texts for piece in (frozenset({text}), frozenset[str]())]
    return list(pieces[:-1])


def _constants(shown: ast.expr | list[ast.expr]) -> Set[str]:
    """Texts of a display; empty where not all are constants."""
    elements = shown if isinstance(shown, list) else getattr(shown, "elts", [])
    if not elements or len(elements) > _MOST or not all(map(is_constant, elements)):
        return frozenset()
    return frozenset(str(value_of(e)) for e in elements)
