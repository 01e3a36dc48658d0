"""Imports of Python files: all of a tree's by a byte scan, one file's exactly from its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from validator.isolation.offpath.constants import name_of
from validator.isolation.source import Source, Sources
from validator.isolation.syntax import nodes, unparse

__all__ = ["Import", "ScannedImport", "When", "imports_of", "resolve_targets", "scan"]


class When(StrEnum):
    """When an import runs."""

    EAGER = "at import time"
    LAZY = "at call time"
    TYPE_CHECKING = "for type checking only"


@dataclass(frozen=True, slots=True)
class Import:
    """One name that one import statement brings in."""

    path: str
    line: int
    module: str
    """Absolute dotted name."""
    name: str
    """Name taken out of the module; empty for `import module`."""
    bound: str
    """Name it gets in the file."""
    when: When
    inside: str = ""
    """Function it stands in, as `Class.method`."""
    guards: tuple[str, ...] = ()
    """Conditions under which it runs, outermost first; also those of branches before it that leave."""
    optional: bool = False
    """An error of it is caught."""


@dataclass(frozen=True, slots=True)
class ScannedImport:
    """An import statement as the byte scan sees it: may stand in a string, `eager` is by indentation."""

    offset: int
    eager: bool
    level: int
    module: str
    names: tuple[str, ...]
    """Empty for `import module`."""


_FROM = re.compile(rb"from[ \t]+(\.*)[ \t]*([\w.]*)(?:[ \t\\\n]+|(?<=\.))import[ \t]*(\([^)]{0,20000}\)|[^\n;]*)")
_IMPORT = re.compile(rb"import[ \t]+([^\n;]+)")
_COMMENT = re.compile(rb"#[^\n]*")


def scan(data: bytes) -> Iterator[ScannedImport]:
    """Import statements in a file, by bytes alone: a superset of the real ones, in a fraction of a parse's time."""
    at = data.find(b"import")
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        while start > 1 and data[start - 2 : start - 1] == b"\\":
            start = data.rfind(b"\n", 0, start - 1) + 1
        line = data[start:at]
        # After `;` or `:` another statement starts on the same line.
        cut = max(line.rfind(b";"), line.rfind(b":")) + 1
        statement = line[cut:].lstrip(b" \t\f\\\n")
        eager = not line[:1].isspace() and b":" not in line[:cut]
        if not statement:
            yield from _plain(data, at, eager)
        elif statement.startswith(b"from"):
            yield from _from(data, at - len(statement), eager)
        at = data.find(b"import", at + 6)


def _plain(data: bytes, at: int, eager: bool) -> Iterator[ScannedImport]:
    match = _IMPORT.match(data, at)
    for part in _COMMENT.sub(b"", match[1]).split(b",") if match else ():
        if part.split():
            yield ScannedImport(at, eager, 0, part.split()[0].decode("utf-8", "replace"), ())


def _from(data: bytes, at: int, eager: bool) -> Iterator[ScannedImport]:
    match = _FROM.match(data, at)
    if match:
        listed = (_COMMENT.sub(b"", match[3]) if b"#" in match[3] else match[3]).strip(b"() \t\r\n\\")
        names = tuple(part.split()[0].decode("utf-8", "replace") for part in listed.split(b",") if part.split())
        yield ScannedImport(at, eager, len(match[1]), match[2].decode("utf-8", "replace"), names)


def resolve_targets(sources: Sources, path: str, found: ScannedImport) -> Iterator[str]:
    """Paths of the tree's modules that a scanned import names (a submodule rather than its package)."""
    module = found.module
    if found.level:
        module = sources.resolve(path, ast.ImportFrom(module=found.module, names=[], level=found.level))
    for name in found.names or ("",):
        target = sources.module_path(f"{module}.{name}") if name else None
        target = target or sources.module_path(module)
        if target and target != path:
            yield target


def imports_of(sources: Sources, path: str) -> tuple[Import, ...]:
    """Every import of the file, with when it runs and what guards it. Empty when the file does not parse."""
    source = sources.parse(path)
    if next(nodes(source.module, ast.Import, ast.ImportFrom), None) is None or source.module is None:
        return ()
    return tuple(_Walker(sources, source).block(source.module.body))


_LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break
_PLAIN = (ast.Assign, ast.Expr, ast.AnnAssign, ast.AugAssign, ast.Pass, *get_args(_LEAVES))
"""Statements that hold no others."""


_OWN_TYPE_CHECKING = re.compile(
    r"\bTYPE_CHECKING\s*(?::[^=\n]+)?=(?!=)"
    r"|^\s*from\s+(?!typing\b|typing_extensions\b)\S+\s+import\b[^#\n]*\bTYPE_CHECKING\b",
    re.M,
)
"""The file makes its own, or takes it from elsewhere."""


class _Walker:
    def __init__(self, sources: Sources, source: Source) -> None:
        self.sources = sources
        self.source = source
        self.inside: list[str] = []
        self.functions = 0
        self.guards: list[str] = []
        self.typing = 0
        self.caught = 0
        self.for_types = not _OWN_TYPE_CHECKING.search("\n".join(source.lines))
        """`TYPE_CHECKING` is the one of `typing`."""

    def block(self, body: list[ast.stmt]) -> Iterator[Import]:
        before = len(self.guards)
        for node in body:
            if isinstance(node, _PLAIN):
                continue
            yield from self.statement(node)
            if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], _LEAVES):
                self.guards.append(f"not ({unparse(node.test)})")
        del self.guards[before:]

    def statement(self, node: ast.stmt) -> Iterator[Import]:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield self._made(alias, alias.name, "", alias.asname or alias.name.split(".")[0])
            case ast.ImportFrom(names=names):
                module = self.sources.resolve(self.source.path, node)
                for alias in names:
                    yield self._made(alias, module, alias.name, alias.asname or alias.name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from self._definition(node, name)
            case ast.If():
                yield from self._if(node)
            case ast.Try(body=body, handlers=[*_, _]):
                self.caught += 1
                yield from self.block(body)
                self.caught -= 1
                yield from self.block([*(s for h in node.handlers for s in h.body), *node.orelse, *node.finalbody])
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from self.block(getattr(node, field, None) or [])
                for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                    yield from self.block(part.body)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, name: str) -> Iterator[Import]:
        function = not isinstance(node, ast.ClassDef)
        self.inside.append(name)
        self.functions += function
        yield from self.block(node.body)
        self.functions -= function
        self.inside.pop()

    def _if(self, node: ast.If) -> Iterator[Import]:
        typing = name_of(node.test).split(".")[-1] == "TYPE_CHECKING" and self.for_types
        condition = unparse(node.test)
        self.typing += typing
        self.guards.append(condition)
        yield from self.block(node.body)
        self.typing -= typing
        self.guards[-1] = f"not ({condition})"
        yield from self.block(node.orelse)
        self.guards.pop()

    def _made(self, alias: ast.alias, module: str, name: str, bound: str) -> Import:
        when = When.TYPE_CHECKING if self.typing else When.LAZY if self.functions else When.EAGER
        guards = tuple(g for g in self.guards if "TYPE_CHECKING" not in g)
        inside = ".".join(self.inside)
        return Import(self.source.path, alias.lineno, module, name, bound, when, inside, guards, self.caught > 0)
