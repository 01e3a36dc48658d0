"""What the code itself refuses (hardware, parallelism, dtypes, batch), against what the manifest declares."""

from __future__ import annotations

import ast
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from validator.isolation.offpath.constants import UNKNOWN, compare, name_of, value_of
from validator.isolation.syntax import functions, nodes, unparse, walk
from validator.manifest.model import ScopeDeclaration

__all__ = ["Gap", "Guard", "gaps", "read_guards"]

_ARCHITECTURES: Final = (70, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
"""Compute capabilities × 10 that exist."""
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
_DTYPES: Final = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "float4_e2m1fn_x2",
)
_BATCHES: Final = (*range(1, 17), 32, 64, 128, 256, 512, 1024, 4096, 65536)
UNIVERSES: Final[dict[str, tuple[Any, ...]]] = {
    "architectures": _ARCHITECTURES,
    "parallelism": _SIZES,
    "dtypes": _DTYPES,
    "batch": _BATCHES,
}


@dataclass(frozen=True, slots=True)
class Guard:
    """One statement that admits or refuses."""

    path: str
    line: int
    condition: str
    dimension: str
    admits: tuple[Any, ...]
    """Of the dimension's universe."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Where code and manifest disagree in one dimension."""

    dimension: str
    wider: tuple[Any, ...]
    """Admitted by the code, not declared."""
    narrower: tuple[Any, ...]
    """Declared, refused by the code."""
    guard: Guard | None
    """The guard that should have refused `wider`; None: there is none in this dimension."""


def read_guards(modules: Iterable[tuple[str, ast.Module]], called: frozenset[str]) -> tuple[Guard, ...]:
    """Every guard in these files that stands in a function whose name is among the `called` (or in none)."""
    own = [(path, module, _constants(module)) for path, module in modules]
    everywhere = {name: value for _, _, constants in own for name, value in constants.items()}
    return tuple(g for path, module, c in own for g in _guards(path, module, called, ChainMap(c, everywhere)))


def gaps(guards: Iterable[Guard], scope: ScopeDeclaration) -> Iterator[Gap]:
    """A gap for each dimension in which the code's own refusals are not what the manifest says."""
    guards = tuple(guards)
    for dimension, declared in _declared(scope).items():
        here = [g for g in guards if g.dimension == dimension]
        universe = UNIVERSES[dimension]
        admitted = [v for v in universe if all(v in g.admits for g in here)]
        wider = tuple(v for v in admitted if v not in declared)
        narrower = tuple(v for v in declared if v in universe and v not in admitted)
        if wider or narrower:
            blamed = next((g for g in here if set(wider) <= set(g.admits)), here[0] if here else None)
            yield Gap(dimension, wider, narrower, blamed)


def _declared(scope: ScopeDeclaration) -> dict[str, frozenset[Any]]:
    architectures = {int(m[1]) for a in scope.architectures if (m := re.fullmatch(r"sm_?(\d+)[a-z]?", a))}
    sizes = {int(m[1]) for p in scope.parallelism if (m := re.fullmatch(r"tp(\d+)", p))}
    declared: dict[str, frozenset[Any]] = {
        "architectures": frozenset(architectures),
        "dtypes": frozenset(map(_dtype, scope.dtypes)),
        "batch": frozenset(b for b in _BATCHES if scope.batch.min <= b <= scope.batch.max),
    }
    if sizes or scope.parallelism == ("none",):
        declared["parallelism"] = frozenset(sizes or {1})
    return declared


_ALIASES: Final = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32",
                   "fp8_e4m3": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}  # fmt: skip


def _dtype(name: str) -> str:
    return _ALIASES.get(name, name)


# Reading --------------------------------------------------------------------------------------------------------

_Value = bool | None


_PREDICATE: Final = re.compile(
    r"^_?(is|has|can|should|supports?|admits?|allowed|enabled|applies|check|accepts?|eligible)"
)


def _constants(module: ast.Module) -> dict[str, Any]:
    """Module-level names with a constant value."""
    stores = ((t, n.value) for n in module.body if isinstance(n, ast.Assign) for t in n.targets)
    found = {t.id: value_of(_tupled(value)) for t, value in stores if isinstance(t, ast.Name)}
    return {name: value for name, value in found.items() if value is not UNKNOWN}


def _guards(path: str, module: ast.Module, called: frozenset[str], constants: Mapping[str, Any]) -> Iterator[Guard]:
    skipped = _skipped(module, called)
    conditional = (node for kind in (ast.Assert, ast.If, ast.Return) for node in nodes(module, kind))
    for node in sorted(conditional, key=lambda node: node.lineno):
        test, refuses = (None, False) if id(node) in skipped else _condition(node)
        if test is None:
            continue
        for dimension, atom in _ATOMS.items():
            outcomes = {v: _evaluate(test, _reader(atom, v, constants)) for v in UNIVERSES[dimension]}
            if any(o is not None for o in outcomes.values()) and len(set(outcomes.values())) > 1:
                admits = tuple(v for v, o in outcomes.items() if o is not refuses)
                yield Guard(path, test.lineno, unparse(test)[:200], dimension, admits)


def _skipped(module: ast.Module, called: frozenset[str]) -> set[int]:
    """Statements of functions that nothing calls, and values returned by functions that are no predicates."""
    found: set[int] = set()
    for function in functions(module):
        dead = function.name not in called and function.name != "__init__"
        predicate = _PREDICATE.match(function.name) is not None
        found |= {id(n) for n in walk(function) if dead or (isinstance(n, ast.Return) and not predicate)}
    return found


def _condition(node: ast.AST) -> tuple[ast.expr | None, bool]:
    """(condition, what its truth must be to refuse)."""
    if isinstance(node, ast.Assert):
        return node.test, False
    if isinstance(node, ast.If) and not node.orelse and node.body and _refuses(node.body[-1]):
        return node.test, True
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call):
        return node.value, False
    return None, False


def _refuses(last: ast.stmt) -> bool:
    if isinstance(last, ast.Raise):
        return True
    return isinstance(last, ast.Return) and (
        last.value is None or (isinstance(last.value, ast.Constant) and not last.value.value)
    )


_Atom = Callable[[ast.expr, Any, Mapping[str, Any]], Any]


def _reader(atom: _Atom, value: Any, constants: Mapping[str, Any]) -> Callable[[ast.expr], Any]:
    def read(node: ast.expr) -> Any:
        found = atom(node, value, constants)
        if found is not UNKNOWN:
            return found
        if isinstance(node, ast.Name) and node.id in constants:
            return constants[node.id]
        return value_of(_tupled(node))

    return read


def _tupled(node: ast.expr) -> ast.expr:
    """Displays as tuples, and `torch.bfloat16` as its name."""
    if isinstance(node, ast.List | ast.Set | ast.Tuple):
        return ast.Tuple(elts=[_tupled(e) for e in node.elts], ctx=ast.Load())
    if (
        isinstance(node, ast.Call)
        and name_of(node.func) in ("frozenset", "set", "tuple", "list")
        and len(node.args) == 1
    ):
        return _tupled(node.args[0])
    if isinstance(node, ast.Attribute) and name_of(node).startswith("torch."):
        return ast.Constant(value=_dtype(node.attr))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return ast.Constant(value=_dtype(node.value))
    return node


def _evaluate(node: ast.expr, read: Callable[[ast.expr], Any]) -> _Value:
    """Three-valued truth of a condition."""
    match node:
        case ast.BoolOp(op=op, values=values):
            parts = [_evaluate(v, read) for v in values]
            decides = isinstance(op, ast.Or)
            if decides in parts:
                return decides
            return None if None in parts else not decides
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _evaluate(operand, read)
            return None if inner is None else not inner
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            known: list[_Value] = []
            for a, how, b in zip([left, *comparators[:-1]], ops, comparators, strict=True):
                x, y = read(a), read(b)
                result = UNKNOWN if x is UNKNOWN or y is UNKNOWN else compare(x, how, y)
                known.append(None if result is UNKNOWN else bool(result))
            return False if False in known else None if None in known else True
    value = read(node)
    return None if value is UNKNOWN or not isinstance(value, bool) else value


def _capability(node: ast.expr, value: int, constants: Mapping[str, Any]) -> Any:
    """Reads of the compute capability, as pair, as number, as family; `value` is ten times it."""
    if isinstance(node, ast.Call):
        last = name_of(node.func).split(".")[-1] or getattr(node.func, "attr", "")
        wanted = value_of(node.args[0]) if node.args else UNKNOWN
        wanted = wanted[0] * 10 + wanted[1] if isinstance(wanted, tuple) and len(wanted) == 2 else wanted
        if last == "get_device_capability":
            return divmod(value, 10)
        if isinstance(wanted, int):
            if last == "is_device_capability_family":
                return value // 10 == wanted // 10
            if last == "is_device_capability":
                return value == wanted
            if last == "has_device_capability":
                return value >= wanted
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        pair, index = _capability(node.value, value, constants), value_of(node.slice)
        if isinstance(pair, tuple) and index in (0, 1):
            return pair[index]
    if isinstance(node, ast.Name | ast.Attribute):
        last = name_of(node).split(".")[-1]
        if last in ("capability", "compute_capability", "device_capability"):
            return divmod(value, 10)
        if last in ("major", "cc_major", "sm_major"):
            return value // 10
        if last in ("sm", "sm_version", "sm_arch"):
            return value
    return UNKNOWN


def _named(*names: str) -> _Atom:
    """Reads of a variable or attribute by its last name."""

    def read(node: ast.expr, value: Any, constants: Mapping[str, Any]) -> Any:
        last = name_of(node).split(".")[-1]
        return value if last in names else UNKNOWN

    return read


def _batch(node: ast.expr, value: int, constants: Mapping[str, Any]) -> Any:
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return value
        case ast.Call(func=ast.Name(id="min"), args=args) if args:
            known = [constants.get(a.id) if isinstance(a, ast.Name) else value_of(a) for a in args]
            sizes = [k for k in known if isinstance(k, int)]
            return min(sizes) if sizes else UNKNOWN
    return _named("batch", "batch_size", "num_seqs", "num_reqs", "num_decodes", "num_tokens")(node, value, constants)


_ATOMS: Final[dict[str, _Atom]] = {
    "architectures": _capability,
    "parallelism": _named("tensor_parallel_size", "tp_size", "tp_world_size"),
    "dtypes": _named("dtype", "torch_dtype", "model_dtype"),
    "batch": _batch,
}
