"""Members of enumerations, which can be told apart: `self.mode = Mode.STOCK` … `if self.mode is Mode.FUSED:`."""

from __future__ import annotations

import ast
from typing import Any

from validator.isolation.offpath.constants import UNKNOWN, name_of
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.place import Place

__all__ = ["compared", "member_of"]

_BASES = frozenset({"Enum", "IntEnum", "StrEnum"})
_HOPS = 3
"""Imports that are followed to a class."""
_Member = tuple[str, str, str]
"""Path, class and name."""


def compared(names: Names, place: Place, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
    """Whether a comparison of members of one enumeration holds; `UNKNOWN`: they are none, or of several."""
    several = isinstance(op, ast.In | ast.NotIn)
    if several and not isinstance(right, ast.Tuple | ast.List | ast.Set):
        return UNKNOWN
    shown = right.elts if several and isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
    first, others = _local_member(names, place, left), [_local_member(names, place, node) for node in shown]
    if first is None or any(other is None or other[:2] != first[:2] for other in others):
        return UNKNOWN
    if isinstance(op, ast.Is | ast.Eq | ast.In):
        return first in others
    return first not in others if isinstance(op, ast.IsNot | ast.NotEq | ast.NotIn) else UNKNOWN


def _local_member(names: Names, place: Place, node: ast.expr) -> _Member | None:
    """What is evaluated while the module is loaded may come before its class."""
    hidden = place.module_level or (isinstance(node, ast.Attribute) and place.local(name_of(node.value)))
    return None if hidden else member_of(names, place.path, node)


def member_of(names: Names, path: str, node: ast.expr) -> _Member | None:
    """The member that an expression of a module names, if it surely is one and no other name of it exists."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return None
    name = node.value.id
    for _ in range(_HOPS):
        match names.bindings(path).get(name, []):
            case [ast.ImportFrom() as found]:
                imported = names.imported(path, found, name)
                if imported is None:
                    return None
                path, name = imported
            case [ast.ClassDef() as owner]:
                return (path, name, node.attr) if node.attr in _members(names, path, owner) else None
            case _:
                return None
    return None


def _members(names: Names, path: str, owner: ast.ClassDef) -> set[str]:
    """Names of the members, all of them with different values; empty where something else may be at work."""
    if len(owner.bases) != 1 or owner.keywords or owner.decorator_list or not _is_enum(names, path, owner.bases[0]):
        return set()
    values: dict[str, object] = {}
    for item in owner.body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() as value)):
                values[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[], keywords=[])) if (
                name_of(func).split(".")[-1] == "auto"
            ):
                values[name] = item
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                continue
            case ast.FunctionDef(name=name) if not name.startswith("_"):
                continue
            case _:
                return set()
    kinds = {isinstance(value, ast.Assign) for value in values.values()}
    plain = len(set(values.values())) == len(values) and len(kinds) == 1 and not any(n[0] == "_" for n in values)
    return set(values) if plain else set()


def _is_enum(names: Names, path: str, base: ast.expr) -> bool:
    """Whether a base is one of the standard library's own."""
    first, _, rest = name_of(base).partition(".")
    match names.bindings(path).get(first, []):
        case [ast.ImportFrom(module="enum", level=0) as found]:
            return not rest and any(a.name in _BASES and (a.asname or a.name) == first for a in found.names)
        case [ast.Import() as found]:
            return rest in _BASES and any(a.name == "enum" and (a.asname or a.name) == first for a in found.names)
    return False
