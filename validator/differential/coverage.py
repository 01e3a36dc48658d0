"""Coverage: which input classes a run held, and which not and why. Nothing is claimed that was not generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from validator.differential.cases import LAYOUT_CLASS, Case, has_state, judged_arguments, layouts_of
from validator.differential.inputs import VARIANTS
from validator.differential.numbers import dtype_of, is_float
from validator.differential.padding import has_padding
from validator.differential.shapes import USUAL_TILES
from validator.manifest.contract import FILLED, KernelContract, Role, Values
from validator.manifest.dims import parse_expression

__all__ = ["CLASSES", "Row", "coverage", "fixes_rounding", "from_generator", "not_covered"]

_EVERY = "by every case"

CLASSES: dict[str, str] = {
    "I1": "offsets beyond 2^31",
    "I2": "sizes at tile edges and ragged tails",
    "I3": "size 0",
    "I4": "size 1",
    "I5": "odd head and group counts",
    "I6": "fully masked rows",
    "I7": "NaN in unused rows and padding",
    "I8": "ties",
    "I9": "zeros and tiny blocks",
    "I10": "peaked and large values",
    "I11": "strided, transposed and sliced arguments",
    "I12": "alignment offsets",
    "I13": "in-place and aliased arguments",
    "I14": "dirty workspaces and outputs",
    "I15": "repeated calls and changed values",
    "I16": "batch mates",
    "I17": "repeats for races",
    "I18": "every configuration that the candidate can choose",
    "I19": "every element type of each argument",
    "I20": "reads outside a buffer: beyond its guard zone, or such that a result changes",
    "I21": "rows far below the largest",
    "I22": "rounding points of fused chains",
    "I23": "order across launches and ranks",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One input class in one run."""

    input_class: str
    words: str
    cases: int
    """Cases that hold it; 0 when it is not covered."""
    reason: str = ""
    """Why it is not covered or does not apply."""
    applies: bool = True


def coverage(contract: KernelContract, run: Sequence[Case]) -> tuple[Row, ...]:
    """A row for every class."""
    counts = dict.fromkeys(CLASSES, 0)
    for case in run:
        for input_class in _held(contract, case):
            counts[input_class] += 1
    return tuple(_row(contract, input_class, counts[input_class]) for input_class in CLASSES)


def not_covered(rows: Sequence[Row]) -> tuple[str, ...]:
    """Sentences for the reviewer, about classes that apply and were not run."""
    return tuple(f"{r.words} ({r.input_class}): {r.reason}" for r in rows if r.applies and not r.cases)


def from_generator(contract: KernelContract, run: Sequence[Case]) -> tuple[str, ...]:
    """A sentence about arrays that held nothing but what a generator gives: no class of values is held by them."""
    varied = {name for case in run for name, _ in case.variants}
    names = [name for name in contract.generated if name not in varied]
    told = f"{', '.join(names)} held only what {contract.generator} gives, no values that were made on purpose"
    return (told,) if names else ()


def _held(contract: KernelContract, case: Case) -> set[str]:
    sizes = dict(case.dims)
    held = {case.input_class} | {VARIANTS[v].input_class for _, v in case.variants}
    held -= {"I2"}  # a size is at an edge, or it is not
    held |= {LAYOUT_CLASS.get(layout, "I11") for _, layout in case.layouts}
    held |= {"I2"} if any(_ragged(contract, name, value) for name, value in case.dims) else set()
    held |= {"I3"} if 0 in sizes.values() else set()
    held |= {"I4"} if 1 in sizes.values() else set()
    held |= {"I5"} if any(v > 1 and v & (v - 1) for v in sizes.values()) else set()
    held |= {"I7"} if case.padding else set()
    held |= {"I13"} if case.aliased or _inplace(contract) else set()
    held |= {"I14"} if _filled(contract) else set()
    held |= {"I16"} if case.plan == "batch-mates" and sizes.get(contract.batch or "", 0) > 1 else set()
    held |= {"I15", "I17"} if case.plan == "repeat" else {"I15"}
    held |= {"I18"} if case.configuration else set()
    held |= {"I19"} if case.dtypes else set()
    held |= {"I20"}
    held |= {"I22"} if fixes_rounding(contract) else set()
    several = case.plan == "any-order" and _launches(contract, sizes) > 1
    held |= {"I23"} if several or case.plan == "carried-on" else set()
    return held & CLASSES.keys()


def _ragged(contract: KernelContract, name: str, size: int) -> bool:
    """Whether a size ends beside a multiple of a tile, or leaves the last one of several not full."""
    tiles = contract.tiles.get(name, USUAL_TILES)
    return any(size >= tile - 2 and size % tile for tile in tiles)


def _launches(contract: KernelContract, sizes: Mapping[str, int]) -> int:
    return parse_expression(str(contract.launches.count)).value(sizes) if contract.launches is not None else 1


def _inplace(contract: KernelContract) -> bool:
    return any(r is Role.STATE or v.inplace for r, v in contract.values.values())


def fixes_rounding(contract: KernelContract) -> bool:
    """Whether it says where results are rounded in between."""
    if contract.tolerance.policy in ("ulp", "exact"):
        return True
    types = [dtype_of(dtype) for name in judged_arguments(contract) for dtype in contract.values[name][1].dtype]
    return contract.rounding == "as-baseline" and any(is_float(dtype) and dtype.itemsize <= 2 for dtype in types)


def _filled(contract: KernelContract) -> bool:
    """Whether the callable fills buffers that mean nothing before."""
    values = contract.values.items()
    return any(role in (Role.OUTPUT, Role.WORKSPACE) and name not in contract.returns for name, (role, _) in values)


def _mates(contract: KernelContract) -> bool:
    """Whether a row of the batch has neighbours whose values can be replaced."""
    floats = (v for _, v in contract.values.values() if any(is_float(dtype_of(dtype)) for dtype in v.dtype))
    return contract.batch is not None and any(contract.batch in (v.shape or ()) for v in floats)


def _pads(contract: KernelContract) -> bool:
    """Whether some part of something that can hold NaN can be unused."""
    read = (values for role, values in contract.values.values() if role not in FILLED and values.shape)
    return has_padding(contract) and any(
        np.isnan(dtype_of(t).type(np.nan)) for v in read for t in v.dtype if "float" in t
    )


def _masks(contract: KernelContract) -> bool:
    """Whether something can be masked: by minus infinity, or by an array of true and false."""
    return any(
        v.shape and (r not in FILLED) and ("-inf" in v.domain.special or "bool" in v.dtype or _of_bits(v))
        for r, v in contract.values.values()
    )


def _of_bits(values: Values) -> bool:
    return (values.domain.low, values.domain.high) == (0, 1) and any("int" in dtype for dtype in values.dtype)


_REASONS: dict[str, str] = {
    "I1": "no argument's rows lay gigabytes apart (`layouts`: distant, where the device can lay them so)",
    "I17": "no case repeats a call",
    "I22": "the contract leaves open where results are rounded in between (`rounding`, or tolerance `ulp`)",
}

_APPLIES: dict[str, tuple[Callable[[KernelContract], bool], str]] = {
    "I3": (lambda c: any(0 in x.values for x in c.constraints if hasattr(x, "values")), "no dimension may be 0"),
    "I4": (lambda c: any(1 in x.values for x in c.constraints if hasattr(x, "values")), "no dimension may be 1"),
    "I6": (_masks, "no argument may hold minus infinity (`domain.special`), and none is an array of true and false"),
    "I7": (_pads, "no index or length says that anything of an argument that can hold NaN is unused"),
    "I11": (
        lambda c: any(set(layouts_of(v)) - {"offset"} for _, v in c.values.values()),
        "the contract allows contiguous arguments only (`layouts`)",
    ),
    "I12": (
        lambda c: any("offset" in v.layouts for _, v in c.values.values()),
        "the contract does not allow arguments that are not aligned (`layouts`)",
    ),
    "I13": (
        lambda c: _inplace(c) or any(getattr(v, "alias_of", None) for _, v in c.values.values()),
        "nothing is changed in place or aliased",
    ),
    "I14": (_filled, "there is no buffer or workspace that the callable fills"),
    "I16": (_mates, "the contract names no `batch` dimension, or nothing has rows of it"),
    "I19": (
        lambda c: any(v.choices for _, v in c.values.values()),
        "every argument has one element type",
    ),
    "I18": (lambda c: bool(c.configurations), "the contract names nothing that the candidate can choose"),
    "I23": (
        lambda c: c.launches is not None or has_state(c),
        "one launch makes the result and leaves nothing behind (`launches`, role `state`)",
    ),
}


def _row(contract: KernelContract, input_class: str, count: int) -> Row:
    words = CLASSES[input_class]
    test = _APPLIES.get(input_class)
    if test is not None and not test[0](contract):
        return Row(input_class, words, 0, test[1], applies=False)
    return Row(input_class, words, count, "" if count else _REASONS.get(input_class, "no case of this run holds it"))
