"""What loading a module loads for the first time, and what that does: with its packages, and all that these import."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from validator.isolation.blast.imports import When, imports_of, resolve_targets, scan
from validator.isolation.blast.radius import graph_of
from validator.isolation.effects import import_effects
from validator.isolation.offpath.loads import failures
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.providers import MEMBERS, standard
from validator.isolation.offpath.raising import Raising
from validator.isolation.source import Sources

__all__ = ["Loaded", "acts", "from_outside", "is_needed", "newly_loaded"]

_MOST_LOADED = 60
"""Files that are looked into for what one import loads; more of them do something."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Something that happens when a module is loaded which nothing loaded at the base."""

    path: str
    line: int
    what: str
    """Reads on from "loads `path`, whose line n"."""
    certain: bool
    raises: bool = False
    """It is, or may be, an error."""


def newly_loaded(base: Sources, raises: Raising, targets: Iterable[str], loader: str) -> Iterator[Loaded]:
    """Effects and failures of loading these modules of the head. `loader`: the file that loads them."""
    head = raises.kinds.world.names
    sources = head.sources
    own: set[str] = {*_packages(sources, loader), loader}
    todo = [p for target in targets for p in (*_packages(sources, target), target)]
    seen: set[str] = set(own)
    while todo:
        path = todo.pop(0)
        if path in seen or sources.isolated(path) or _is_loaded(base, sources, path, seen - own):
            continue
        seen.add(path)
        for effect in import_effects(sources.parse(path), head.at(path)):
            yield Loaded(path, effect.line, effect.what, effect.certain or path not in base)
        for failure in failures(raises, path):
            if failure.certain or path not in base:
                yield Loaded(path, failure.line, failure.what, failure.certain, raises=True)
        for found in imports_of(sources, path):
            if found.when is not When.EAGER:
                continue
            inside = sources.module_path(found.module)
            submodule = sources.module_path(f"{found.module}.{found.name}") if found.name else None
            if inside is None and submodule is None:
                missing = from_outside(base, found.module, found.name)
                if missing and (missing[1] or not found.optional):
                    sure = missing[1] and not found.optional
                    yield Loaded(path, found.line, f"imports {missing[0]}", sure, raises=True)
                continue
            if found.name not in ("", "*") and submodule is None and inside and _lacks(head, inside, found.name):
                yield Loaded(path, found.line, f"imports `{found.name}`, which `{inside}` does not have", True)
            todo += [p for p in (inside, submodule) if p]


def _lacks(names: Names, path: str, name: str) -> bool:
    """Whether the module surely has no such name."""
    may = any(names.binds(path, word) for word in (name, "*", "__getattr__"))
    return not may and names.sources.parse(path).module is not None


def acts(names: Names, path: str) -> bool:
    """Whether loading this module for the first time does something: itself, or what it loads."""
    sources = names.sources
    todo, seen = [path], {path}
    while todo:
        one = todo.pop()
        if next(import_effects(sources.parse(one), names.at(one)), None) is not None or len(seen) > _MOST_LOADED:
            return True
        for found in (i for i in imports_of(sources, one) if i.when is When.EAGER):
            for target in (sources.module_path(f"{found.module}.{found.name}"), sources.module_path(found.module)):
                if target is not None and target not in seen:
                    seen.add(target)
                    todo.append(target)
    return False


def from_outside(base: Sources, module: str, name: str) -> tuple[str, bool] | None:
    """(what, whether surely) is lacking of a module from outside the tree: nothing in the base needs the package, or
    takes this name from it."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        loaded = standard(module)
        lacks = loaded is not None and name not in ("", "*") and not hasattr(loaded, name)
        if not lacks or f"{module}.{name}" in sys.modules or module == "__future__":
            return None
        return f"`{name}`, which the `{module}` of Python {_VERSION} does not have", False
    if not is_needed(base, top):
        return f"`{top}`, which nothing in the base needs", True
    last = name if name not in ("", "*") else module.rpartition(".")[2]
    known = last in MEMBERS.get(module, ()) or last == top
    if known or any(_word(top).search(base.data(p)) for p in base.mentions(last)):
        return None
    return f"`{name or module}` from `{top}`, which nothing in the base names", False


_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def _word(top: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + re.escape(top.encode()) + rb"\b")


def is_needed(base: Sources, top: str) -> bool:
    """Whether some file of the base needs the package from outside whenever it is loaded."""
    pattern = re.compile(rb"^(?:import|from)[ \t]+" + re.escape(top.encode()) + rb"\b", re.M)
    return any(pattern.search(base.data(p)) for p in base.mentions(top))


def _packages(sources: Sources, path: str) -> list[str]:
    """The `__init__.py` files that are loaded before a module."""
    folders = path.split("/")[:-1]
    above = ("/".join([*folders[: depth + 1], "__init__.py"]) for depth in range(len(folders)))
    return [package for package in above if package in sources and package != path]


def _is_loaded(base: Sources, head: Sources, path: str, late: Set[str]) -> bool:
    """Whether some file of the base loads the module whenever it is loaded itself. `late`: nothing loads these."""
    if path not in base:
        return False
    key = (path, frozenset(late))
    if key not in base.loaded:
        folder = path.removesuffix("__init__.py") if path.endswith("/__init__.py") else ""
        targets = [path, *(p for p in head.paths if folder and p.startswith(folder))]
        loaders = (p for target in targets for p in _importers(head).get(target, ()) if p not in late)
        gone = (p for p in base.paths if p not in head.ids)
        base.loaded[key] = any(head.same(p) or (p in base and _loads(base, p, path)) for p in loaders) or any(
            _loads(base, p, path) for p in gone
        )
    return base.loaded[key]


def _importers(head: Sources) -> dict[str, list[str]]:
    """File → the files that load it whenever they are loaded themselves."""
    if head.importers is None:
        head.importers = {}
        for path, targets in graph_of(head).eager.items():
            for target in targets:
                head.importers.setdefault(target, []).append(path)
    return head.importers


def _loads(base: Sources, other: str, path: str) -> bool:
    """Whether a file loads the module, or something in the package, whenever it is loaded itself."""
    folder = path.removesuffix("__init__.py") if path.endswith("/__init__.py") else ""
    for found in scan(base.data(other)):
        targets = resolve_targets(base, other, found) if found.eager else ()
        if any(target == path or (folder and target.startswith(folder)) for target in targets):
            return True
    return False
