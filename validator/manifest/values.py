"""What values an argument may hold, and how its memory may lie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from validator.manifest.dims import parse_expression

__all__ = [
    "DTYPES",
    "SHARED_LAYOUTS",
    "Callable_",
    "DType",
    "Domain",
    "Layout",
    "Model",
    "Values",
    "as_list",
    "as_tuple",
    "raise_all",
]


class Model(BaseModel):
    """Part of a contract: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def raise_all(wrong: list[str]) -> None:
    """All problems at once."""
    if wrong:
        raise ValueError("; ".join(wrong))


def as_tuple(value: object) -> object:
    """One name where several are allowed."""
    return (value,) if isinstance(value, str) else value


def as_list(value: object) -> object:
    """One number where several are allowed."""
    return (value,) if isinstance(value, int) else value


def module_function(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ValueError(f"{text!r} is not `module:function`")
    return text


DType = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn",
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "int4", "uint4", "bool",
]  # fmt: skip
"""Element types by their numpy or ml_dtypes name."""
_DTYPE_ALIASES = {
    "double": "float64", "float": "float32", "half": "float16", "fp64": "float64", "fp32": "float32",
    "fp16": "float16", "bf16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "e4m3": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn", "fp8e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "fp8_e5m2": "float8_e5m2",
    "fp8e5m2": "float8_e5m2", "fp4": "float4_e2m1fn", "e2m1": "float4_e2m1fn", "bool_": "bool",
}  # fmt: skip
DTYPES: tuple[str, ...] = DType.__args__  # type: ignore[attr-defined]

Layout = Literal["contiguous", "strided", "transposed", "sliced", "offset", "distant", "expanded", "overlapping"]
"""How an array may lie in memory: `strided` has gaps between rows (a vector: between elements), `transposed` swaps its
last two axes in memory, `sliced` is the middle of a larger array, `offset` starts one element after an aligned address,
`distant` has so much between two positions along its first axis that offsets leave 32 bits (on a GPU; elsewhere it is
contiguous). Of what is only read: `expanded` is one position for all along its first axis (a stride of 0),
`overlapping` has rows that begin half way in the one before, as windows do."""
SHARED_LAYOUTS: tuple[Layout, ...] = ("expanded", "overlapping")
"""Some elements are others, too."""

Callable_ = Annotated[str, BeforeValidator(lambda v: module_function(v) if isinstance(v, str) else v)]
"""`module:function`, importable from `import_root`."""


def _dtypes(value: object) -> object:
    names = as_tuple(value)
    return tuple(_DTYPE_ALIASES.get(n, n) for n in names) if isinstance(names, list | tuple) else names


def _axis(text: str | None) -> tuple[str, int] | None:
    target, _, axis = (text or "").rpartition(".")
    return (target, int(axis)) if text is not None else None


_SPEAKING = ("index", "lengths", "offsets", "ends")
"""Keys that say of an argument what it means for an axis of another."""
_HANGING = ("longest", "after")
"""Keys that say on which other argument a number hangs."""


class Domain(Model):
    """What values an argument may hold. Everything that is absent is unrestricted."""

    low: float | str | None = None
    high: float | str | None = None
    """Inclusive bounds of every element: numbers, or expressions of dimensions (`V - 1` for labels of V classes)."""
    values: tuple[float, ...] = ()
    """The only values there are."""
    index: str | None = None
    """`argument.axis`: every element is a valid position along that axis of that argument."""
    sentinel: int | None = None
    """The element that means "no entry" in an index (-1 in slot tables), or beside bounds (-100 among labels)."""
    lengths: str | None = None
    """`argument.axis`: element i is how much of that axis is in use in row i; the rest is padding."""
    slots: str | None = None
    """Beside `lengths` of a table of pages, an index: `argument.axis` along which the slots of a page lie. The length
    counts slots; the rest of the last page and the entries of the table behind it are unused."""
    offsets: str | None = None
    """`argument.axis`: ascending along the last axis, from 0 to that axis' size; elements i and i + 1 are where segment
    i begins and ends (`cu_seqlens`, `indptr`). `low` and `high` bound the segments' lengths."""
    ends: str | None = None
    """The same without the first 0: element i is where segment i ends (`offs` of a grouped product)."""
    sum: str | None = None
    """The elements add up to this expression of dimensions (`sum(lengths) == T`). Of `offsets` and `ends` the segments'
    lengths do: the axis is unused from there on."""
    longest: str | None = None
    """Of a number: it is at least the longest of the lengths, or segments, that this argument says (`max_seqlen`), and
    at most `high`, or the size of the axis that they are lengths of."""
    last: str | None = None
    """Of whole numbers: the argument whose `offsets` cut a list of pages into segments. Element i is how many slots of
    the last page of segment i are in use (`last_page_len`), at least one; `slots` says along which axis they lie."""
    after: str | None = None
    """Of a number: it is that by-value argument and as much more as `low` and `high` say (`end` of what begins at
    `start`); without them it is the same."""
    unique: bool | Literal["rows"] = False
    """No element twice: in the whole array, or in each row along the last axis (the experts that a token goes to)."""
    sorted: bool = False
    """Ascending along the last axis."""
    probability: bool = False
    """Non-negative, every row along the last axis adds up to 1."""
    scales: str | None = None
    """Name of the argument that holds this quantised argument's scales."""
    special: Annotated[tuple[Literal["nan", "inf", "-inf"], ...], BeforeValidator(as_tuple)] = ()
    """Special values that callers may pass and that must propagate as the reference does."""

    some: Literal["rows"] | None = None
    """In no row along the last axis is everything hidden: minus infinity throughout (beside `special`), or false. A
    caller whose masks leave something says so."""

    @model_validator(mode="after")
    def _consistent(self) -> Domain:
        wrong = []
        low, high = self.fixed
        if low is not None and high is not None and low > high:
            wrong.append(f"`low` {self.low} is above `high` {self.high}")
        exclusive = [k for k in (*_SPEAKING, *_HANGING, "last", "probability", "values") if getattr(self, k)]
        if len(exclusive) > 1:
            wrong.append(f"{' and '.join(f'`{k}`' for k in exclusive)} exclude one another")
        for key in (*_SPEAKING, "slots"):
            text = getattr(self, key)
            if text is not None and not re.fullmatch(r"[A-Za-z_][\w.]*\.\d+", text):
                wrong.append(f"`{key}` is {text!r}, expected `argument.axis` such as `state.0`")
        if self.slots is not None and self.lengths is None and self.last is None:
            wrong.append(
                "`slots` needs `lengths`: the axis of the page table that has an entry for each page; or `last`"
            )
        if self.last is not None and self.slots is None:
            wrong.append("`last` needs `slots`: the axis along which the slots of a page lie")
        if self.cuts and self.unique:
            wrong.append("`offsets` and `ends` are not `unique`; with `low = 1` no segment is empty")
        if self.sentinel is not None and self.index is None and (self.low is None or self.high is None):
            wrong.append("`sentinel` needs `index`, or `low` and `high`")
        raise_all(wrong)
        return self

    @property
    def speaks_of(self) -> tuple[str, int] | None:
        """(argument, axis) of which the elements are positions, lengths or cuts."""
        return _axis(self.index or self.lengths or self.offsets or self.ends)

    @property
    def hangs_on(self) -> str | None:
        """The argument without which nobody knows what a number may be."""
        return self.longest if self.longest is not None else self.after

    @property
    def pages(self) -> tuple[str, int] | None:
        """(argument, axis) along which the slots of a page lie."""
        return _axis(self.slots)

    @property
    def cuts(self) -> bool:
        """Whether they cut an axis into segments, one after the other."""
        return self.offsets is not None or self.ends is not None

    @property
    def fixed(self) -> tuple[float | None, float | None]:
        """`low` and `high` where they are numbers."""
        low, high = (None if isinstance(end, str) else end for end in (self.low, self.high))
        return low, high

    def at(self, dims: Mapping[str, int]) -> Domain:
        """The same with its bounds as numbers."""
        ends = {"low": self.low, "high": self.high}
        known = {k: float(parse_expression(end).value(dims)) for k, end in ends.items() if isinstance(end, str)}
        return self.model_copy(update=known) if known else self


class Values(Model):
    """Shape, element type and values, for the differential tests; shared by arguments and struct fields."""

    dtype: Annotated[tuple[DType, ...], BeforeValidator(_dtypes)] = ()
    """One or several element types; several mean that each is supported."""
    dtype_of: str | None = None
    """Instead of `dtype`: the argument whose element type this one always has (an output as wide as its input)."""
    shape: tuple[int | str, ...] | None = None
    """Sizes, outermost first; a string is an expression of dimensions. None: by value, or not described."""
    domain: Domain = Domain()
    layouts: Annotated[tuple[Layout, ...], BeforeValidator(as_tuple)] = ("contiguous",)
    """Layouts that callers may pass."""
    inplace: bool = False
    """The kernel may change it although its role is not written by the kernel."""
    value: int | float | str | None = None
    """A by-value argument's value: a number or an expression of dimensions. None: drawn from the domain."""
    model: bool = True
    """False: the CPU callable does not take this parameter (a descriptor, a stride, a semaphore)."""
    stride: str | None = None
    """`argument.axis`: a by-value argument that tells the kernel how many elements lie between two positions there."""
    empty: Annotated[int, Field(ge=0, lt=1 << 32)] | None = None
    """Of a mailbox: the 32-bit word that says "nothing here yet" (-0.0 is 0x80000000)."""

    @model_validator(mode="after")
    def _sizes_parse(self) -> Values:
        wrong = []
        d = self.domain
        texts = [*(self.shape or ()), *(text for text in (d.sum, d.low, d.high) if isinstance(text, str))]
        texts += [self.value] if isinstance(self.value, str) else []
        for text in texts:
            try:
                parse_expression(text)
            except ValueError as error:
                wrong.append(str(error))
        is_mask = set(self.dtype) == {"bool"} or d.fixed == (0, 1)
        if d.some is not None and not (is_mask or "-inf" in d.special):
            wrong.append('`some` needs `special = ["-inf"]`, or a mask: `dtype = "bool"`, or `low = 0, high = 1`')
        raise_all(wrong)
        return self

    @property
    def choices(self) -> tuple[DType, ...]:
        """Element types of which a case picks one; none where there is one only, or another argument's is meant."""
        return self.dtype if len(self.dtype) > 1 and self.dtype_of is None else ()

    @property
    def distinct(self) -> str | None:
        """How many elements differ from one another, as an expression; None: they need not."""
        sizes = [f"({size})" for size in self.shape or ()] or ["1"]
        unique = self.domain.unique
        return None if not unique else sizes[-1] if unique == "rows" else " * ".join(sizes)

    @property
    def segments(self) -> str | None:
        """How many lengths add up to what `sum` or the axis says, as an expression; None: nothing adds up."""
        sizes = [f"({size})" for size in self.shape or ()]
        if self.domain.cuts:
            return f"max({(sizes or ['1'])[-1]} - {int(self.domain.offsets is not None)}, 0)"
        return (" * ".join(sizes) or "1") if self.domain.sum is not None else None

    @property
    def size_names(self) -> frozenset[str]:
        """Dimensions that the shape, the value, the sum or the bounds use."""
        d = self.domain
        texts = [s for s in (*(self.shape or ()), d.sum, d.low, d.high, self.value) if isinstance(s, str)]
        return frozenset().union(*(parse_expression(t).names for t in texts))
