"""Parameters that the head adds and that keep their default while the switch is off: neither they nor what hands them
that default is left in what is compared."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from validator.isolation.offpath.constants import is_constant, name_of, value_of
from validator.isolation.offpath.fields import defaults_by_position, field_defaults
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.scopes import FunctionNode, functions_of
from validator.isolation.offpath.signatures import by_class, called_as, default_of, drop_parameters, position_of
from validator.isolation.offpath.switch import OffForm

__all__ = ["Arguments"]


class Arguments:
    """Answers about the signatures and calls of one tree."""

    def __init__(self, names: Names, form: OffForm, facts: Mapping[tuple[str, str, str], ast.expr]) -> None:
        self.names = names
        self.sources = names.sources
        self.form = form
        self.facts = facts
        """(path, qualified function name, parameter) → the default; what is taken out of it stops to hold."""

    def known_parameters(self, place: Place, node: FunctionNode) -> dict[str, ast.expr]:
        """Parameters of a function whose value is known while the switch is off."""
        prefix = (place.path, f"{place.class_name}.{node.name}" if place.class_name else node.name)
        known = {name: v for (path, qual, name), v in self.facts.items() if (path, qual) == prefix}
        switch = self.form.switch
        if switch.argument:
            default = default_of(node.args, switch.name)
            if default is not None and is_constant(default) and value_of(default) == switch.default:
                known[switch.name] = default
        return known

    def without_known_parameters(self, place: Place, node: FunctionNode) -> ast.arguments:
        """The signature without parameters that the head added and that keep their default."""
        prefix = (place.path, f"{place.class_name}.{node.name}" if place.class_name else node.name)
        gone = {name for (path, qual, name) in self.facts if (path, qual) == prefix}
        return drop_parameters(node.args, gone)

    def left_out(self, path: str) -> Iterator[ast.expr]:
        """Annotations of the file's parameters that are left out: they are evaluated all the same."""
        known = functions_of(self.sources.parse(path).module)
        for qualified, name in [(qualified, name) for where, qualified, name in self.facts if where == path]:
            args = known[qualified].args
            named = (a for a in (*args.posonlyargs, *args.args, *args.kwonlyargs) if a.arg == name)
            yield from (a.annotation for a in named if a.annotation is not None)

    def drop_default_arguments(self, node: ast.Call, place: Place) -> ast.Call:
        """The call without arguments that hand such a parameter its default."""
        gone = field_defaults(self.names, node.func, place) | {
            parameter: value
            for (path, qual, parameter), value in self.facts.items()
            if self._surely_calls(node.func, place, path, qual)
        }
        keywords = [
            k for k in node.keywords
            if not (k.arg in gone and is_constant(k.value) and ast.dump(k.value) == ast.dump(gone[k.arg]))
        ]  # fmt: skip
        args = self._without_last_defaults(node, place)
        if len(keywords) == len(node.keywords) and len(args) == len(node.args):
            return node
        return ast.copy_location(ast.Call(func=node.func, args=args, keywords=keywords), node)

    def _without_last_defaults(self, node: ast.Call, place: Place) -> list[ast.expr]:
        """The positional arguments without those at the end that hand a new parameter its default."""
        args = list(node.args)
        if any(isinstance(a, ast.Starred) for a in args):
            return args
        positions = {
            position: value
            for (path, qual, parameter), value in self.facts.items()
            if self._surely_calls(node.func, place, path, qual)
            and not by_class(node.func, qual)
            and (position := position_of(functions_of(self.sources.parse(path).module)[qual], qual, parameter))
            is not None
        }
        positions |= defaults_by_position(self.names, node.func, place)
        while args and (default := positions.get(len(args) - 1)) is not None:
            if not is_constant(args[-1]) or ast.dump(args[-1]) != ast.dump(default):
                break
            args.pop()
        return args

    def _surely_calls(self, function: ast.expr, place: Place, path: str, qualified: str) -> bool:
        """Whether a call means this function and no other: by its name, as the class's own, or as the only one."""
        owner, _, name = qualified.rpartition(".")
        if isinstance(function, ast.Name):
            if function.id not in called_as(qualified) or place.local(function.id):
                return False
            bound = self.names.bindings(place.path).get(function.id, [])
            target = self.names.imported(place.path, bound[0], function.id) if _is_import(bound) else None
            return target == (path, owner or name) or (place.path == path and len(bound) == 1 and target is None)
        last = getattr(function, "attr", "")
        if last != name:
            return False
        own = isinstance(function, ast.Attribute) and name_of(function.value) == place.self_name != ""
        same = [qual for (_, qual, _) in self.facts if qual.rpartition(".")[2] == name]
        return (own and (place.path, place.class_name) == (path, owner)) or self.sources.defines(name) == len(set(same))


def _is_import(bound: list[ast.AST]) -> TypeGuard[list[ast.ImportFrom]]:
    return len(bound) == 1 and isinstance(bound[0], ast.ImportFrom)
