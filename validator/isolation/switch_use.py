"""Where the switch is defined, what its default is there, and when it is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from validator.isolation.offpath.constants import UNKNOWN, constant, is_constant, name_of, value_of
from validator.isolation.offpath.scopes import walk_scope
from validator.isolation.offpath.signatures import default_of
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.source import Sources
from validator.isolation.syntax import nodes, unparse

__all__ = ["SwitchUse", "switch_uses"]

_OFF_TEXT = frozenset({"", "0", "false", "off", "no", "none"})


@dataclass(frozen=True, slots=True)
class SwitchUse:
    """One place where the source names the switch."""

    path: str
    line: int
    what: str
    """`definition`, `read`, `environment read`."""
    default: str = ""
    """The default as written; empty: none is given there."""
    agrees: bool | None = True
    """Whether that default is the manifest's; None: it is not a constant."""
    at_import: bool = False
    """Evaluated when the module is loaded."""


def switch_uses(sources: Sources, switch: SwitchSpec) -> Iterator[SwitchUse]:
    """Every definition and read of the switch, isolated files included."""
    own = [p for p in sources.paths if sources.isolated(p) and switch.name.encode() in sources.data(p)]
    flag = switch.name.replace("_", "-")
    named = {*sources.mentions(switch.name), *(sources.mentions(flag) if flag != switch.name else ()), *own}
    for path in sorted(named):
        module = sources.parse(path).module
        if module is None:
            continue
        early = {id(n) for n in walk_scope(module.body)} | _class_level(module)
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Call, ast.Subscript, ast.Attribute)
        for node in (n for kind in kinds for n in nodes(module, kind)):
            yield from _uses(path, node, switch, id(node) in early, module)


def _class_level(module: ast.Module) -> set[int]:
    return {id(n) for c in nodes(module, ast.ClassDef) for n in walk_scope(c.body)}


def _uses(path: str, node: ast.AST, switch: SwitchSpec, early: bool, module: ast.Module) -> Iterator[SwitchUse]:
    def made(what: str, default: ast.expr | None, at: ast.AST) -> SwitchUse:
        shown = unparse(default)[:80] if default is not None else ""
        default = _of_class(default, module) or default
        agrees = _agrees(default, switch, exactly=what == "definition")
        return SwitchUse(path, at.lineno, what, shown, agrees, early)  # type: ignore[attr-defined]

    match node:
        case ast.ClassDef(body=body):
            for item in body:
                if (
                    isinstance(item, ast.AnnAssign | ast.Assign)
                    and switch.name in _names(item)
                    and item.value is not None
                ):
                    yield made("definition", _field_default(item.value), item)
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args) if switch.argument:
            default = default_of(args, switch.name)
            if default is not None:
                yield made("definition", default, node)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *rest]) if (
            name == switch.name
        ):
            yield made("read", rest[0] if rest else None, node)
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *rest], keywords=keywords):
            called = name_of(function).split(".")[-1] or getattr(function, "attr", "")
            if called == "add_argument" and name.lstrip("-").replace("-", "_") == switch.name:
                default = next((k.value for k in keywords if k.arg == "default"), None)
                flag = any(k.arg == "action" and value_of(k.value) == "store_true" for k in keywords)
                yield made("definition", default or (constant(False, node) if flag else None), node)
            elif called in ("get", "getenv", "pop", "setdefault") and name == switch.name:
                default = rest[0] if rest else next((k.value for k in keywords if k.arg == "default"), None)
                environment = "environ" in name_of(function) or called == "getenv"
                yield made("environment read" if environment else "read", default, node)
        case ast.Subscript(slice=ast.Constant(value=str(name)), value=owner, ctx=ast.Load()) if name == switch.name:
            environment = name_of(owner).endswith("environ")
            yield made("environment read" if environment else "read", None, node)
        case ast.Attribute(attr=name, ctx=ast.Load()) if name == switch.name:
            yield made("read", None, node)


def _of_class(default: ast.expr | None, module: ast.Module) -> ast.expr | None:
    """What `Class.field` stands for, where the module's only class of that name gives the field a value."""
    owner, _, field = name_of(default).rpartition(".")
    classes = [c for c in nodes(module, ast.ClassDef) if c.name == owner] if field else []
    given = [
        i.value for c in classes for i in c.body if isinstance(i, ast.AnnAssign | ast.Assign) and field in _names(i)
    ]
    return _field_default(given[0]) if len(classes) == len(given) == 1 and given[0] is not None else None


def _names(item: ast.AnnAssign | ast.Assign) -> list[str]:
    targets = item.targets if isinstance(item, ast.Assign) else [item.target]
    return [t.id for t in targets if isinstance(t, ast.Name)]


def _field_default(value: ast.expr) -> ast.expr:
    """The default inside `field(default=…)`, `Field(…)`."""
    if isinstance(value, ast.Call) and name_of(value.func).split(".")[-1] in ("field", "Field"):
        found = next((k.value for k in value.keywords if k.arg in ("default", "default_factory")), None)
        return found or (value.args[0] if value.args else value)
    return value


def _agrees(default: ast.expr | None, switch: SwitchSpec, *, exactly: bool) -> bool | None:
    """Whether a default as written is off as the manifest says. `exactly`: the proof takes its value from there."""
    if default is None:
        return True
    if not is_constant(default):
        return None
    value = value_of(default)
    if value is UNKNOWN:
        return None
    if value == switch.default and type(value) is type(switch.default):
        return True
    if exactly:
        return False
    if switch.environment or isinstance(switch.default, str):
        text = str(value).lower()
        return text in _OFF_TEXT if switch.default in (None, False, "", "0") else text == str(switch.default).lower()
    return value in (None, False) and switch.default in (None, False)
