"""Members of enumerations, which can be told apart: `self.mode = Mode.STOCK` … `if self.mode is Mode.FUSED:`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from validator.isolation.offpath.constants import UNKNOWN, is_constant, name_of, value_of
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.place import Place

__all__ = ["Member", "compared", "member_of"]

_BASES = frozenset({"Enum", "IntEnum", "StrEnum"})
_PLAIN = "Enum"
_HOPS = 3
"""Imports that are followed to a class."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an enumeration, whose members all have values of their own."""

    path: str
    owner: str
    name: str
    value: Any = field(compare=False)
    """The constant that it stands for; `UNKNOWN`: whatever `auto()` gives."""
    is_value: bool = field(compare=False)
    """It equals its value: `IntEnum`, `StrEnum`, `(str, Enum)`."""

    def equals(self, other: Any) -> Any:
        """Whether it equals another member of the enumeration, or a constant; `UNKNOWN` where that cannot be told."""
        if isinstance(other, Member):
            return self == other if (self.path, self.owner) == (other.path, other.owner) else UNKNOWN
        if not self.is_value or other is None:
            return False
        return UNKNOWN if self.value is UNKNOWN else self.value == other


def compared(names: Names, place: Place, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
    """Whether a comparison with members of one enumeration holds; `UNKNOWN`: with something else."""
    several = isinstance(op, ast.In | ast.NotIn)
    if several and not isinstance(right, ast.Tuple | ast.List | ast.Set):
        return UNKNOWN
    shown = right.elts if several and isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
    first, others = _meaning(names, place, left), [_meaning(names, place, node) for node in shown]
    if first is UNKNOWN or any(other is UNKNOWN for other in others):
        return UNKNOWN
    answers = [_alike(first, other, by_identity=isinstance(op, ast.Is | ast.IsNot)) for other in others]
    if any(answer is UNKNOWN for answer in answers):
        return UNKNOWN
    if isinstance(op, ast.Is | ast.Eq | ast.In):
        return any(answers)
    return not any(answers) if isinstance(op, ast.IsNot | ast.NotEq | ast.NotIn) else UNKNOWN


def _alike(a: Any, b: Any, *, by_identity: bool) -> Any:
    """Of members and constants."""
    if isinstance(b, Member) and not isinstance(a, Member):
        a, b = b, a
    if not isinstance(a, Member):
        return UNKNOWN if by_identity else a == b
    return False if by_identity and not isinstance(b, Member) else a.equals(b)


def _meaning(names: Names, place: Place, node: ast.expr) -> Any:
    """The member or constant that an expression is. While its module is loaded, a class may not be there yet."""
    if is_constant(node):
        return value_of(node)
    hidden = place.module_level or (isinstance(node, ast.Attribute) and place.local(name_of(node.value)))
    found = None if hidden else member_of(names, place.path, node)
    return UNKNOWN if found is None else found


def member_of(names: Names, path: str, node: ast.expr) -> Member | None:
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
                return _members(names, path, owner).get(node.attr)
            case _:
                return None
    return None


def _members(names: Names, path: str, owner: ast.ClassDef) -> dict[str, Member]:
    """The members by name, all of them with different values; none where something else may be at work."""
    kind = _kind(names, path, owner)
    if not kind or owner.keywords or owner.decorator_list:
        return {}
    values: dict[str, Any] = {}
    for item in owner.body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() as value)):
                values[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[], keywords=[])) if (
                name_of(func).split(".")[-1] == "auto"
            ):
                values[name] = UNKNOWN
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                continue
            case ast.FunctionDef(name=name) if not name.startswith("_"):
                continue
            case _:
                return {}
    drawn = [value for value in values.values() if value is UNKNOWN]
    apart = len(drawn) == len(values) or (not drawn and len(set(values.values())) == len(values))
    if not apart or any(name[0] == "_" for name in values):
        return {}
    return {name: Member(path, owner.name, name, value, kind != _PLAIN) for name, value in values.items()}


def _kind(names: Names, path: str, owner: ast.ClassDef) -> str:
    """The standard library's enumeration that a class is made of; empty: it is another class."""
    match owner.bases:
        case [base]:
            return _is_enum(names, path, base)
        case [ast.Name(id="str" | "int" as value), base] if not names.binds(path, value):
            return value if _is_enum(names, path, base) == _PLAIN else ""
    return ""


def _is_enum(names: Names, path: str, base: ast.expr) -> str:
    """Which of the standard library's own a base is; empty: none."""
    first, _, rest = name_of(base).partition(".")
    match names.bindings(path).get(first, []):
        case [ast.ImportFrom(module="enum", level=0) as found] if not rest:
            return next((a.name for a in found.names if a.name in _BASES and (a.asname or a.name) == first), "")
        case [ast.Import() as found] if any(a.name == "enum" and (a.asname or a.name) == first for a in found.names):
            return rest if rest in _BASES else ""
    return ""
