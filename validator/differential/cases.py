"""Cases: what is run, in an order that depends on the contract and one seed alone.

First the production shapes, then every edge and every input variant by construction, then what hypothesis draws from
the contract. A case is a small value that names its data by a seed: it can be stored, described, replayed and shrunk.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from statistics import mode
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from validator.differential.errors import DifferentialError
from validator.differential.inputs import VARIANTS, Fill, Room, applicable, filled
from validator.differential.numbers import Array, Source, derived, dtype_of, is_float
from validator.differential.padding import has_padding, point_elsewhere, unused_parts
from validator.differential.pinned import Pinned, few, pinned
from validator.differential.shapes import Space, shape_of
from validator.errors import Problem
from validator.manifest.contract import FILLED, KernelContract, Role, Values
from validator.manifest.dims import parse_expression
from validator.scale.covering import cover

__all__ = [
    "CASE_SCHEMA",
    "FILLED",
    "LARGEST",
    "MOST",
    "PLANS",
    "Case",
    "CaseTooLarge",
    "Inputs",
    "aliases_of",
    "build",
    "case_text",
    "cases",
    "configurations_of",
    "has_padding",
    "is_written",
    "judged_arguments",
    "layouts_of",
    "load_case",
    "nameable",
    "size_of",
    "values_of",
    "variants_of",
    "with_padding_told",
]

CASE_SCHEMA = "validator/case/1"

Inputs = dict[str, Any]
"""Argument → numpy array, or a Python number for one passed by value; in the callable's order."""

PLANS = (
    "repeat", "same-buffer", "other-buffer", "flip", "recheck",
    "a-b-a", "batch-mates", "any-order", "carried-on", "many-calls", "fresh",
)  # fmt: skip
"""What is done around the first two calls of a case (`validator.differential.plans`)."""
_DEAR = ("many-calls", "fresh")
"""Plans that cases have for a reason, or seldom."""

LARGEST = 2 << 30
"""Bytes of all arguments of one case. A manifest says the sizes; the gate holds several copies of them at once."""

MOST = 5000
"""Cases by construction. A manifest says how many arguments, types, layouts and choices there are to try."""

_Size = Annotated[int, Field(ge=0, lt=1 << 64)]
_WRITTEN = frozenset({Role.OUTPUT, Role.STATE, Role.WORKSPACE})


class CaseTooLarge(DifferentialError):
    """A case whose arguments are larger than the gate makes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case. Only what is out of the ordinary is listed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kernel: str
    """The contract's `match`."""
    dims: tuple[tuple[str, _Size], ...]
    seed: _Size
    """Of the data."""
    plan: str = "repeat"
    dtypes: tuple[tuple[str, str], ...] = ()
    """Argument → element type, for arguments that have a choice."""
    variants: tuple[tuple[str, str], ...] = ()
    """Argument → name of its variant, for arguments that are not filled plainly."""
    layouts: tuple[tuple[str, str], ...] = ()
    """Argument → layout, for arguments that are not contiguous."""
    aliased: tuple[str, ...] = ()
    """Arguments that share the memory of their `alias_of`."""
    padding: bool = False
    """What no index points to and no length covers holds NaN."""
    configuration: tuple[tuple[str, int], ...] = ()
    """What the candidate is told to choose, where it has a choice."""
    pinned: Pinned = ()
    """Argument → its elements, for numbers and few whole ones that the seed does not draw."""
    origin: str = ""
    """Why the case exists, in words."""
    input_class: str = ""
    """The class it was made for; `random` when hypothesis drew it."""

    @property
    def id(self) -> str:
        """The same for the same case on any machine; says nothing of why it exists."""
        facts = {name: getattr(self, name) for name in _FACTS}
        for later in ("configuration", "pinned"):  # ids of cases without them are older than they are
            if not facts[later]:
                del facts[later]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def words(self) -> str:
        """The inputs as a sentence."""
        parts = [", ".join(f"{name} = {value}" for name, value in self.dims) or "no dimensions"]
        parts += [f"{name} as {dtype}" for name, dtype in self.dtypes]
        parts += [f"{name} {VARIANTS[variant].words}" for name, variant in self.variants]
        parts += [f"{name} lies {layout} in memory" for name, layout in self.layouts]
        parts += [f"{name} shares memory with its alias" for name in self.aliased]
        parts += ["unused parts hold NaN"] if self.padding else []
        chosen = ", ".join(f"{name} = {value}" for name, value in self.configuration)
        parts += [f"candidate configured with {chosen}"] if chosen else []
        parts += [f"{name} = {', '.join(f'{value:.6g}' for value in values)}" for name, values in self.pinned]
        return "; ".join(parts) + f"; plan {self.plan}"


@cache
def _adapter() -> TypeAdapter[Case]:
    return TypeAdapter(Case)


_FACTS = tuple(field.name for field in fields(Case) if field.name not in ("origin", "input_class"))
"""What makes a case the case it is."""


def case_text(case: Case) -> str:
    """A case as one line of JSON: what `validator replay` takes and what a corpus holds."""
    plain = {k: v for k, v in asdict(case).items() if v not in ((), "") and v is not False}
    return json.dumps({"schema": CASE_SCHEMA, **plain}, separators=(",", ":"))


def load_case(text: str, where: str) -> Case:
    """The case of one such line. Raises `DifferentialError`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DifferentialError(f"{where}: not JSON: {error}") from None
    if not isinstance(data, dict) or data.pop("schema", None) != CASE_SCHEMA:
        raise DifferentialError(f'{where}: not a case ("schema": "{CASE_SCHEMA}" comes first)')
    try:
        case = _adapter().validate_json(json.dumps(data))
    except ValidationError as error:
        raise DifferentialError(
            *(
                Problem(f"not a case: {e['msg'].lower()}", f"{where}: {'.'.join(map(str, e['loc']))}")
                for e in error.errors(include_url=False)[:10]
            )
        ) from None
    unknown = [v for _, v in case.variants if v not in VARIANTS] + [p for p in [case.plan] if p not in PLANS]
    if unknown:
        named = ", ".join(map(repr, unknown))
        raise DifferentialError(f"{where}: the case names {named}, which this version does not know")
    return case


def is_written(role: Role | None, values: Values) -> bool:
    """Whether the kernel may change the argument."""
    return role in _WRITTEN or values.inplace


def is_drawn(values: Values) -> bool:
    """Whether a case chooses the argument's values, rather than the sizes or the layouts."""
    return values.value is None and values.stride is None


def judged_arguments(contract: KernelContract) -> tuple[str, ...]:
    """Arguments whose contents after the call are the result."""
    return tuple(n for n, (r, v) in contract.values.items() if is_written(r, v) and r is not Role.WORKSPACE)


def fill_of(contract: KernelContract, case: Case, name: str) -> Fill:
    """What a variant is told about one argument of one case."""
    dims = dict(case.dims)
    role, values = contract.values[name]
    d = values.domain
    positions = contract.extent_of(d)
    extent = parse_expression(positions).value(dims) if positions is not None else 0
    dtype = dict(case.dtypes).get(values.dtype_of or name) or (values.dtype[0] if values.dtype else "float64")
    total = parse_expression(d.sum).value(dims) if d.sum is not None else extent if d.cuts else None
    values = (
        values.model_copy(update={"domain": d.at(dims)})
        if isinstance(d.low, str) or isinstance(d.high, str)
        else values
    )
    pages, axis = d.pages or ("", 0)
    page = shape_of(contract.values[pages][1].shape or (), dims)[axis] if pages else 1
    if d.last is not None:
        low, high = values.domain.fixed
        ends = {"low": max(low or 1, 1), "high": max(page if high is None else min(high, page), 1)}
        values = values.model_copy(update={"domain": values.domain.model_copy(update=ends)})
    beside = _counted_to(contract, dims) if d.hangs_on is None else 0
    shape, between = shape_of(values.shape or (), dims), _range_of(contract, case) if values.shape else None
    return Fill(name, role, values, dtype_of(dtype), shape, extent, page, total, beside, between)


def _range_of(contract: KernelContract, case: Case) -> tuple[int, int] | None:
    """Where numbers passed by value say that a range begins, and its last number; None where none do."""
    name = next((name for name, (_, v) in contract.values.items() if v.domain.after is not None), None)
    if name is None:
        return None
    start = contract.values[name][1].domain.after or ""
    return int(values_of(contract, case, start)), int(values_of(contract, case, name)) - 1


def _counted_to(contract: KernelContract, dims: Mapping[str, int]) -> int:
    """What the first lengths count to, or else the size that most dimensions have."""
    counted = (contract.extent_of(v.domain) for _, v in contract.values.values() if v.domain.lengths)
    first = next((text for text in counted if text is not None), None)
    return parse_expression(first).value(dims) if first is not None else mode(dims.values() or [0])


def build(
    contract: KernelContract,
    case: Case,
    rooms: Mapping[str, Room] = MappingProxyType({}),
    given: Mapping[str, Array] = MappingProxyType({}),
) -> Inputs:
    """The case's data. Arguments that hold nothing before the call are there too, as zeros that take no memory.

    `rooms`: where an argument's ordinary values are drawn, if not anywhere. `given`: ordinary values that a generator
    made; what the case fills on purpose is filled so all the same.
    Raises `CaseTooLarge`.
    """
    if (size := size_of(contract, case)) > LARGEST:
        told = f"{case.words()}: {size / 2**30:.1f} GiB of arguments, at most {LARGEST >> 30} GiB are made"
        raise CaseTooLarge(told)
    inputs: Inputs = {}
    variants = dict(case.variants)
    for name, (role, values) in contract.values.items():
        if values.stride is not None or values.domain.hangs_on is not None:
            inputs[name] = 0  # known once the arrays lie in memory, or what it hangs on
            continue
        if values.value is not None:
            inputs[name] = _told(values, case)
            continue
        if name in given and name not in variants:
            inputs[name] = given[name]
            continue
        fill = replace(fill_of(contract, case, name), spare=case.padding)
        if name in rooms:
            fill = replace(fill, room=rooms[name])
        if role in FILLED:
            inputs[name] = np.broadcast_to(np.zeros((), fill.dtype), fill.shape)
            continue
        inputs[name] = _made(fill, case)
    for name, (_, values) in contract.values.items():
        if values.domain.hangs_on is not None:
            inputs[name] = _made(_holding(contract, case, name, inputs), case)
    for name in case.aliased:
        inputs[name] = inputs[alias_of(contract, name)]
    if case.padding:
        point_elsewhere(contract, inputs)
        for name, unused in unused_parts(contract, inputs).items():
            inputs[name][unused] = np.nan
    return inputs


def _made(fill: Fill, case: Case) -> Any:
    """An argument's values, on purpose where the case says so."""
    source, variants, named = Source(derived(case.seed, fill.name)), dict(case.variants), dict(case.pinned)
    if fill.name in named:
        array = pinned(fill, named[fill.name])
    else:
        array = VARIANTS[variants[fill.name]].make(fill, source) if fill.name in variants else filled(fill, source)
    return array.item() if fill.role is Role.SCALAR and array.ndim == 0 else array


def _told(values: Values, case: Case) -> float:
    """The value that the contract gives a number."""
    known, number = {**dict(case.dims), **dict(case.configuration)}, values.value
    return parse_expression(number).value(known) if isinstance(number, str) else number or 0


def values_of(contract: KernelContract, case: Case, name: str) -> Any:
    """The values of one argument, and of none that it does not hang on."""
    values = contract.values[name][1]
    if values.value is not None:
        return _told(values, case)
    other = values.domain.hangs_on
    if other is not None:
        return _made(_holding(contract, case, name, {other: values_of(contract, case, other)}), case)
    return _made(replace(fill_of(contract, case, name), spare=case.padding), case)


def nameable(contract: KernelContract, case: Case) -> dict[str, Fill]:
    """Arguments of which a case may name the values itself, and what is told of each."""
    named = {n for n, (role, v) in contract.values.items() if role not in FILLED and is_drawn(v)}
    able = named.difference(contract.generated, case.aliased)
    fills = ((name, fill_of(contract, case, name)) for name in contract.values if name in able)
    return {name: fill for name, fill in fills if few(fill)}


def _holding(contract: KernelContract, case: Case, name: str, inputs: Inputs) -> Fill:
    """What is told of a number that is at least the longest of some lengths, or so much more than another."""
    fill = fill_of(contract, case, name)
    if (start := fill.values.domain.after) is not None:
        more, most = (int(end or 0) for end in fill.values.domain.fixed)
        ends = {"low": int(inputs[start]) + more, "high": int(inputs[start]) + max(more, most)}
        return replace(
            fill, values=fill.values.model_copy(update={"domain": fill.values.domain.model_copy(update=ends)})
        )
    of = fill_of(contract, case, fill.values.domain.longest or "")
    lengths = np.asarray(inputs[of.name]).astype(np.int64)
    if of.values.domain.offsets is not None:
        lengths = np.diff(lengths, axis=-1)
    elif of.values.domain.cuts:
        lengths = np.diff(lengths, axis=-1, prepend=0)
    low, (_, high) = int(lengths.max(initial=0)), fill.values.domain.fixed
    most = max(low, of.lengths[1] if high is None else int(high))
    domain = fill.values.domain.model_copy(update={"low": low, "high": most})
    return replace(fill, values=fill.values.model_copy(update={"domain": domain}))


def with_padding_told(contract: KernelContract, case: Case) -> Case:
    """The case, without padding where nothing is unused. What a generator gives is not looked at."""
    domains = {name: values.domain for name, (_, values) in contract.values.items()}
    speaking = [name for name, d in domains.items() if d.speaks_of is not None or d.last is not None]
    if not case.padding or set(speaking) & set(contract.generated) or size_of(contract, case) > LARGEST:
        return case
    inputs: Inputs = {}
    for name, (_, values) in contract.values.items():
        fill = replace(fill_of(contract, case, name), spare=True)
        is_number = values.value is not None or values.stride is not None
        made = _made(fill, case) if name in speaking else np.broadcast_to(np.zeros((), fill.dtype), fill.shape)
        inputs[name] = 0 if is_number else made
    unused = unused_parts(contract, inputs).values()
    return case if any(where.any() for where in unused) else replace(case, padding=False)


def size_of(contract: KernelContract, case: Case) -> int:
    """Bytes that the arguments will take, counted before any of them is made."""
    fills = (fill_of(contract, case, name) for name, (_, v) in contract.values.items() if v.value is None)
    return sum(math.prod(fill.shape) * fill.dtype.itemsize for fill in fills)


def alias_of(contract: KernelContract, name: str) -> str:
    alias = getattr(contract.values[name][1], "alias_of", None)
    assert isinstance(alias, str)
    return alias


def aliases_of(contract: KernelContract, case: Case) -> dict[str, str]:
    """Argument → argument whose memory it shares in this case."""
    return {name: alias_of(contract, name) for name in case.aliased}


def cases(contract: KernelContract, seed: int, count: int) -> list[Case]:
    """Every case of a run: those by construction, then `count` random ones; plans in turn. Same seed, same cases."""
    from validator.differential.constructed import constructed_cases
    from validator.differential.drawn import drawn_cases

    space = Space(contract)
    made = [*itertools.islice(constructed_cases(contract, space), MOST), *drawn_cases(contract, space, seed, count)]
    plans = [p for p in PLANS if _PLAN_APPLIES.get(p, _always)(contract)]
    choices = configurations_of(contract)
    ordinary = [p for p in plans if p not in _DEAR]
    out: dict[str, Case] = {}
    for index, case in enumerate(made):
        # A process of its own is dear: the first case has one, and one in 40 after it.
        usual = "fresh" if index % 40 == 0 else ordinary[index % len(ordinary)]
        plan = case.plan if case.plan in _DEAR else usual
        choice = case.configuration or choices[index // len(ordinary) % len(choices)]  # each meets every plan
        origin = case.origin + _from_generator(contract, case)
        case = replace(case, plan=plan, seed=derived(seed, contract.match, index), configuration=choice, origin=origin)
        if not _is_made(contract, space, case):
            continue
        case = with_padding_told(contract, case)
        if case.padding or case.input_class != "I7" or case.variants:
            out.setdefault(case.id, case)
    return list(out.values())


_PLAINLY = 1 << 24
"""Elements of the largest argument at which no case is too large."""


def _is_made(contract: KernelContract, space: Space, case: Case) -> bool:
    """Whether its arguments are not too large; what a manifest asks for by name is told where it is."""
    small = space.elements(dict(case.dims)) * len(contract.values) <= _PLAINLY
    return small or case.input_class == "production" or size_of(contract, case) <= LARGEST


def _from_generator(contract: KernelContract, case: Case) -> str:
    """What of a case the generator makes, for its origin."""
    names = [name for name in contract.generated if name not in dict(case.variants)]
    return f" ({', '.join(names)} from {contract.generator})" if names else ""


def _always(contract: KernelContract) -> bool:
    return True


def has_state(contract: KernelContract) -> bool:
    """Whether a launch leaves something for the next one."""
    return any(role is Role.STATE for role, _ in contract.values.values())


_PLAN_APPLIES: dict[str, Callable[[KernelContract], bool]] = {
    "batch-mates": lambda c: c.batch is not None,
    "any-order": lambda c: c.launches is not None,
    "carried-on": has_state,
}

CONFIGURATIONS = 64
"""Combinations of choices that are all tried; of more, each value with each of every other choice."""
_PAIRS = 1024
"""Pairs of values of which each is tried; of more, every single value is."""


def configurations_of(contract: KernelContract) -> list[tuple[tuple[str, int], ...]]:
    """Everything that the candidate can be told to choose, the first values first; one empty choice if nothing."""
    options = contract.configurations
    if math.prod(map(len, options.values())) <= CONFIGURATIONS:
        return [tuple(zip(options, chosen, strict=True)) for chosen in itertools.product(*options.values())]
    pairs = sum(len(one) * len(other) for one, other in itertools.combinations(options.values(), 2))
    if pairs <= _PAIRS:
        found = [dict(row) for row in cover(options, 2, (), exhaustive=CONFIGURATIONS)]
    else:
        first = {name: values[0] for name, values in options.items()}
        found = [{**first, name: value} for name, values in options.items() for value in values]
    return list(dict.fromkeys(tuple((name, row[name]) for name in options) for row in found))


LAYOUT_CLASS = {"offset": "I12", "distant": "I1"}
"""Class of a layout; `I11` where it is not listed."""


def variants_of(contract: KernelContract, case: Case, name: str, *, alone: bool = True) -> list[str]:
    """Variants that make sense for an argument in a case; none where no case chooses the values."""
    role, values = contract.values[name]
    if role in FILLED or not is_drawn(values):
        return []
    fill = fill_of(contract, case, name)
    if name in contract.generated and (contract.generates or not (fill.floating and fill.free)):
        return []  # a generator makes it, and only the generator knows what else it may hold
    return [v.name for v in applicable(fill) if v.alone or not alone]


def layouts_of(values: Values) -> tuple[str, ...]:
    """Layouts that callers may pass, besides the ordinary one."""
    return tuple(layout for layout in values.layouts if layout != "contiguous")


def float_arguments(inputs: Inputs) -> list[str]:
    """Arrays of floating-point type."""
    return [n for n, a in inputs.items() if isinstance(a, np.ndarray) and is_float(a.dtype)]


def copied(inputs: Inputs) -> Inputs:
    """The same values in arrays of their own."""
    return {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in inputs.items()}
