"""What an isolated file changes outside itself: monkeypatches, tables of others, the process's environment."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validator.isolation.blast.process import changes_process
from validator.isolation.blast.setters import CHANGERS, Setters
from validator.isolation.offpath.constants import name_of, value_of
from validator.isolation.source import Sources
from validator.isolation.syntax import functions, nodes, unparse, walk

__all__ = ["Patch", "patches_of"]


@dataclass(frozen=True, slots=True)
class Patch:
    """A store from the isolated package into something outside it."""

    path: str
    line: int
    target: str
    at_import: bool


def patches_of(sources: Sources, path: str, names: Mapping[str, str], setters: Setters) -> Iterator[Patch]:
    """Stores into objects that come from outside. `names`: name in the file → what it means outside, dotted."""
    module = sources.parse(path).module
    if module is None:
        return
    names = dict(names) | dict(_aliases(module, names))
    found = [*_stored(sources, module, names, setters), *_set_for_all(sources, module, names)]
    if found:
        later = _runs_later(module)
        yield from (Patch(path, node.lineno, target, id(node) not in later) for node, target in found)


def _stored(
    sources: Sources, module: ast.Module, names: Mapping[str, str], setters: Setters
) -> Iterator[tuple[ast.expr, str]]:
    """(node, what it changes) of stores, and of calls that store."""
    for kind in (ast.Attribute, ast.Subscript, ast.Call):
        for node in nodes(module, kind):
            target = _foreign_target(node, names) or _replaced_method(sources, node) or _set(setters, node, names)
            if target:
                yield node, target
    for call in nodes(module, ast.Call):
        meant = _meant(call.func, names)
        if meant.startswith("torch.library.") and (operator := _operator_of_others(sources, call)):
            yield call, operator
    bound = Counter(n.id for n in nodes(module, ast.Name) if isinstance(n.ctx, ast.Store))
    added = [n.target for n in nodes(module, ast.AugAssign) if isinstance(n.target, ast.Name) and n.target.id in names]
    every = Counter(target.id for target in added)
    yield from ((target, target.id) for target in added if every[target.id] == bound[target.id])


def _operator_of_others(sources: Sources, call: ast.Call) -> str:
    """The operator or library of others that a call of `torch.library` says something about; empty: it is its own."""
    match [value_of(argument) for argument in call.args[:2]]:
        case [str(library), "IMPL" | "FRAGMENT" as kind] if name_of(call.func).endswith("Library"):
            taken = library == "aten" or (kind == "IMPL" and sources.holding(f"torch.ops.{library}.".encode()))
            return unparse(call)[:120] if taken else ""
        case [str(operator), *_] if "::" in operator:
            library, _, name = operator.partition("::")
            used = (f"torch.ops.{library}.{name.partition('.')[0]}", f'"{operator}"', f"'{operator}'")
            taken = library == "aten" or any(sources.holding(text.encode()) for text in used)
            return operator if taken else ""
    return ""


def _set_for_all(sources: Sources, module: ast.Module, names: Mapping[str, str]) -> Iterator[tuple[ast.expr, str]]:
    """(call, its function) of what changes the whole process."""
    alone = {id(statement.value) for statement in nodes(module, ast.Expr)}
    own = frozenset(c.name for c in nodes(module, ast.ClassDef))
    for call in nodes(module, ast.Call):
        called = name_of(call.func)
        if called.partition(".")[0] in names:
            meant = _meant(call.func, names)
            inside = sources.module_path(meant.partition(".")[0]) is not None
            if changes_process(call, meant, alone=id(call) in alone, inside=inside, own=own):
                yield call, called


def _aliases(module: ast.Module, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, what it means) of names that are bound once, to something of others: `table = registry.MODELS`."""
    bound = Counter(n.id for n in nodes(module, ast.Name) if isinstance(n.ctx, ast.Store))
    bound.update(argument.arg for argument in nodes(module, ast.arg))
    meant: str
    for node in nodes(module, ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id="setattr" | "delattr" as builtin)):
                meant = builtin
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() as value):
                first, _, rest = name_of(value).partition(".")
                meant = f"{names[first]}.{rest}" if first in names else ""
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if _others_logger(value, names):
                meant = "logging.getLogger"
            case _:
                continue
        if meant and bound[name] == 1 and name not in names:
            yield name, meant


def _others_logger(node: ast.expr, names: Mapping[str, str]) -> bool:
    """Whether it gets the logger of somebody else by name."""
    match node:
        case ast.Call(args=[ast.Constant(value=str())]):
            return _meant(node.func, names) == "logging.getLogger"
    return False


def _meant(node: ast.expr, names: Mapping[str, str]) -> str:
    """Dotted name with what its first part means."""
    first, dot, rest = name_of(node).partition(".")
    return f"{names.get(first, first)}{dot}{rest}"


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


_STORES = frozenset(
    {"setattr", "delattr", "vars", "object.__setattr__", "object.__delattr__", "type.__setattr__", "type.__delattr__",
     "operator.setitem", "operator.delitem", "operator.ior", "operator.iadd", "heapq.heappush", "heapq.heappop",
     "heapq.heapify", "random.shuffle", "bisect.insort", "bisect.insort_left", "bisect.insort_right"}
)  # fmt: skip
"""Functions that store to their first argument."""
_METHODS = frozenset({"__setitem__", "__delitem__", "__setattr__", "__ior__", "__iadd__"})
_OF_OTHERS = frozenset(
    {"sys._getframe", "inspect.currentframe", "inspect.stack", "importlib.import_module", "decimal.getcontext"}
)
"""Calls that give what belongs to others."""


def _foreign_target(node: ast.AST, names: Mapping[str, str]) -> str:
    """What a store, `setattr` or changing method reaches, when it belongs to an imported name; empty: nothing."""
    target: ast.expr | None = None
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        target = node
    elif isinstance(node, ast.Call):
        meant = _meant(node.func, names)
        imported = name_of(node.func).partition(".")[0] in names
        if imported and _registers(meant):
            return name_of(node.func)
        if meant in _STORES and node.args:
            target = node.args[0]
        elif any(isinstance(a, ast.Name) and names.get(a.id, a.id) in ("setattr", "delattr") for a in node.args):
            target = next((t for a in node.args for t in _shown(a) if _belongs_to_others(t, names)), None)
        elif isinstance(node.func, ast.Attribute):
            target = _changed_by_method(node.func, names)
    return unparse(target)[:120] if target is not None and _belongs_to_others(target, names) else ""


def _shown(node: ast.expr) -> list[ast.expr]:
    """The elements of a display, or the expression itself."""
    return node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]


def _changed_by_method(function: ast.Attribute, names: Mapping[str, str]) -> ast.expr | None:
    """What a method changes, when it is one that changes things."""
    owner = name_of(function.value)
    if function.attr in CHANGERS:
        table = owner == "os.environ" or any(map(_constant_like, _lasts(owner, names.get(owner, ""))))
        by_name = isinstance(function.value, ast.Call) and name_of(function.value.func) == "vars"
        return function.value if table or by_name else None
    if function.attr in ("cache_clear", "setLevel", "addHandler", "removeHandler", "addFilter") or (
        function.attr in _METHODS and owner not in ("object", "type")
    ):
        return function.value
    return None


def _lasts(*dotted: str) -> list[str]:
    return [name.rpartition(".")[2] for name in dotted]


def _belongs_to_others(target: ast.expr, names: Mapping[str, str]) -> bool:
    """Whether it starts at an imported name, at the class of some object, or at what a call takes from others."""
    root = target
    while isinstance(root, ast.Attribute | ast.Subscript):
        if isinstance(root, ast.Attribute) and root.attr == "__class__" and name_of(root.value) not in ("self", "cls"):
            return True
        root = root.value
    match root:
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id="type"), args=[of]):
            return name_of(of) not in ("self", "cls")
        case ast.Call(func=ast.Name(id="vars"), args=[of]):
            return _belongs_to_others(of, names)
        case ast.Call(func=function):
            return _meant(function, names) in _OF_OTHERS or _others_logger(root, names)
    return False


def _set(setters: Setters, node: ast.AST, names: Mapping[str, str]) -> str:
    """What a function of shared code changes for everybody when it is called here; empty: nothing."""
    called = name_of(node.func) if isinstance(node, ast.Call) else ""
    first, _, rest = called.partition(".")
    meant = f"{names[first]}.{rest}".rstrip(".") if first in names else ""
    return setters.changes(meant) if "." in meant else ""


def _registers(dotted: str) -> bool:
    """A function of somebody else's that takes entries, by its looks: `register_router`, `AutoConfig.register`."""
    last = dotted.rpartition(".")[2]
    return (last == "register" or last.startswith("register_")) and dotted.split(".")[0] not in ("torch", "atexit")


def _constant_like(name: str) -> bool:
    """A module-level table by its looks: `REGISTRY`, `_MODELS`."""
    return name.isupper() and len(name) > 1
