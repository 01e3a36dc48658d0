"""Functions of one file that both sides have, written differently: those that do the same are taken for equal."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from validator.isolation.offpath.canonical import canonical
from validator.isolation.offpath.compare import Kind, Residue
from validator.isolation.offpath.names import Names, decorator_name
from validator.isolation.offpath.nodes import is_stub, with_fields
from validator.isolation.offpath.scopes import FunctionNode
from validator.isolation.syntax import functions, nodes, walk

__all__ = ["Side", "rewritten"]

_STABLE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)

_OF_THE_FRAME = frozenset(
    {"super", "__class__", "locals", "inspect", "traceback", "currentframe", "_getframe", "f_back", "f_code"}
)
"""What depends on which function it stands in; so does `stacklevel=`."""

_COMPILERS = frozenset({"jit", "njit", "script", "script_if_tracing", "kernel"})
"""Decorators that read a function's source and make another program of it: torch.jit, numba, Triton, CuTe."""


@dataclass(frozen=True)
class Side:
    """One side of a changed file, in canonical shape."""

    names: Names
    path: str
    body: list[ast.stmt]

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Qualified name → function, for those of which there is one."""
        return dict(_functions(self.body))

    def stable(self, name: str) -> bool:
        """Whether a global name of the file means the same at all times: a definition, an import, a builtin."""
        bound = self.names.bindings(self.path).get(name, [])
        if not bound:
            return hasattr(builtins, name) and not self.names.binds(self.path, "*")
        data = self.names.sources.data(self.path)
        rebound = re.search(rb"\bglobal\b[^\n]*\b" + re.escape(name.encode()) + rb"\b", data)
        return len(bound) == 1 and isinstance(bound[0], _STABLE) and rebound is None and not self._replaced(name)

    def _replaced(self, name: str) -> bool:
        """Whether another module stores to this one's name: `engine.a.step = …`, `setattr(a, "step", …)`."""
        sources = self.names.sources
        own = sources.module_name(self.path).rpartition(".")[2].encode()
        word = re.escape(name.encode())
        stored = re.compile(
            rb"\b" + re.escape(own) + rb"\." + word + rb"\s*=(?!=)|setattr\([^\n]*[\"']" + word + rb"[\"']"
        )
        return any(stored.search(sources.data(p)) for p in sources.mentions(own.decode()) if p != self.path)


@dataclass(frozen=True)
class _Known:
    """What is known inside one function of a side: see `canonical.Known`."""

    here: Side
    there: Side
    owner: str
    """The class of a method, empty for functions."""

    def stable(self, name: str) -> bool:
        """The same on both sides, so that a name that became something else is one that may change."""
        return self.here.stable(name) and self.there.stable(name)

    def callee(self, name: str, *, method: bool, awaited: bool) -> FunctionNode | None:
        """A plain function or method that only this side has, and that nothing else could mean or put in its place."""
        qualified = f"{self.owner}.{name}" if method else name
        found = self.here.functions.get(qualified)
        kind = ast.AsyncFunctionDef if awaited else ast.FunctionDef
        if not isinstance(found, kind) or found.decorator_list or qualified in self.there.functions:
            return None
        if method and not self.owner:
            return None
        if not (self._only_here(name) and _moves(found, method=method)):
            return None
        return found if method or self.here.stable(name) else None

    def _only_here(self, name: str) -> bool:
        """Whether the name occurs in no other file, not on the other side, and is stored to nowhere."""
        if self.there.names.sources.mentions(name) or self.here.names.sources.mentions(name) != (self.here.path,):
            return False
        module = self.here.names.sources.parse(self.here.path).module
        stored = (a for a in nodes(module, ast.Attribute) if a.attr == name and not isinstance(a.ctx, ast.Load))
        in_text = (c for c in nodes(module, ast.Constant) if c.value == name)
        defined = sum(f.name == name for f in functions(module))
        return defined == 1 and next(stored, None) is None and next(in_text, None) is None


def _moves(node: FunctionNode, *, method: bool) -> bool:
    """Whether the body means the same in another place: no `super`, no mangled names outside the class, no look at who
    called it."""
    for part in (n for s in node.body for n in walk(s)):
        name = getattr(part, "attr", None) or getattr(part, "id", None) or ""
        if name in _OF_THE_FRAME or getattr(part, "arg", "") == "stacklevel":
            return False
        if name.startswith("__") and not name.endswith("__") and not method:
            return False
    return not (node.args.vararg or node.args.kwarg)


def rewritten(base: Side, head: Side) -> tuple[list[ast.stmt], list[Residue]]:
    """The head's statements with the base's function in place of each that does the same, and what was taken so."""
    same: dict[int, FunctionNode] = {}
    residue: list[Residue] = []
    for name, new in head.functions.items():
        old = base.functions.get(name)
        if not _COMPILERS.isdisjoint(map(decorator_name, new.decorator_list)):
            continue
        if old is None or is_stub(new) or is_stub(old) or ast.dump(old) == ast.dump(new):
            continue
        owner = name.rpartition(".")[0]
        before = canonical(old, _Known(base, head, owner))
        if before is not None and before == canonical(new, _Known(head, base, owner)):
            same[id(new)] = old
            residue.append(Residue(Kind.REWRITTEN, f"`{name}` is written differently and does the same", new.lineno))
    return (_replaced(head.body, same) if same else head.body), residue


def _replaced(body: list[ast.stmt], same: dict[int, FunctionNode]) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for node in body:
        if id(node) in same:
            out.append(ast.copy_location(with_fields(same[id(node)]), node))
        elif isinstance(node, ast.ClassDef):
            out.append(with_fields(node, body=_replaced(node.body, same)))
        else:
            out.append(node)
    return out


def _functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Of names that are defined several times, none."""
    definitions = [n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    names = [n.name for n in definitions]
    for node in definitions:
        if names.count(node.name) > 1:
            continue
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        else:
            yield f"{prefix}{node.name}", node
