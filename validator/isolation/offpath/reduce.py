"""Partial evaluation of expressions with the switch off.

Every step replaces an expression by one that gives the same value and the same effects. What cannot be decided stays.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from validator.isolation.offpath.constants import (
    UNKNOWN,
    call,
    compare,
    constant,
    empty_display,
    is_constant,
    name_of,
    negate,
    truth,
    value_of,
)
from validator.isolation.offpath.enums import compared
from validator.isolation.offpath.matching import never_none
from validator.isolation.offpath.nodes import binds_names, put
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.scopes import Scope, parameters
from validator.isolation.offpath.tables import entry_of, holds, table_of
from validator.isolation.syntax import walk

if TYPE_CHECKING:
    from validator.isolation.offpath.world import World

__all__ = ["Reducer"]


_FEW = 16
"""Constants of a display that are tried one by one."""
_NOTHING = object()
"""In place of a part that gives nothing."""


class Reducer:
    """Reduces expressions at one place."""

    def __init__(self, world: World, place: Place) -> None:
        self.world = world
        self.place = place
        self.pure = world.purity

    def test(self, node: ast.expr) -> ast.expr:
        """Reduce where only the truth of the result counts."""
        reduced = self.expr(node, test=True)
        return constant(False, node) if self._stays_empty(reduced) is not None else reduced

    def _stays_empty(self, node: ast.expr) -> ast.expr | None:
        """The display of an attribute that is empty while the switch is off, and that is left out here."""
        found = self.world.empty(node, self.place)
        if found is not None:
            self.world.note(node, self.place)
        return found

    def gives_nothing(self, node: ast.expr) -> bool:
        """Whether going over the reduced expression gives nothing."""
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="items" | "keys" | "values"), args=[], keywords=[]):
                return self.gives_nothing(inner)
            case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted" | "enumerate" | "reversed"), args=[inner]):
                return self.gives_nothing(inner) and not self._shadowed_builtin(node.func)
            case ast.Tuple(elts=[]) | ast.List(elts=[]) | ast.Dict(keys=[]):
                return True
        return self._stays_empty(node) is not None

    def expr(self, node: ast.expr, *, test: bool = False) -> ast.expr:
        """The reduced expression; a new node, the given one is not changed."""
        match node:
            case ast.BoolOp():
                return self._bool(node, test)
            case ast.UnaryOp(op=ast.Not()):
                return negate(self.test(node.operand))
            case ast.IfExp():
                return self._conditional(node, test)
            case ast.NamedExpr():
                value = self.expr(node.value)
                self.place.env.pop(node.target.id, None)
                return ast.copy_location(ast.NamedExpr(target=node.target, value=value), node)
            case ast.Lambda():
                return self._shadowed(node, parameters(node.args))
            case ast.Call(func=ast.Name(id="any" | "all"), args=[ast.GeneratorExp() | ast.ListComp() as tried]):
                decided = self._one_of(node, tried)
                return self._fold(self.children(node)) if decided is None else decided
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                names = [n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)]
                made = self._shadowed(node, names)
                if isinstance(made, ast.ListComp | ast.DictComp) and self._goes_over_nothing(made.generators[0]):
                    empty = ast.List(elts=[], ctx=ast.Load()) if isinstance(made, ast.ListComp) else ast.Dict([], [])
                    return ast.copy_location(empty, node)
                return made
            case ast.Constant():
                return node
        return self._fold(self.children(node))

    def _one_of(self, node: ast.Call, made: ast.GeneratorExp | ast.ListComp) -> ast.expr | None:
        """`any(mode == m for m in ("a", "b"))`, written out; None: it is not decided for each of them."""
        match made.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=iterated, ifs=[], is_async=0)]:
                shown = self.world.members(iterated, self.place) or self.expr(iterated)
            case _:
                return None
        if not isinstance(shown, ast.Tuple | ast.List) or not all(map(is_constant, shown.elts)) or node.keywords:
            return None
        if len(shown.elts) > _FEW or binds_names(made.elt) or self._hides_builtin(node.func):
            return None
        parts = [put(made.elt, name, element) for element in shown.elts]
        operator = ast.Or() if name_of(node.func) == "any" else ast.And()
        last = constant(name_of(node.func) == "all", node)
        known = self.test(ast.copy_location(ast.BoolOp(op=operator, values=[*parts, last]), node))
        return known if isinstance(known, ast.Constant) else None

    def _goes_over_nothing(self, part: ast.comprehension) -> bool:
        return not part.is_async and self.gives_nothing(part.iter)

    def children(self, node: ast.expr) -> ast.expr:
        """A copy with reduced children."""
        fields: dict[str, Any] = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                fields[name] = self.expr(value)
            elif isinstance(value, list):
                fields[name] = [part for v in value if (part := self._part(v)) is not _NOTHING]
            else:
                fields[name] = value
        return ast.copy_location(type(node)(**fields), node)

    def _part(self, value: object) -> object:
        if isinstance(value, ast.Starred):
            inner = self.expr(value.value)
            nothing = isinstance(value.ctx, ast.Load) and self.gives_nothing(inner)
            return _NOTHING if nothing else ast.copy_location(ast.Starred(value=inner, ctx=value.ctx), value)
        if isinstance(value, ast.expr):
            return self.expr(value)
        if isinstance(value, ast.keyword):
            given = self.expr(value.value)
            if value.arg is None and isinstance(empty_display(given) or self._stays_empty(given), ast.Dict):
                return _NOTHING
            return ast.copy_location(ast.keyword(arg=value.arg, value=given), value)
        if isinstance(value, ast.comprehension):
            return ast.comprehension(
                target=value.target,
                iter=self.expr(value.iter),
                ifs=[self.test(i) for i in value.ifs],
                is_async=value.is_async,
            )
        return value

    def _shadowed(self, node: ast.expr, names: Iterable[str]) -> ast.expr:
        """Reduce inside a scope of its own: its names hide ours, and it may run later than now."""
        saved, scope = self.place.env, self.place.scope
        once = {k: v for k, v in saved.items() if scope.bindings[k] == 1 and is_constant(v)}
        self.place.env = {k: v for k, v in once.items() if k not in set(names)}
        hidden = Scope(scope.bindings + type(scope.bindings)(names), scope.shared, scope.dynamic)
        module_level, self.place.module_level, self.place.scope = self.place.module_level, False, hidden
        outside, self.place.hidden = self.place.hidden, self.place.hidden | set(names)
        if module_level:
            self.place.scope = Scope(type(scope.bindings)(names), scope.shared, scope.dynamic)
        try:
            return self.children(node)
        finally:
            self.place.env, self.place.scope, self.place.module_level = saved, scope, module_level
            self.place.hidden = outside

    def _bool(self, node: ast.BoolOp, test: bool) -> ast.expr:
        decides = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for i, part in enumerate(node.values):
            last = i == len(node.values) - 1
            value = self.expr(part, test=test or not last)
            if isinstance(value, ast.BoolOp) and type(value.op) is type(node.op):
                kept += value.values
                continue
            known = truth(value) if self.pure(value) else None
            if known is None and (test or decides) and self._stays_empty(value) is not None:
                known = False
            if known is (not decides) and (not last or (kept and (test or _adds_nothing(kept[-1], value)))):
                self.world.note(value, self.place)
                continue
            if known is decides:
                if test and all(map(self.pure, kept)):
                    for dropped in kept:
                        self.world.note(dropped, self.place, tested=True)
                    self.world.note(value, self.place)
                    return constant(decides, node)
                kept.append(value if truth(value) is not None else constant(known, value))
                break
            kept.append(value)
        if len(kept) == 1:
            return kept[0]
        return ast.copy_location(ast.BoolOp(op=node.op, values=kept), node)

    def _conditional(self, node: ast.IfExp, test: bool) -> ast.expr:
        condition = self.test(node.test)
        known = truth(condition) if self.pure(condition) else None
        if known is not None:
            self.world.note(condition, self.place)
            return self.expr(node.body if known else node.orelse, test=test)
        return ast.copy_location(
            ast.IfExp(test=condition, body=self.expr(node.body, test=test), orelse=self.expr(node.orelse, test=test)),
            node,
        )

    def _fold(self, node: ast.expr) -> ast.expr:
        """One reduction step on a node whose children are reduced."""
        hidden = isinstance(node, ast.Call) and self._hides_builtin(node.func)
        found = None if hidden or _from_display(node) else self.world.form.read(node)
        if found is not None and not self._broken(node) and all(self.pure(p) for p in _parts(node)):
            self.world.seen_switch = True
            self.world.note(node, self.place)
            if isinstance(node, ast.Attribute) and self.world.form.switch.environment and is_constant(found):
                entry = self.world.switch_entry
                return found if entry is None else constant(value_of(entry), node)
            return found
        match node:
            case ast.Name(ctx=ast.Load()):
                return self._name(node)
            case ast.Attribute(ctx=ast.Load()):
                return self._attribute(node)
            case ast.Compare(ops=[op], comparators=[right]):
                right = self.world.members(right, self.place) or right
                table = table_of(self.world, right, self.place) if isinstance(op, ast.In | ast.NotIn) else None
                if table is not None and is_constant(node.left):
                    self._note_display(right)
                    return constant(holds(table, node.left) is isinstance(op, ast.In), node)
                value = compare(value_of(node.left), op, _members(right)) if _both(node.left, op, right) else UNKNOWN
                if value is UNKNOWN:
                    value = compared(self.world.names, self.place, node.left, op, right)
                if value is UNKNOWN and isinstance(op, ast.In | ast.NotIn) and self._holds_nothing(right):
                    value = isinstance(op, ast.NotIn) if self.pure(node.left) else UNKNOWN
                    self.world.note(node.left, self.place)
                return node if value is UNKNOWN else constant(value, node)
            case ast.BinOp(left=ast.List() as left, op=ast.Add(), right=ast.List() as right):
                if not (left.elts and right.elts):
                    return right if right.elts else left
            case ast.Subscript(value=owner, slice=key, ctx=ast.Load()) if is_constant(key):
                table = table_of(self.world, owner, self.place)
                entry = entry_of(table, key) if table is not None else None
                if entry is not None:
                    self._note_display(owner)
                    return entry
            case ast.Call():
                return self._call(node)
        return node

    def _note_display(self, node: ast.expr) -> None:
        """Remember that the values of a display are evaluated here and left out."""
        for value in node.values if isinstance(node, ast.Dict) else ():
            self.world.note(value, self.place)

    def _holds_nothing(self, node: ast.expr) -> bool:
        """Whether nothing is in what the expression gives."""
        if isinstance(node, ast.Call) and self._shadowed_builtin(node.func):
            return False
        return _is_empty(node) or self._stays_empty(node) is not None

    def _broken(self, node: ast.expr) -> bool:
        """Whether the read is of an attribute or key of `None`: an error, not a value."""
        target = node.func if isinstance(node, ast.Call) else node
        if isinstance(target, ast.Attribute | ast.Subscript):
            return isinstance(target.value, ast.Constant) and target.value.value is None
        return False

    def _name(self, node: ast.Name) -> ast.expr:
        self.world.names_read.add((self.place.path, node.id, node.lineno))
        known = self.place.env.get(node.id)
        if known is not None:
            return known
        if self.place.local(node.id):
            return node
        if self.world.names.is_type_checking(self.place.path, node):
            return constant(False, node)
        if self.place.class_name and self.place.module_level and node.id in self.place.scope.bindings:
            return node
        value = self.world.global_value(self.place.path, node.id)
        return node if value is None else constant(value_of(value), node)

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        first = name_of(node).split(".")[0]
        if self.world.names.is_type_checking(self.place.path, node) and not self.place.local(first):
            return constant(False, node)
        if not self.pure(node.value):
            return node
        value = self.world.attribute(node, self.place)
        other = self.world.alias(node, self.place) if value is None else None
        if value is None and other is None:
            return node
        self.world.note(node, self.place)
        if other is not None:
            return other
        return constant(value_of(value), node)

    def _call(self, node: ast.Call) -> ast.expr:
        args = [*node.args, *(k.value for k in node.keywords)]
        plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        if plain and not self._hides_builtin(node.func):
            value = call(node.func, node.args)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "split" and value is not UNKNOWN:
                return ast.copy_location(ast.List(elts=[constant(v, node) for v in value], ctx=ast.Load()), node)
            if value is not UNKNOWN:
                return constant(value, node)
            match node:
                case ast.Call(
                    func=ast.Name(id="getattr" | "hasattr" as name), args=[target, ast.Constant(value=str(attr)), *_]
                ):
                    read = ast.copy_location(ast.Attribute(value=target, attr=attr, ctx=ast.Load()), node)
                    known = self.world.attribute(read, self.place) if self.pure(target) else None
                    if known is not None:
                        self.world.note(read, self.place)
                        return constant(True if name == "hasattr" else value_of(known), node)
                    if self.world.absent(target, attr, self.place) and (name == "hasattr" or len(node.args) == 3):
                        self.world.note(target, self.place)
                        return constant(False, node) if name == "hasattr" else node.args[2]
                case ast.Call(func=ast.Name(id="len" | "bool" as name), args=[held]) if self._holds_nothing(held):
                    return constant(0 if name == "len" else False, node)
                case ast.Call(func=ast.Attribute(attr="get", value=receiver), args=[key, *rest]) if (
                    self.pure(key)
                    and len(rest) < 2
                    and isinstance(empty_display(receiver) or self._stays_empty(receiver), ast.Dict)
                ):
                    self.world.note(key, self.place)
                    return rest[0] if rest else constant(None, node)
                case ast.Call(func=ast.Attribute(attr="get", value=receiver), args=[key, *rest]) if (
                    is_constant(key)
                    and len(rest) < 2
                    and all(map(self.pure, rest))
                    and (table := table_of(self.world, receiver, self.place)) is not None
                ):
                    self._note_display(receiver)
                    for part in rest:
                        self.world.note(part, self.place)
                    return entry_of(table, key) or (rest[0] if rest else constant(None, node))
                case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Constant(value=None), kind]):
                    if never_none(kind) and self._names_classes(kind):
                        self.world.note(node, self.place)
                        return constant(False, node)
        acting = [a for a in args if not self.pure(a)]
        if len(acting) <= 1:
            result = self.world.call(node, self.place)
            # What acts is evaluated once and first, as before: where it is what the function hands back.
            if result is not None and (not acting or result is acting[0]):
                for part in args:
                    if part is not result:
                        self.world.note(part, self.place)
                return result
        return self.world.arguments.drop_default_arguments(node, self.place)

    def _names_classes(self, kind: ast.expr) -> bool:
        """Whether these are classes by their own names: a local or assigned name may stand for anything."""
        for node in kind.elts if isinstance(kind, ast.Tuple) else [kind]:
            first = name_of(node).split(".")[0]
            bound = self.world.names.bindings(self.place.path).get(first, [])
            plain = all(isinstance(n, ast.Import | ast.ImportFrom | ast.ClassDef) for n in bound)
            looked_into = any(isinstance(n, ast.ClassDef) and (n.keywords or _is_protocol(n)) for n in bound)
            if self.place.local(first) or not plain or looked_into or (not bound and not hasattr(builtins, first)):
                return False
        return True

    def _hides_builtin(self, function: ast.expr) -> bool:
        """Whether a function with a builtin's name is another one."""
        return isinstance(function, ast.Name) and hasattr(builtins, function.id) and self._shadowed_builtin(function)

    def _shadowed_builtin(self, function: ast.expr) -> bool:
        return isinstance(function, ast.Name) and (
            self.place.local(function.id) or self.world.names.binds(self.place.path, function.id)
        )


def _adds_nothing(before: ast.expr, value: ast.expr) -> bool:
    """Whether `before and True`, `before or False` is `before`: comparisons with labels give truth values."""
    match before:
        case ast.Compare(left=left, ops=ops, comparators=others):
            always = all(isinstance(o, ast.Is | ast.IsNot | ast.In | ast.NotIn) for o in ops)
            label = len(ops) == 1 and any(isinstance(value_of(n), str | None) for n in (left, *others))
            plain = always or (label and isinstance(ops[0], ast.Eq | ast.NotEq))
        case ast.UnaryOp(op=ast.Not()):
            plain = True
        case _:
            plain = False
    return plain and isinstance(value_of(value), bool)


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(name_of(b.value if isinstance(b, ast.Subscript) else b).endswith("Protocol") for b in node.bases)


def _parts(node: ast.expr) -> list[ast.expr]:
    """What evaluating the read evaluates first."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return [node.value]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*receiver, *node.args, *(k.value for k in node.keywords)]
    return []


def _members(node: ast.expr) -> object:
    """Value of the right side of a comparison; displays of constants count as tuples."""
    if isinstance(node, ast.List | ast.Set):
        return tuple(map(value_of, node.elts))
    return value_of(node)


def _both(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool:
    if isinstance(right, ast.List | ast.Set):
        return isinstance(op, ast.In | ast.NotIn) and is_constant(left) and all(map(is_constant, right.elts))
    return is_constant(left) and is_constant(right)


def _from_display(node: ast.expr) -> bool:
    """Whether the node reads from a dictionary written out on the spot: that is not where the switch is kept."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Dict())) | ast.Subscript(value=ast.Dict()):
            return True
        case ast.Compare(comparators=[ast.Dict()]):
            return True
    return False


def _is_empty(node: ast.expr) -> bool:
    """An empty display, tuples and calls of builtins included."""
    return empty_display(node) is not None or (isinstance(node, ast.Tuple) and not node.elts)
