"""Whether a read surely gives something: names that are bound by then, attributes that are there, entries of tables."""

from __future__ import annotations

import ast
import builtins
import re
import sys

from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.kinds import Builtin, Class, External, Kinds
from validator.isolation.offpath.passed import Passed, passed
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.switch import Off
from validator.isolation.syntax import unparse, walk

__all__ = ["Reads"]

_PARSED = frozenset({"args", "cli_args", "parsed", "parsed_args", "namespace", "ns", "opts", "options"})
"""What parsed arguments are called."""


class Reads:
    """Settles reads of one tree."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self._passed: dict[tuple[int, int], Passed] = {}

    def is_bound(self, node: ast.Name, place: Place) -> bool:
        """Whether the name surely means something when it is read there."""
        name = node.id
        if name in place.hidden:
            return True
        if place.function is not None and not place.module_level and name in place.scope.bindings:
            if name in place.parameters:
                return True
            return name in self._before(node, place).names
        if place.outer is not None and name in place.outer.scope.bindings:
            return name in place.outer.parameters or place.outer.scope.bindings[name] == 1
        return self.kinds.world.names.binds(place.path, name) or hasattr(builtins, name) or self._starred(place.path)

    def _starred(self, path: str) -> bool:
        return self.kinds.world.names.binds(path, "*")

    def _before(self, node: ast.expr, place: Place) -> Passed:
        if place.function is None:
            return Passed()
        key = (id(place.function), node.lineno)
        if key not in self._passed:
            self._passed[key] = passed(place.function, node.lineno)
        return self._passed[key]

    def worked_before(self, node: ast.expr, place: Place) -> bool:
        """Whether the same read of the same object has worked before on every path to this one."""
        names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        if place.function is None or place.module_level or any(place.scope.bindings[n] > 1 for n in names):
            return False
        if names & place.hidden:
            return False
        owners = {n.attr for n in walk(node) if isinstance(n, ast.Attribute) and n is not node}
        rebound = (
            n.attr for n in walk(place.function) if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
        )
        return not owners & set(rebound) and unparse(node) in self._before(node, place).loads

    def has_attribute(self, node: ast.Attribute, place: Place) -> bool:
        """Whether what is read off has the attribute."""
        switch = self.kinds.world.form.switch
        if node.attr == switch.name and name_of(node.value).split(".")[-1] == switch.container != "":
            return True  # where the manifest says that the switch is
        if node.attr == switch.name and self._is_parsed(node.value):
            return True
        kind = self.kinds.of(node.value, place)
        if kind is not None and self.kinds.has(kind, node.attr, place, node.lineno):
            return True
        return not isinstance(kind, Class | Builtin) and self.kinds.read_alike(node, place)

    def _is_parsed(self, owner: ast.expr) -> bool:
        """Whether the switch is read off parsed arguments, where the tree has an option of its name."""
        name = name_of(owner).rpartition(".")[2]
        switch, sources = self.kinds.world.form.switch, self.kinds.world.sources
        if name not in _PARSED:
            return False
        flag = switch.name.replace("_", "-").encode()
        option = re.compile(rb"add_argument\(\s*[\"']--(?:" + flag + rb"|" + switch.name.encode() + rb")[\"']")
        files = {*sources.mentions(switch.name), *sources.mentions(switch.name.replace("_", "-"))}
        found = next((path for path in sorted(files) if option.search(sources.data(path))), None)
        if found is not None:
            self.kinds.assumed.add(f"`{name}` comes from the parser of {found}, which has the option `--{switch.name}`")
        return found is not None

    def has_entry(self, node: ast.Subscript, place: Place) -> bool:
        """Whether what is read off has the entry: the declared container, and wherever types are only spelled out."""
        form = self.kinds.world.form
        named = isinstance(node.slice, ast.Constant) and node.slice.value == form.switch.name
        if named and form.way is Off.EXPLICIT and self.is_container(node.value, place):
            return True
        kind = self.kinds.of(node.value, place)
        spelled = (
            (isinstance(kind, External) and _names_a_type(node.value))
            or isinstance(kind, Class)
            or (isinstance(node.value, ast.Name) and isinstance(getattr(builtins, node.value.id, None), type))
        )
        return place.module_level and spelled and not (isinstance(kind, Class) and kind.instance)

    def is_container(self, node: ast.expr, place: Place) -> bool:
        """Whether the expression is the switch's container, by its own name or that of the local that holds it."""
        switch = self.kinds.world.form.switch
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            *first, last = node.values
            return isinstance(last, ast.Dict) and all(self.is_container(n, place) for n in first)
        name = name_of(node)
        if switch.environment and name.split(".")[-1] == "environ":
            return True
        if not switch.container:
            return False
        return name.split(".")[-1] == switch.container or self.kinds.held(node, place).endswith(f".{switch.container}")


def _names_a_type(node: ast.expr) -> bool:
    """Whether something from outside the tree is a type, by its spelling: `torch.Tensor`, not `os.environ`."""
    owner, _, last = name_of(node).rpartition(".")
    return last[:1].isupper() or isinstance(getattr(sys.modules.get(owner), last, None), type)
