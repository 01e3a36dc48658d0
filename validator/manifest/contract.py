"""Contract: what a kernel's arguments are, as its author declares it.

One declaration drives the ordering audit, the input generator, the checks around a run and the summary. A contract is
untrusted (it comes with the change) and is checked wherever something can contradict it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from validator.manifest.consistent import bad_callables, bad_dims, bad_names, implied, with_types
from validator.manifest.dims import Constraint, Membership, parse_constraint, parse_expression
from validator.manifest.roles import FILLED, Role
from validator.manifest.values import (
    DTYPES,
    Callable_,
    Domain,
    DType,
    Layout,
    Model,
    Values,
    as_list,
    as_tuple,
    raise_all,
)

__all__ = [
    "DTYPES",
    "FILLED",
    "Argument",
    "Compiled",
    "ContractField",
    "DType",
    "Domain",
    "KernelContract",
    "Launch",
    "Launches",
    "Layout",
    "Role",
    "Step",
    "StepLaunch",
    "Tolerance",
    "Values",
]


_LISTED = 4096
"""Sizes that are put into an expression one by one."""


class ContractField(Values):
    """A pointer inside a struct that is passed by value."""

    offset: Annotated[int, Field(ge=0)]
    """Byte offset inside the parameter."""
    name: str
    role: Role
    justification: str | None = None
    points_to: Role | None = None
    guarded_by: str | None = None
    alias_of: str | None = None
    scope: Literal["gpu", "sys"] | None = None


class Argument(Values):
    """One kernel parameter, in order."""

    name: str
    role: Role | None = None
    """None: undeclared, or a struct whose `fields` carry the roles."""
    fields: tuple[ContractField, ...] = ()
    justification: str | None = None
    """Why a `stable` argument is stable; shown to the reviewer as an assumption, its absence too."""
    points_to: Role | None = None
    """Role of what the pointers *in* this pointer table point to."""
    guarded_by: str | None = None
    """Name of the flag argument that publishes this one."""
    alias_of: str | None = None
    """Name of the argument whose memory this one shares."""
    via: Literal["tensormap"] | None = None
    """`tensormap`: the parameter is a TMA descriptor (`__grid_constant__`), its memory is what the descriptor maps."""
    box: tuple[int, ...] | None = None
    """Of a descriptor: the sizes of one copy, outermost first like `shape`."""
    swizzle: Literal[0, 32, 64, 128] = 0
    """Of a descriptor: bytes of its swizzle pattern in shared memory."""
    scope: Literal["gpu", "sys"] | None = None
    """For a flag: how far away its writer may be."""

    @property
    def unjustified(self) -> tuple[str, ...]:
        """Names of what is declared `stable` here with no reason given; a manifest may not do that."""
        parts: tuple[Argument | ContractField, ...] = (self, *self.fields)
        return tuple(p.name for p in parts if p.role is Role.STABLE and not p.justification)


class Launch(Model):
    """How the kernel is launched, as far as the author says. Absent keys are unknown, not false."""

    pdl: bool | None = None
    """With the programmatic stream serialization attribute."""
    grid: tuple[int | str, ...] | None = None
    block: tuple[int | str, ...] | None = None
    cluster: tuple[int, ...] | None = None
    shared: int | None = None
    """Dynamic shared memory, bytes."""


class Tolerance(Model):
    """How results are compared. What a change asks for here is shown to the reviewer; a policy may cap it."""

    policy: Literal["relative-to-baseline", "absolute", "ulp", "exact", "property"] = "relative-to-baseline"
    rms_ratio: Annotated[float, Field(gt=0, le=64)] = 2.0
    """relative-to-baseline: RMS error over what an honest implementation may be off by, both against float64."""
    max_ratio: Annotated[float, Field(gt=0, le=256)] = 4.0
    """The same for single elements."""
    atol: Annotated[float, Field(ge=0)] = 0.0
    rtol: Annotated[float, Field(ge=0)] = 0.0
    """absolute: |candidate - reference| <= atol + rtol * |reference|, element by element."""
    ulp: Annotated[int, Field(ge=0)] = 0
    """ulp: distance in units of the output's last place."""
    checker: Callable_ | None = None
    """property: `module:function` of the base revision, called with the case's inputs and the candidate's results."""

    @model_validator(mode="after")
    def _complete(self) -> Tolerance:
        if self.policy == "property" and self.checker is None:
            raise ValueError("policy 'property' needs `checker`")
        if self.policy == "absolute" and not (self.atol or self.rtol):
            raise ValueError("policy 'absolute' needs `atol` or `rtol`; use 'exact' for equality")
        return self


class Compiled(Model):
    """`compiled`: the kernel itself, for devices that run PTX or machine code. `launch` says how it is launched."""

    artifact: str
    """Path from the repository's root in the head tree: a `.ptx`, or a `.cubin` where the device is a GPU."""
    kernel: str
    """Its name there, mangled where it is, or a glob that means it alone."""

    @model_validator(mode="after")
    def _inside(self) -> Compiled:
        if self.artifact.startswith("/") or {"", ".", ".."} & set(self.artifact.split("/")):
            raise ValueError(f"`artifact` {self.artifact!r} is not a path inside the tree")
        if not re.fullmatch(r"[\w$.@?*]+", self.kernel):
            raise ValueError(f"`kernel` {self.kernel!r} is not a name of a compiled kernel")
        return self


class Launches(Model):
    """`launches`: one result out of several launches, or ranks, on the same buffers, in whatever order they come."""

    argument: str
    """By-value argument that tells which one it is: 0, 1, …"""
    count: int | str
    """How many there are: a number, or an expression of dimensions."""

    @model_validator(mode="after")
    def _parses(self) -> Launches:
        parse_expression(str(self.count))
        return self


class KernelContract(Model):
    """One `[[kernels]]` table."""

    match: str
    """Glob over the mangled or the demangled name."""
    launch: Launch = Launch()
    args: Annotated[tuple[Argument, ...], Field(max_length=1024)] = ()

    dims: Annotated[tuple[str, ...], Field(max_length=128), BeforeValidator(as_tuple)] = ()
    """Ranges and constraints of the symbolic dimensions: `T in 0..512`, `H % 128 == 0`."""
    candidate: Callable_ | None = None
    """The CPU callable of the new path, `module:function` in the head tree, on numpy arrays."""
    torch: Callable_ | None = None
    """The new path as it is called, `module:function` in the head tree, on torch tensors (CPU or CUDA)."""
    compiled: Compiled | None = None
    """The compiled kernel of the new path: takes every parameter, those with `model = false` too."""
    devices: Annotated[tuple[Literal["cpu", "ptx", "cuda"], ...], BeforeValidator(as_tuple)] = ()
    """Where `check` shall run it: a CPU callable, the compiled PTX on a CPU, a GPU. Empty: a CPU, if anything."""
    reference: Callable_ | None = None
    """What it must compute, `module:function` in the base tree; also given float64 inputs."""
    baseline: Callable_ | None = None
    """The trusted implementation whose error is the yardstick; None: the reference at the arguments' own types."""
    trusted: Literal["numpy", "torch"] = "numpy"
    """What `reference` and `baseline` take: numpy arrays, or torch's CPU tensors."""
    essential: Annotated[tuple[Callable_, ...], BeforeValidator(as_tuple)] = ()
    """Functions of the new path that do its work, `module:function` in the head tree: where one of them does nothing,
    the result must be wrong. Shows that they, and not something else, made it."""
    generator: Callable_ | None = None
    """Escape hatch: a function of the base tree that makes arrays. It gets a seed, then the sizes in the order of
    `dims`, and returns those that `generates` names."""
    generates: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """What the generator returns, in this order: these hold what it gives in every case, and are filled in no other
    way. Empty: every array that the kernel reads, in the order of `args`; those of floats that nothing but `low` and
    `high` restricts are then also filled in all the ways that there are."""
    import_root: str = "."
    """Folder in the tree from which candidate and reference import."""
    returns: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Arguments that the callables return, in this order, instead of taking a buffer to fill."""
    batch: str | None = None
    """Dimension along which rows are independent of one another."""
    compute_dtype: Literal["float64", "float32", "float16", "bfloat16"] = "float32"
    """Precision in which the kernel promises to accumulate."""
    tolerance: Tolerance = Tolerance()
    tiles: dict[str, Annotated[tuple[int, ...], BeforeValidator(as_list)]] = Field(default_factory=dict)
    """Tile sizes by dimension: sizes around their multiples are always tested."""
    production: Annotated[tuple[dict[str, int], ...], Field(max_length=1024)] = ()
    """Dimensions as they occur in use; always tested. Where there is a `split`, those of the whole model."""
    production_of: tuple[str, ...] = ()
    """What each of them is of, as `tp8`: filled in from `split`."""
    split: dict[str, Annotated[tuple[Literal["tp", "ep", "pp", "dp", "cp", "sp"], ...], BeforeValidator(as_tuple)]] = (
        Field(default_factory=dict)
    )
    """Dimensions that are divided among devices, and by what: `H = "tp"`, `E = ["tp", "ep"]`."""
    parallelism: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Of the ways in scope, as `tp8`, those under which the kernel runs; empty: all."""
    deterministic: Literal["bitwise", "across-batch", "spread"] = "bitwise"
    """Same bytes on every repeat; also whatever else is in the batch; or only within the tolerance."""
    rounding: Literal["free", "as-baseline"] = "free"
    """`as-baseline`: a 16-bit or narrower result rounds wherever the trusted implementation does in between."""
    configurations: dict[str, Annotated[tuple[int, ...], Field(min_length=1), BeforeValidator(as_list)]] = Field(
        default_factory=dict
    )
    """What the candidate can choose (a tile, a split, a path), by name: it takes these numbers after the arguments, in
    this order, and must be right with each; the reference knows nothing of them. A compiled kernel takes them where
    `launch` or the `value` of a parameter names them."""
    launches: Launches | None = None
    """The callables are called several times for one result."""
    nan_propagates: bool = True
    """False: what comes out where the reference gives NaN is not promised."""

    @model_validator(mode="before")
    @classmethod
    def _same_types(cls, table: Any) -> Any:
        """The element types of arguments that have another's."""
        return with_types(table)

    @model_validator(mode="after")
    def _consistent(self) -> KernelContract:
        wrong = [*bad_dims(self), *bad_names(self), *bad_callables(self)]
        raise_all(wrong)
        return self

    @cached_property
    def constraints(self) -> tuple[Constraint | Membership, ...]:
        """`dims`, parsed, and what bounds of lengths that add up mean for them."""
        return tuple(parse_constraint(text) for text in (*self.dims, *implied(self)))

    def extremes(self, expression: str) -> tuple[int, int] | None:
        """(least, greatest) value of an expression of one dimension whose sizes are listed; None of any other."""
        parsed = parse_expression(expression)
        listed = [c for c in self.constraints if isinstance(c, Membership) and c.names == parsed.names]
        if not listed or len(listed[0].values) > _LISTED:
            return None
        name = listed[0].name
        try:
            found = [parsed.value({name: size}) for size in listed[0].values]
        except ArithmeticError:
            return None
        return min(found), max(found)

    @cached_property
    def values(self) -> dict[str, tuple[Role | None, Values]]:
        """What the CPU callable sees, in order: name → role and description; struct fields by their own name."""
        flat: dict[str, tuple[Role | None, Values]] = {}
        for arg in self.args:
            if arg.model:
                parts: tuple[Argument | ContractField, ...] = arg.fields or (arg,)
                flat.update({part.name: (part.role, part) for part in parts if part.model})
        return flat

    def extent_of(self, domain: Domain) -> str | None:
        """How many positions there are on the axis that a domain speaks of, or slots on its pages, as an expression."""
        axes = [axis for axis in (domain.speaks_of, domain.pages) if axis is not None]
        shapes = {name: self.values[name][1].shape or () for name, _ in axes if name in self.values}
        sizes = [str(shapes[name][axis]) for name, axis in axes if axis < len(shapes.get(name, ()))]
        if not sizes or len(sizes) < len(axes):
            return None
        return sizes[0] if len(sizes) == 1 else " * ".join(f"({size})" for size in sizes)

    @cached_property
    def generated(self) -> tuple[str, ...]:
        """Arrays that the generator returns, in its order."""
        if self.generator is None:
            return ()
        read = (n for n, (role, v) in self.values.items() if v.shape is not None and role not in FILLED)
        return self.generates or tuple(read)

    @property
    def runnable(self) -> bool:
        """Something of the new path can be run."""
        return any(way is not None for way in (self.candidate, self.torch, self.compiled))

    @cached_property
    def as_compiled(self) -> KernelContract:
        """The same contract as the compiled kernel sees it: every parameter, and nothing is returned."""
        return self._with(lambda part: {"model": True}, returns=())

    @cached_property
    def without_distance(self) -> KernelContract:
        """The same contract where no rows can be made to lie far apart."""
        return self._with(
            lambda part: (
                {"layouts": tuple(name for name in part.layouts if name != "distant")}
                if "distant" in part.layouts
                else {}
            )
        )

    def _with(self, change: Callable[[Values], dict[str, object]], **keys: object) -> KernelContract:
        """The contract with these keys, and a change of every argument and every field."""
        args = tuple(
            a.model_copy(update={**change(a), "fields": tuple(f.model_copy(update=change(f)) for f in a.fields)})
            for a in self.args
        )
        known = {name: getattr(self, name) for name in type(self).model_fields}  # a copy would keep what is cached
        return type(self).model_construct(**{**known, "args": args, **keys})

    def matches(self, *names: str) -> bool:
        """Whether any of the names (mangled, demangled) is meant by this table."""
        return any(fnmatch.fnmatchcase(name, self.match) for name in names)


class StepLaunch(Model):
    """One launch of a step: which kernel, and which buffer each argument is."""

    kernel: str
    """Glob over kernel names."""
    args: dict[str, str] = Field(default_factory=dict)
    """Argument (or `argument.field`) name → buffer name of the step."""
    pdl: bool | None = None
    """Overrides the kernel's `launch.pdl` for this launch."""


class Step(Model):
    """The order of launches of one step on one stream (`ordering`: which earlier launches may still be running)."""

    name: str
    launches: tuple[StepLaunch, ...]
    run: Callable_ | None = None
    """What makes this step, `module:function` of the head tree without arguments, called once a step: a check records
    which memory the kernels' `torch` callables are given there, and whether `weight` and `stable` arguments change."""
