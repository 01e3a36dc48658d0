"""Whether dropping an expression drops an effect."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from validator.isolation.offpath.constants import name_of
from validator.isolation.syntax import parts

__all__ = ["Purity", "rebuildable"]

_BUILTINS: Final = frozenset(
    {
        "abs", "all", "any", "bool", "bytes", "callable", "dict", "divmod", "float", "frozenset", "getattr",
        "hasattr", "hash", "id", "int", "isinstance", "issubclass", "len", "list", "max", "min", "object",
        "range", "repr", "round", "set", "slice", "sorted", "str", "sum", "super", "tuple", "type", "zip",
        "enumerate",
    }
)  # fmt: skip
_METHODS: Final = frozenset({"lower", "upper", "strip", "startswith", "endswith", "keys", "values", "items", "isdigit"})
_FUNCTIONS: Final = frozenset(
    {
        "os.environ.get", "os.getenv", "os.path.join", "os.path.dirname", "os.path.abspath",
        "logging.getLogger", "init_logger", "typing.TypeVar", "TypeVar", "NewType", "ParamSpec", "namedtuple",
        "collections.namedtuple", "re.compile", "dataclasses.field", "field", "Field", "pydantic.Field", "Path",
        "pathlib.Path", "threading.Lock", "threading.local", "contextvars.ContextVar", "ContextVar",
        "frozenset", "defaultdict", "collections.defaultdict", "OrderedDict", "deque", "math.sqrt", "math.log",
        "math.ceil", "contextlib.nullcontext", "nullcontext", "functools.partial", "partial",
        "importlib.util.find_spec", "enum.auto", "auto", "triton.Config", "tl.constexpr", "itertools.count",
        "itertools.product", "types.SimpleNamespace", "SimpleNamespace", "Counter", "collections.Counter",
        "threading.RLock", "threading.Event", "torch.device", "torch.Size",
    }
)  # fmt: skip
_PLAIN: Final = frozenset({
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.IfExp,
    ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr, ast.FormattedValue, ast.Slice, ast.Starred, ast.keyword,
})  # fmt: skip


_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Purity:
    """Judges expressions. Attribute reads count as free of effects unless the tree defines such a property."""

    def __init__(self, computed: Callable[[str], bool], itself: Callable[[str], bool] | None = None) -> None:
        self.computed = computed
        """Whether reading an attribute of this name may run code of the tree (a property)."""
        self.itself = itself
        """For what a module's own statements evaluate: whether a dotted name means what it is called, where functions
        are known by their names."""

    def __call__(self, node: ast.expr | None) -> bool:
        """True: evaluating it changes nothing that other code can see (it may still raise or take time)."""
        todo: list[ast.AST] = [node] if node is not None else []
        while todo:
            part = todo.pop()
            kind = type(part)
            if kind is ast.Constant or kind is ast.Name or kind is ast.Lambda:
                continue
            if isinstance(part, ast.Call):
                if not self._known(part):
                    return False
                if any(k.arg == "key" and not isinstance(k.value, ast.Lambda) for k in part.keywords):
                    return False  # it calls what it is given
                todo += [
                    *part.args,
                    *(k.value.body if isinstance(k.value, ast.Lambda) else k.value for k in part.keywords),
                ]
                if isinstance(part.func, ast.Attribute):
                    todo.append(part.func.value)
                continue
            if isinstance(part, _COMPREHENSIONS):
                if not all(self._goes_over(one) for one in part.generators):
                    return False
                todo += [p for p in parts(part) if not isinstance(p, ast.comprehension)]
                todo += [p for one in part.generators for p in (one.iter, *one.ifs)]
                continue
            if kind not in _PLAIN or (isinstance(part, ast.Attribute) and self.computed(part.attr)):
                return False
            todo += parts(part)
        return True

    def _goes_over(self, node: ast.comprehension) -> bool:
        """Whether going over it uses nothing up: a display, a range; names of a module hold no generators."""
        shown = isinstance(node.iter, ast.Tuple | ast.List | ast.Set | ast.Dict)
        ranged = isinstance(node.iter, ast.Call) and name_of(node.iter.func) == "range"
        named = self.itself is not None and (bool(name_of(node.iter)) or isinstance(node.iter, ast.Call))
        return not node.is_async and (shown or ranged or named)

    def _known(self, node: ast.Call) -> bool:
        name = name_of(node.func)
        if name in _FUNCTIONS or (isinstance(node.func, ast.Name) and name in _BUILTINS):
            return self.itself is None or self.itself(name)
        if not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr == "get":
            return bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        return node.func.attr in _METHODS and all(isinstance(a, ast.Constant | ast.Tuple) for a in node.args)


def rebuildable(node: ast.expr) -> bool:
    """A name, constant or attribute chain: reading it again gives the same object unless something was stored."""
    return isinstance(node, ast.Constant) or bool(name_of(node))
