"""Imports that came, went or changed places: what they load, what they bind, and who sees it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from validator.isolation.offpath.compare import Context, Difference, Kind, Residue, added, is_standard
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.loading import acts, from_outside, newly_loaded
from validator.isolation.offpath.lookups import Lookups
from validator.isolation.offpath.providers import standard
from validator.isolation.offpath.raising import Raising
from validator.isolation.offpath.scopes import annotations_of, bound_names
from validator.isolation.offpath.world import World
from validator.isolation.syntax import unparse, walk

__all__ = ["Importing"]

_READ_ANNOTATIONS = frozenset({"BaseModel", "BaseSettings", "NamedTuple", "TypedDict", "Struct"})

_ACT = frozenset({"antigravity", "readline", "rlcompleter", "site", "this", "turtle"})
"""Modules of Python that do something when they are loaded."""


class Importing:
    """Judges the imports of one changed file."""

    def __init__(self, old: str, path: str, base: World, head: World, raises: Raising, lookups: Lookups) -> None:
        self.old = old
        self.path = path
        self.base = base
        self.head = head
        self.raises = raises
        self.lookups = lookups
        self.used = base.sources.words(old).names
        """Names that the base module uses anywhere."""

    def added(self, node: ast.Import | ast.ImportFrom, at: Context) -> Sequence[Residue | Difference]:
        """An import that only the head has."""
        sources = self.head.sources
        alias = node.names[0]
        module = alias.name if isinstance(node, ast.Import) else sources.resolve(self.path, node)
        targets = [module] if isinstance(node, ast.Import) else [module, f"{module}.{alias.name}"]
        paths = [p for p in map(sources.module_path, targets) if p]
        if any(map(sources.isolated, paths)):
            return [
                added(
                    node, at, f"imports `{targets[-1]}` from inside the isolated package, and runs with the switch off"
                )
            ]
        if module == "__future__":
            reader = self._reads_annotations()
            if reader is not None:
                reason = f"annotations become text, and `{reader.name}` may be one whose annotations are read"
                return [added(node, at, reason, f"{self.old}:{reader.lineno}", undecided=True)]
        bound = alias.asname or alias.name.split(".")[0]
        if at.kind == "module" and (bound == "*" or bound in self.used or self.base.names.binds(self.old, bound)):
            known = self.base.names.bindings(self.old).get(bound, [])
            same = (
                isinstance(node, ast.Import)
                and not alias.asname
                and known
                and all(isinstance(n, ast.Import) for n in known)
            )
            if not same:
                return [added(node, at, f"binds `{bound}`, which the base module uses")]
        loaded = newly_loaded(self.base.sources, self.raises, paths, self.path)
        worst = sorted(loaded, key=lambda one: not one.certain)[:1]
        for one in worst:
            reason = f"loads `{one.path}`, whose line {one.line} {one.what} when imported"
            where = "" if one.certain or one.raises else f"{one.path}:{one.line}"
            found = added(node, at, reason, where, undecided=not one.certain)
            return [replace(found, raises=one.raises and not one.certain)]
        if not paths:
            missing = from_outside(self.base.sources, module, "" if isinstance(node, ast.Import) else alias.name)
            if missing is not None:
                return [added(node, at, f"loads {missing[0]}", undecided=not missing[1])]
        return [Residue(Kind.MODULE_LOADED, f"`{module}` is loaded in `{self.path}` as well", node.lineno)]

    def reordered(self, node: ast.stmt, passed: Sequence[ast.stmt], at: Context) -> Sequence[Difference]:
        """An import that changes places with others, where both load something that acts when it is loaded."""
        mine = self._acting(node)
        other = next((f for s in passed if (f := self._acting(s)) and f != mine), "") if mine else ""
        if not other:
            return ()
        what = f"`{mine}` and `{other}` are loaded the other way round, and both do something when they are loaded"
        return [added(node, at, what, f"{mine}:1", undecided=True)]

    def _acting(self, node: ast.stmt) -> str:
        """The file of the tree that an import loads, if loading it for the first time does something; else empty."""
        if not isinstance(node, ast.Import | ast.ImportFrom):
            return ""
        sources = self.head.sources
        modules = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            module = sources.resolve(self.path, node)
            modules = [*(f"{module}.{alias.name}" for alias in node.names), module]
        path = next((p for m in modules if (p := sources.module_path(m)) is not None), None)
        return path if path is not None and acts(self.head.names, path) else ""

    def _reads_annotations(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
        """A definition of the base whose annotations a decorator or a base class may read."""
        module = self.base.sources.parse(self.old).module
        for node in walk(module) if module else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and list(annotations_of([node])):
                if not all(self.base.names.is_inert(self.old, d) for d in node.decorator_list):
                    return node
            elif isinstance(node, ast.ClassDef) and _READ_ANNOTATIONS & {name_of(b).split(".")[-1] for b in node.bases}:
                return node
        return None

    def removed(self, node: ast.stmt, at: Context) -> Residue | None:
        """An import from the standard library that neither the file nor anybody who takes names from it uses."""
        if at.kind != "module" or not is_standard(node) or not _loads_nothing_else(node):
            return None
        names = bound_names([node])
        text = self.head.sources.data(self.path)
        used = self.head.sources.words(self.path).names
        for name in names:
            quoted = re.compile(rb"[\"'][^\"'\n]*\b" + re.escape(name.encode()) + rb"\b[^\"'\n]*[\"']")
            if name == "*" or name in used or quoted.search(text) or self.lookups.taken_from_here(name):
                return None
        return Residue(Kind.REWRITTEN, f"`{unparse(node)}` is gone, and nothing used it", 1)


def _loads_nothing_else(node: ast.stmt) -> bool:
    """Whether an import of the standard library loads a single module: others may rely on the parts of packages that
    somebody loaded, as on `importlib.util`."""
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    modules = [standard(name) for name in names if name not in _ACT and "." not in name]
    return len(modules) == len(names) and all(m is not None and not hasattr(m, "__path__") for m in modules)
