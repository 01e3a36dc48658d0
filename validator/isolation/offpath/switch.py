"""What reading the switch gives while it is off, for every way of being off."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum

from validator.isolation.offpath.constants import Literal, constant, is_constant, name_of, value_of

__all__ = ["Off", "OffForm", "SwitchSpec"]


class Off(StrEnum):
    """A way of being off."""

    EXPLICIT = "set to its default"
    KEY_ABSENT = "not set"
    CONTAINER_ABSENT = "its container is absent"


@dataclass(frozen=True, slots=True)
class SwitchSpec:
    """The switch, as the manifest declares it and the code must agree."""

    name: str
    """Last part: attribute, key, parameter or variable."""
    value: Literal
    """Turns the new path on."""
    default: Literal
    """What it is when nobody sets it."""
    container: str = ""
    """The attribute or key that holds it (`additional_config` in `additional_config.kda`); empty: any."""
    environment: bool = False
    argument: bool = False
    """A command-line flag or function argument: parameters of this name count too."""

    @classmethod
    def parse(cls, kind: str, name: str, value: Literal, default: Literal) -> SwitchSpec:
        """From the manifest's words. `Config.key`: a class is no container, its instances have any name."""
        *before, last = name.strip().lstrip("-").replace(":", ".").split(".")
        container = before[-1] if before else ""
        return cls(
            name=last.replace("-", "_"),
            value=value,
            default=default,
            container="" if container[:1].isupper() else container,
            environment=kind == "env",
            argument=kind == "flag",
        )

    def forms(self) -> tuple[OffForm, ...]:
        """Every way of being off that this kind of switch has."""
        ways = [Off.EXPLICIT, Off.KEY_ABSENT] + ([Off.CONTAINER_ABSENT] if self.container else [])
        if self.environment and self.default is None:
            ways = [Off.KEY_ABSENT]
        return tuple(OffForm(self, way) for way in ways)

    @property
    def words(self) -> tuple[str, ...]:
        """Names under which code can mean the switch."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class OffForm:
    """The switch, off in one way."""

    switch: SwitchSpec
    way: Off

    def read(self, node: ast.expr) -> ast.expr | None:
        """What the expression gives when it reads the switch (or its absent container); None: it reads neither."""
        found = self._get(node)
        if found is None:
            return self._test(node)
        name, default = found
        if name == self.switch.name:
            if self.way is Off.EXPLICIT or isinstance(node, ast.Attribute):
                return self._default(node)
            return default
        if name == self.switch.container and self.way is Off.CONTAINER_ABSENT:
            return constant(None, node) if isinstance(node, ast.Attribute) else default
        return None

    def _default(self, node: ast.expr) -> ast.expr:
        value = self.switch.default
        if self.switch.environment and not isinstance(node, ast.Attribute) and value is not None:
            value = {True: "1", False: "0"}.get(value, str(value)) if isinstance(value, bool) else str(value)
        return constant(value, node)

    def _test(self, node: ast.expr) -> ast.expr | None:
        """`"name" in x`, `"name" not in x`, `hasattr(x, "name")`."""
        key: object = None
        negate = False
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            key, negate = value_of(node.left), isinstance(node.ops[0], ast.NotIn)
            if is_constant(node.comparators[0]) or isinstance(node.comparators[0], ast.List | ast.Set | ast.Tuple):
                return None
        elif isinstance(node, ast.Call) and name_of(node.func) == "hasattr" and len(node.args) == 2:
            key = value_of(node.args[1])
        if key == self.switch.name and isinstance(key, str):
            return constant((self.way is Off.EXPLICIT) != negate, node)
        if key == self.switch.container and isinstance(key, str) and key and self.way is Off.CONTAINER_ABSENT:
            return constant(negate, node)
        return None

    def _get(self, node: ast.expr) -> tuple[str, ast.expr | None] | None:
        """(name that is read, what comes when it is absent or None for an error)."""
        none = constant(None, node)
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()):
                return name, None
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                return name, None
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *rest], keywords=[]):
                return name, rest[0] if rest else None
            case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(value=str(name)), *rest]):
                return name, rest[0] if rest else next((k.value for k in node.keywords if k.arg == "default"), none)
            case ast.Call(func=ast.Name(id="getenv"), args=[ast.Constant(value=str(name)), *rest]):
                return name, rest[0] if rest else none
        return None
