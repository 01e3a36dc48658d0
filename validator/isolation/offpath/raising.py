"""Whether an expression that the switch decides could be evaluated at all: leaving it out must not hide an error.

`if self.confg.fused is None:` has the right answer and raises before it has any. So whatever partial evaluation leaves
out is noted, and each note is settled here: the names are bound, the attributes there, the keys proven. What is not
shown stays, as a difference that only a person can settle.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from validator.isolation.offpath.constants import UNKNOWN, call, is_constant, name_of
from validator.isolation.offpath.fields import makes_plain_object
from validator.isolation.offpath.kinds import Builtin, Class, External, Kinds
from validator.isolation.offpath.notes import Note
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.reads import Reads
from validator.isolation.offpath.values import FAILS, worked_out
from validator.isolation.syntax import unparse

__all__ = ["Raising"]

_QUIET = frozenset({"isinstance", "hasattr", "callable", "id", "issubclass"})
"""Builtins that take anything; those that take two arguments ask for a class as the second."""
_MAKERS = frozenset(
    {"field", "Field", "getLogger", "init_logger", "TypeVar", "ParamSpec", "NewType", "namedtuple", "frozenset", "Lock",
     "local", "ContextVar", "nullcontext", "partial",
     "OrderedDict", "defaultdict", "deque", "compile", "Path", "getenv", "auto", "SimpleNamespace", "RLock", "Event",
     "Counter"}
)  # fmt: skip
_NEEDED = {
    "TypeVar": 1, "ParamSpec": 1, "NewType": 2, "namedtuple": 2, "ContextVar": 1, "partial": 1, "compile": 1,
    "getenv": 1,
}  # fmt: skip
"""Of those, how many arguments they need, where they need any."""
_FEW = 64
_LABELS = (str, bytes, bool, type(None))


class Raising:
    """Settles notes of one tree."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.reads = Reads(kinds)

    def problems(self, notes: Iterable[Note], known: Iterable[Note]) -> Iterator[tuple[Note, ast.expr]]:
        """(note, the part that may raise) of each note that the other tree does not have as well."""
        spared = Counter(note.key for note in known)
        for note in notes:
            if spared[note.key]:
                spared[note.key] -= 1
                continue
            part = self.part(note.node, note.place) or (note.tested and self.truth(note.node, note.place)) or None
            if part is not None:
                yield note, part

    def sentence(self, part: ast.expr, where: str, file: str) -> str:
        """What a person has to check about a part that may raise; `where` it stands, `file` that is judged."""
        place = "" if where == file else f" ({where}:{part.lineno})"
        doubt = self.kinds.doubts.get(part.attr, "") if isinstance(part, ast.Attribute) else ""
        why = f": {doubt}" if doubt else ""
        shown = unparse(part)[:80]
        return f"nothing shows that `{shown}`{place}, which is evaluated with the switch off, raises no error{why}"

    def part(self, node: ast.expr, place: Place) -> ast.expr | None:
        """The first part of the expression that may raise; None: it surely gives a value."""
        match node:
            case ast.Constant() | ast.Lambda():
                return None
            case ast.Name():
                return None if self.reads.is_bound(node, place) else node
            case ast.Attribute():
                return self._attribute(node, place)
            case ast.Subscript():
                return None if self.reads.worked_before(node, place) else self._subscript(node, place)
            case ast.Compare(left=left, comparators=rights):
                inner = self._parts([left, *rights], place)
                return inner or (None if self._comparison(node, place) else node)
            case ast.BoolOp(values=values):
                return self._parts(values, place) or self._truths(values[:-1], place)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.part(operand, place) or self.truth(operand, place)
            case ast.UnaryOp():
                return None if self._gives_value(node, place) else node
            case ast.BinOp(left=left, op=op, right=right):
                if place.module_level and isinstance(op, ast.BitOr) and self._are_types([left, right], place):
                    return None
                return None if self._gives_value(node, place) else node
            case ast.JoinedStr(values=values):
                shown = [v for v in values if isinstance(v, ast.FormattedValue)]
                return None if all(v.format_spec is None and self._gives_value(v.value, place) for v in shown) else node
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._parts([test, body, orelse], place) or self.truth(test, place)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self._parts(elements, place)
            case ast.Set(elts=elements):
                return None if all(map(is_constant, elements)) else node
            case ast.Dict(keys=keys, values=values):
                named = [k for k in keys if k is not None]
                plain = len(named) == len(keys) and all(self._is_key(k, place) for k in named)
                return self._parts([*named, *values], place) if plain else node
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node, place)
            case ast.Call():
                return self._call(node, place)
        return node

    def known(self, place: Place) -> Callable[[ast.expr], ast.expr | None]:
        """What a name of the module stands for: bound once, to something that no other module changes."""

        def shown(node: ast.expr) -> ast.expr | None:
            if not isinstance(node, ast.Name) or node.id in place.hidden or place.local(node.id):
                return None
            match self.kinds.world.names.bindings(place.path).get(node.id, []):
                case [ast.Assign(targets=[ast.Name()], value=value)]:
                    return value
                case [ast.AnnAssign(value=ast.expr() as value)]:
                    return value
            return None

        return shown

    def _gives_value(self, node: ast.expr, place: Place) -> bool:
        found = worked_out(node, self.known(place))
        return found is not UNKNOWN and found is not FAILS

    def _is_key(self, node: ast.expr, place: Place) -> bool:
        """Whether it can be a key: constants, members of classes and modules."""
        if is_constant(node) or self._gives_value(node, place):
            return True
        kind = self.kinds.of(node.value if isinstance(node, ast.Attribute) else node, place)
        return isinstance(kind, External | Class)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, place: Place
    ) -> ast.expr | None:
        """Over constants: what is made of each is a plain expression of its name."""
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        if self._works_for_each(node.generators, made, place):
            return None
        inner = copy.copy(place)
        for one in node.generators:
            over = self.part(one.iter, inner)
            if over is not None:
                return over
            if not isinstance(one.target, ast.Name) or not self._holds_constants(one.iter, inner):
                return one.iter
            inner.hidden = inner.hidden | {one.target.id}
            tests = [test for test in one.ifs if not isinstance(test, ast.Name)]  # constants have a truth
            asked = self._parts(one.ifs, inner) or self._truths(tests, inner)
            if asked is not None:
                return asked
        found = self._parts(made, inner)
        keys = made[:1] if isinstance(node, ast.DictComp | ast.SetComp) else []
        return found or next((k for k in keys if not isinstance(k, ast.Constant | ast.Name)), None)

    def _works_for_each(self, over: list[ast.comprehension], made: list[ast.expr], place: Place) -> bool:
        """Whether everything that is made of each of a few constants can be worked out."""
        match over:
            case [ast.comprehension(target=ast.Name(id=name), iter=iterated, ifs=[])]:
                values = worked_out(iterated, self.known(place))
            case _:
                return False
        if not isinstance(values, tuple | list | dict) or len(values) > _FEW:
            return False
        known = self.known(place)
        for value in values:
            here = ast.Constant(value=value)
            given = [
                worked_out(m, lambda n, c=here: c if getattr(n, "id", "") == name else known(n))  # type: ignore[misc]
                for m in made
            ]
            if any(g is UNKNOWN or g is FAILS for g in given):
                return False
        return True

    def _holds_constants(self, node: ast.expr, place: Place) -> bool:
        """Whether it is a display of constants, a name for one, or a range."""
        if isinstance(node, ast.Call):
            return name_of(node.func) == "range"
        shown = self.known(place)(node) or node
        if isinstance(shown, ast.Dict):
            return all(k is not None and is_constant(k) for k in shown.keys)
        return isinstance(shown, ast.Tuple | ast.List | ast.Set) and all(map(is_constant, shown.elts))

    def _are_types(self, nodes: Iterable[ast.expr], place: Place) -> bool:
        """Whether `a | b` joins types; a `None` stands for its type beside one."""
        plain = [n for n in nodes if not (isinstance(n, ast.Constant) and n.value is None)]
        return bool(plain) and all(
            self._are_types([n.left, n.right], place)
            if isinstance(n, ast.BinOp) and isinstance(n.op, ast.BitOr)
            else self._is_type([n.value if isinstance(n, ast.Subscript) else n], place)
            for n in plain
        )

    def truth(self, node: ast.expr, place: Place) -> ast.expr | None:
        """The part whose truth may not be asked for (an array of many elements has none)."""
        match node:
            case ast.Compare(ops=ops) if all(isinstance(o, ast.Is | ast.IsNot | ast.In | ast.NotIn) for o in ops):
                return None
            case ast.Compare(left=left, ops=[_], comparators=[right]):
                if _label(left) or _label(right):
                    return None
                return None if all(isinstance(self.kinds.of(x, place), Builtin) for x in (left, right)) else node
            case ast.UnaryOp(op=ast.Not()) | ast.Lambda() | ast.Constant():
                return None
            case ast.Call(func=ast.Name(id=name)) if name in _QUIET:
                return None
            case ast.BoolOp(values=values):
                return self._truths(values, place)
        kind = self.kinds.of(node, place)
        if isinstance(kind, Builtin) or self.reads.is_container(node, place):
            return None
        if isinstance(kind, Class) and not any(
            getattr(item, "name", "") in ("__bool__", "__len__")
            for one in self.kinds.lineage(kind)
            for item in one.node.body
        ):
            return None
        return node

    def _truths(self, nodes: Iterable[ast.expr], place: Place) -> ast.expr | None:
        return next((found for n in nodes if (found := self.truth(n, place)) is not None), None)

    def _parts(self, nodes: Iterable[ast.expr], place: Place) -> ast.expr | None:
        return next((found for n in nodes if (found := self.part(n, place)) is not None), None)

    def store(self, node: ast.Assign, target: ast.Attribute, place: Place) -> ast.expr | None:
        """The part of a store to a new attribute that may raise."""
        inner = self._parts([node.value, target.value], place)
        if inner is not None:
            return inner
        return None if self.kinds.accepts(self.kinds.of(target.value, place), target.attr) else target

    def annotation(self, node: ast.expr, place: Place) -> ast.expr | None:
        """The part of an annotation that may raise when the definition around it is made."""
        match node:
            case ast.Constant():
                return None
            case ast.Name() | ast.Attribute():
                return self.part(node, place)
            case ast.Subscript(value=value, slice=index):
                return self.annotation(value, place) or self.annotation(index, place)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return next((p for e in elements if (p := self.annotation(e, place)) is not None), None)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                if any(isinstance(x, ast.Constant) and x.value is not None for x in (left, right)):
                    return node
                return self.annotation(left, place) or self.annotation(right, place)
        return node

    # Reads -----------------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, place: Place) -> ast.expr | None:
        if self.reads.worked_before(node, place):
            return None
        inner = self.part(node.value, place)
        return inner if inner is not None else None if self.reads.has_attribute(node, place) else node

    def _subscript(self, node: ast.Subscript, place: Place) -> ast.expr | None:
        """A key is proven in the declared container, and wherever types are only spelled out."""
        if self._gives_value(node, place):
            return None
        inner = self.part(node.value, place)
        return inner if inner is not None else None if self.reads.has_entry(node, place) else node

    # Operations ------------------------------------------------------------------------------------------------

    def _comparison(self, node: ast.Compare, place: Place) -> bool:
        operands = [node.left, *node.comparators]
        for i, op in enumerate(node.ops):
            left, right = operands[i], operands[i + 1]
            if isinstance(op, ast.Is | ast.IsNot):
                continue
            if isinstance(op, ast.In | ast.NotIn):
                kind = self.kinds.of(right, place)
                known = isinstance(kind, Builtin) and kind.type in (dict, list, tuple, set, frozenset)
                if not (known or self.reads.is_container(right, place)):
                    return False
            elif isinstance(op, ast.Eq | ast.NotEq):
                if not (is_constant(left) or is_constant(right) or isinstance(self.kinds.of(left, place), Builtin)):
                    return False
            elif not all(
                isinstance(k := self.kinds.of(x, place), Builtin) and k.type in (int, float, bool)
                for x in (left, right)
            ):
                return False
        return True

    def _call(self, node: ast.Call, place: Place) -> ast.expr | None:
        args = [*node.args, *(k.value for k in node.keywords)]
        inner = self._parts(args, place)
        if inner is not None:
            return inner
        if self._works_on_constants(node, place):
            return None
        if not place.local(name_of(node.func)) and makes_plain_object(self.kinds.world.names, node, place.path):
            return None
        match node.func:
            case ast.Name(id=name) if hasattr(builtins, name) and not self.kinds.world.names.binds(place.path, name):
                quiet = name in _QUIET or (name == "getattr" and len(args) == 3) or (name == "type" and len(args) == 1)
                if name in ("isinstance", "issubclass"):
                    return None if name == "isinstance" and self._is_type(args[1:], place) else node
                if name in ("frozenset", "set", "tuple", "list") and len(args) == 1 and not node.keywords:
                    shown = isinstance(args[0], ast.Set | ast.List | ast.Tuple) and all(map(is_constant, args[0].elts))
                    return None if shown else node
                empty = not args and name in ("dict", "list", "set", "tuple", "object", "frozenset", "str", "int")
                return None if quiet or empty else node
            case ast.Attribute(value=receiver, attr="get" | "keys" | "values" | "items" | "getenv" as method):
                return self._lookup(node, receiver, method, place)
        function = name_of(node.func)
        last = function.rpartition(".")[2]
        if (last in _MAKERS and len(args) >= _NEEDED.get(last, 0)) or function == "super":
            return self.part(node.func, place)
        return node

    def _works_on_constants(self, node: ast.Call, place: Place) -> bool:
        """A builtin or a method of text, which gives the same whenever it is called."""
        name = name_of(node.func)
        if node.keywords or place.local(name) or name in place.hidden or self.kinds.world.names.binds(place.path, name):
            return False
        if name == "range":
            return 1 <= len(node.args) <= 3 and all(_whole(worked_out(a, self.known(place))) for a in node.args)
        return call(node.func, node.args) is not UNKNOWN

    def _lookup(self, node: ast.Call, receiver: ast.expr, method: str, place: Place) -> ast.expr | None:
        inner = self.part(receiver, place)
        if inner is not None:
            return inner
        kind = self.kinds.of(receiver, place)
        if isinstance(kind, Builtin):
            return None if hasattr(kind.type, method) else node.func
        if isinstance(kind, External):
            return None if kind.dotted in ("os", "os.environ") else node.func
        return None if self.reads.is_container(receiver, place) else node.func

    def _is_type(self, nodes: Iterable[ast.expr], place: Place) -> bool:
        """Whether these are classes, or tuples of classes."""
        for node in nodes:
            if isinstance(node, ast.Tuple):
                if not self._is_type(node.elts, place):
                    return False
                continue
            kind = self.kinds.of(node, place)
            builtin = isinstance(node, ast.Name) and isinstance(getattr(builtins, node.id, None), type)
            external = isinstance(kind, External) and name_of(node).split(".")[-1][:1].isupper()
            if not (builtin or external or (isinstance(kind, Class) and not kind.instance)):
                return False
        return True


def _whole(value: object) -> bool:
    return isinstance(value, int) and value != 0


def _label(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, _LABELS)
