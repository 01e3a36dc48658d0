"""Blast radius: who can reach the isolated package, and what it reaches and changes outside itself."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from validator.change.model import MissingFile, Tree
from validator.isolation.blast.graph import ImportGraph, Reach, build, cycles, reach
from validator.isolation.blast.imports import Import, imports_of
from validator.isolation.blast.setters import CHANGERS, Setters
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.names import Names
from validator.isolation.source import Sources
from validator.isolation.syntax import functions, nodes, unparse, walk

__all__ = ["Patch", "PrivateUse", "Radius", "graph_of", "measure", "target_path"]


@dataclass(frozen=True, slots=True)
class PrivateUse:
    """A private name of somebody else that the isolated package uses."""

    path: str
    line: int
    name: str
    """Dotted."""
    pin: str
    """The requirement that fixes its version, as written; empty for the project's own code or where nothing does."""
    third_party: bool


@dataclass(frozen=True, slots=True)
class Patch:
    """A store from the isolated package into something outside it."""

    path: str
    line: int
    target: str
    at_import: bool


@dataclass(frozen=True, slots=True)
class Radius:
    """Everything that connects the isolated package with the rest of the tree."""

    files: int
    """Python files of the tree."""
    isolated: tuple[str, ...]
    inward: tuple[Import, ...]
    """Imports of something isolated by files outside."""
    reach: Reach
    outward: tuple[str, ...]
    """Dotted modules outside that the isolated package imports."""
    private: tuple[PrivateUse, ...]
    patches: tuple[Patch, ...]
    cycles: tuple[tuple[str, ...], ...]


def graph_of(sources: Sources) -> ImportGraph:
    """The tree's import graph, made once."""
    if sources.graph is None:
        sources.graph, sources.learnt = build(sources), True
    return sources.graph


def measure(sources: Sources) -> Radius:
    """Measure the head's tree."""
    isolated = tuple(p for p in sources.paths if sources.isolated(p))
    graph = graph_of(sources)
    inside = frozenset(isolated)
    near = sorted(p for p in graph.eager if p not in inside and (graph.eager[p] | graph.lazy[p]) & inside)
    inward = tuple(i for p in near for i in imports_of(sources, p) if target_path(sources, i) in inside)
    outward: dict[str, None] = {}
    private: list[PrivateUse] = []
    patches: list[Patch] = []
    pins = _pins(sources.tree)
    setters = Setters(Names(sources))
    for path in isolated:
        outside = [i for i in imports_of(sources, path) if target_path(sources, i) not in inside]
        outward |= dict.fromkeys(i.module for i in outside)
        private += _private(sources, path, outside, pins)
        patches += _patches(sources, path, outside, setters)
    return Radius(
        len(sources.paths),
        isolated,
        inward,
        reach(graph, inside),
        tuple(sorted(outward)),
        tuple(private),
        tuple(patches),
        cycles(graph, inside),
    )


def target_path(sources: Sources, found: Import) -> str | None:
    """File that an import loads: the submodule where the name is one."""
    submodule = sources.module_path(f"{found.module}.{found.name}") if found.name else None
    return submodule or sources.module_path(found.module)


def _meant(found: Import) -> str:
    """Dotted name of what an import binds: of `import a.b`, `a`."""
    if found.name:
        return f"{found.module}.{found.name}"
    return found.bound if found.bound == found.module.partition(".")[0] else found.module


# What it uses ---------------------------------------------------------------------------------------------------


def _private(sources: Sources, path: str, outside: Sequence[Import], pins: dict[str, str]) -> Iterator[PrivateUse]:
    """Names with one leading underscore, imported or read off an imported module."""
    bound = {i.bound: _meant(i) for i in outside}
    seen: set[str] = set()

    def made(line: int, dotted: str) -> Iterator[PrivateUse]:
        if dotted in seen or not any(_is_private(part) for part in dotted.split(".")):
            return
        seen.add(dotted)
        top = dotted.split(".")[0]
        ours = any(name == top or name.startswith(f"{top}.") for name in sources.names())
        third = not ours and top not in sys.stdlib_module_names
        yield PrivateUse(path, line, dotted, pins.get(_canonical(top), "") if third else "", third)

    for found in outside:
        yield from made(found.line, f"{found.module}.{found.name}" if found.name else found.module)
    module = sources.parse(path).module
    for node in nodes(module, ast.Attribute):
        if _is_private(node.attr):
            first, _, rest = name_of(node).partition(".")
            if first in bound:
                yield from made(node.lineno, f"{bound[first]}.{rest}")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_REQUIREMENT = re.compile(r"""^[\s"']*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*([<>=!~][^"'#;\n]*)?""")


def _pins(tree: Tree) -> dict[str, str]:
    """Canonical distribution name → requirement as written, from the project's metadata and requirements files."""
    found: dict[str, str] = {}
    for entry in tree.list(""):
        name = entry.path.rsplit("/", 1)[-1]
        if name == "pyproject.toml" or (name.startswith("requirements") and name.endswith((".txt", ".in"))):
            try:
                text = tree.read(entry.path).decode("utf-8", "replace")
            except MissingFile:
                continue
            for line in re.split(r"[\n,]|\[(?=\s*[\"'])", text):
                match = _REQUIREMENT.match(line)
                if match and match[2]:
                    found.setdefault(_canonical(match[1]), f"{match[1]}{match[2].strip()}")
    return found


# What it changes ------------------------------------------------------------------------------------------------


def _patches(sources: Sources, path: str, outside: Sequence[Import], setters: Setters) -> Iterator[Patch]:
    """Stores into objects that come from outside: monkeypatches, tables of others, the process's environment."""
    module = sources.parse(path).module
    if module is None:
        return
    names = {i.bound: _meant(i) for i in outside}
    found: list[tuple[ast.expr, str]] = []
    for kind in (ast.Attribute, ast.Subscript, ast.Call):
        for node in nodes(module, kind):
            target = _foreign_target(node, names) or _replaced_method(sources, node) or _set(setters, node, names)
            if target:
                found.append((node, target))
    if found:
        later = _runs_later(module)
        yield from (Patch(path, node.lineno, target, id(node) not in later) for node, target in found)


def _runs_later(module: ast.Module) -> set[int]:
    """Parts of functions, which run when these are called."""
    bodies = [statement for function in functions(module) for statement in function.body]
    return {id(n) for part in [*bodies, *(f.body for f in nodes(module, ast.Lambda))] for n in walk(part)}


def _replaced_method(sources: Sources, node: ast.AST) -> str:
    """A store to an attribute of some object, where shared code defines a function of that name; empty: none."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)) or name_of(node.value) in (
        "self",
        "cls",
    ):
        return ""
    return unparse(node)[:120] if sources.defines(node.attr) else ""


_PROCESS_WIDE = frozenset(
    {
        "os.putenv", "os.unsetenv", "os.chdir", "sys.path.insert", "sys.path.append", "sys.path.extend",
        "sys.meta_path.insert", "sys.meta_path.append", "sys.path_hooks.insert", "sys.path_hooks.append",
        "torch.set_default_dtype", "torch.set_default_device", "torch.set_default_tensor_type", "torch.manual_seed",
        "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.set_num_threads", "random.seed",
        "np.random.seed", "numpy.random.seed", "torch.use_deterministic_algorithms", "logging.disable",
        "torch.set_float32_matmul_precision", "signal.signal", "locale.setlocale", "gc.disable", "gc.enable",
        "gc.freeze", "gc.set_threshold", "warnings.filterwarnings", "warnings.simplefilter", "atexit.register",
        "logging.basicConfig", "logging.setLoggerClass", "sys.setrecursionlimit", "sys.settrace", "sys.setprofile",
        "faulthandler.enable", "multiprocessing.set_start_method",
    }
)  # fmt: skip
"""Calls that change something for the whole process."""


def _foreign_target(node: ast.AST, names: Mapping[str, str]) -> str:
    """What a store, `setattr` or changing method reaches, when it belongs to an imported name; empty: nothing."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        targets = [node]
    elif isinstance(node, ast.Call):
        called = name_of(node.func)
        first, _, rest = called.partition(".")
        meant = f"{names[first]}.{rest}".rstrip(".") if first in names else called
        if called in ("setattr", "delattr", "vars") and node.args:
            targets = [node.args[0]]
            if "__class__" in unparse(node.args[0]):
                return unparse(node)[:120]
        elif first in names and (meant in _PROCESS_WIDE or meant.startswith("unittest.mock.") or _registers(meant)):
            return called
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("cache_clear", "setLevel") and first in names:
            targets = [node.func.value]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in CHANGERS:
            owner = name_of(node.func.value)
            if owner == "os.environ" or _constant_like(owner.split(".")[-1]):
                targets = [node.func.value]
            elif isinstance(node.func.value, ast.Call) and name_of(node.func.value.func) == "vars":
                return unparse(node)[:120]
    for target in targets:
        root: ast.expr = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name) and root.id in names:
            return unparse(target)[:120]
    return ""


def _set(setters: Setters, node: ast.AST, names: Mapping[str, str]) -> str:
    """What a function of shared code changes for everybody when it is called here; empty: nothing."""
    called = name_of(node.func) if isinstance(node, ast.Call) else ""
    first, _, rest = called.partition(".")
    meant = f"{names[first]}.{rest}".rstrip(".") if first in names else ""
    return setters.changes(meant) if "." in meant else ""


def _registers(dotted: str) -> bool:
    """A function of somebody else's that takes entries, by its looks: `register_router`."""
    return dotted.rpartition(".")[2].startswith("register_") and dotted.split(".")[0] not in ("torch", "atexit")


def _constant_like(name: str) -> bool:
    """A module-level table by its looks: `REGISTRY`, `_MODELS`."""
    return name.isupper() and len(name) > 1
