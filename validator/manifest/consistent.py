"""Whether a contract hangs together: everything that is wrong with it at once, and what it means without saying so."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from validator.manifest.dims import Constraint, Membership, parse_constraint, parse_expression
from validator.manifest.roles import FILLED, Role
from validator.manifest.values import SHARED_LAYOUTS, Domain, Values

if TYPE_CHECKING:
    from validator.manifest.contract import Argument, ContractField, KernelContract

__all__ = ["bad_callables", "bad_dims", "bad_names", "implied", "with_types"]


def with_types(table: Any) -> Any:
    """A `[[kernels]]` table with the element types of arguments that have another's (`dtype_of`)."""
    args = table.get("args") if isinstance(table, dict) else None
    if not isinstance(args, list | tuple):
        return table
    parts = [part for arg in args if isinstance(arg, dict) for part in (arg, *_listed(arg.get("fields")))]
    types = {part.get("name"): part.get("dtype") for part in parts if "dtype_of" not in part}
    return {**table, "args": [_with_type(arg, types) for arg in args]}


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _listed(fields: object) -> list[dict[str, Any]]:
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list | tuple) else []


def _with_type(part: object, types: Mapping[object, object]) -> object:
    """An argument, and its fields, with the types of the argument that `dtype_of` names, as far as there is one."""
    if not isinstance(part, dict):
        return part
    found = dict(part)
    if isinstance(part.get("dtype_of"), str) and "dtype" not in part and types.get(part["dtype_of"]) is not None:
        found["dtype"] = types[part["dtype_of"]]
    if isinstance(part.get("fields"), list | tuple):
        found["fields"] = [_with_type(field, types) for field in part["fields"]]
    return found


def implied(contract: KernelContract) -> Iterator[str]:
    """What values that hang together mean for sizes."""
    for _, values in contract.values.values():
        yield from _adding_up(values, contract.extent_of(values.domain))
        yield from _differing(values, contract.extent_of(values.domain))


def _adding_up(values: Values, extent: str | None) -> Iterator[str]:
    """So many lengths of at least `low` and at most `high` have to be able to add up to their total."""
    domain, count = values.domain, values.segments
    total, high = domain.sum or extent, domain.high if domain.high is not None else domain.lengths and extent
    if count is not None and total is not None:
        if isinstance(domain.low, str) or (domain.low or 0) > 0:
            yield f"({_whole(domain.low)}) * {count} <= {total}"
        if high is not None:
            yield f"{total} <= ({_whole(high)}) * {count}"


def _differing(values: Values, extent: str | None) -> Iterator[str]:
    """So many different elements need as many positions, or numbers; where there is a sentinel, it is what is left."""
    domain, count = values.domain, values.distinct
    if count is None or domain.sentinel is not None or any("int" not in dtype for dtype in values.dtype):
        return
    if domain.index is not None and extent is not None:
        yield f"{count} <= {extent}"
    elif domain.low is not None and domain.high is not None:
        yield f"{count} <= ({_whole(domain.high)}) - ({_whole(domain.low)}) + 1"


def _whole(end: float | str | None) -> int | str:
    return end if isinstance(end, str) else int(end or 0)


def bad_dims(contract: KernelContract) -> Iterator[str]:
    """Constraints that do not parse, dimensions without a range, production shapes outside the contract."""
    parsed: list[Constraint | Membership] = []
    for text in (*contract.dims, *implied(contract)):
        try:
            parsed.append(parse_constraint(text))
        except ValueError as error:
            yield f"dims: {error}"
    ranged = {c.name for c in parsed if isinstance(c, Membership)}
    used = {name: f"dims `{c.text}`" for c in parsed for name in c.names}
    for arg, (_, values) in contract.values.items():
        used |= dict.fromkeys(values.size_names, f"argument {arg!r}")
    used |= dict.fromkeys(contract.tiles, "tiles")
    used |= dict.fromkeys(contract.split, "split")
    used |= {contract.batch: "batch"} if contract.batch is not None else {}
    if contract.launches is not None:
        used |= dict.fromkeys(parse_expression(str(contract.launches.count)).names, "launches")
    if contract.compiled is not None:
        for text in (t for t in (*(contract.launch.grid or ()), *(contract.launch.block or ())) if isinstance(t, str)):
            try:
                used |= dict.fromkeys(parse_expression(text).names, "launch")
            except ValueError as error:
                yield f"launch: {error}"
    chosen = contract.configurations.keys() & _told_when_launched(contract)
    for name in sorted(used.keys() - ranged - chosen):
        yield f"{used[name]}: dimension {name!r} has no range in `dims`{_nearest(name, ranged)}"
    for index, shape in enumerate(contract.production):
        names = shape.keys() ^ ranged
        if names:
            yield f"production[{index}]: must give exactly {sorted(ranged)}, differs in {sorted(names)}"
        elif not used.keys() - ranged and not contract.split:  # divided first, `validator.manifest.parallel`
            broken = [c.text for c in parsed if not c.holds(shape)]
            if broken:
                yield f"production[{index}]: breaks {', '.join(f'`{b}`' for b in broken)}"


def _told_when_launched(contract: KernelContract) -> set[str]:
    """Names that nothing but a compiled kernel's launch and its by-value parameters use."""
    told = [s for s in (*(contract.launch.grid or ()), *(contract.launch.block or ())) if isinstance(s, str)]
    shapes: set[str] = set()
    for argument in contract.args:
        for part in argument.fields or (argument,):
            if part.model:
                shapes |= part.size_names
            elif isinstance(part.value, str):
                told.append(part.value)
    names: set[str] = set()
    for text in told:
        with suppress(ValueError):
            names |= parse_expression(text).names
    return names - shapes


def bad_names(contract: KernelContract) -> Iterator[str]:
    """References to arguments that do not exist."""
    values = contract.values
    for arg, (_, value) in values.items():
        domain = value.domain
        for key in ("index", "lengths", "slots", "offsets", "ends"):
            text = getattr(domain, key)
            if text is not None:
                target, _, axis = text.rpartition(".")
                if target not in values:
                    yield f"argument {arg!r}: domain.{key} names {target!r}{_nearest(target, values)}"
                elif int(axis) >= len(values[target][1].shape or ()):
                    yield f"argument {arg!r}: domain.{key} is {text!r}, but {target!r} has no axis {axis}"
        if domain.slots is not None and (told := _bad_slots(contract, domain)):
            yield f"argument {arg!r}: {told}"
        if (counted := domain.longest) is not None:
            if counted not in values:
                yield f"argument {arg!r}: domain.longest names {counted!r}{_nearest(counted, values)}"
            elif not values[counted][1].domain.cuts and values[counted][1].domain.lengths is None:
                yield f"argument {arg!r}: domain.longest names {counted!r}, which has no lengths, offsets or ends"
        yield from (f"argument {arg!r}: {told}" for told in _bad_beside(contract, domain))
        if domain.after is not None and any("int" not in dtype for dtype in value.dtype):
            yield f"argument {arg!r}: domain.after is for whole numbers"
        if domain.cuts and not value.shape:
            yield f"argument {arg!r}: {_cutting(domain)} needs a `shape`; its last axis goes from cut to cut"
        if (like := value.dtype_of) is not None:
            if like not in values:
                yield f"argument {arg!r}: dtype_of names {like!r}{_nearest(like, values)}"
            elif values[like][1].dtype_of is not None:
                yield f"argument {arg!r}: dtype_of names {like!r}, which has a `dtype_of` itself; name what that names"
            elif value.dtype != values[like][1].dtype:
                yield f"argument {arg!r}: has a `dtype` and `dtype_of`; leave one of them out"
        yield from (f"argument {arg!r}: {told}" for told in _bad_layouts(contract, arg))
        if (scales := value.domain.scales) is not None and scales not in values:
            yield f"argument {arg!r}: domain.scales names {scales!r}{_nearest(scales, values)}"
    parts: list[Argument | ContractField] = [*contract.args, *(field for arg in contract.args for field in arg.fields)]
    for part in (p for p in parts if p.stride is not None):
        target, _, axis = str(part.stride).rpartition(".")
        if target not in values or not axis.isdecimal() or int(axis) >= len(values[target][1].shape or ()):
            yield f"argument {part.name!r}: stride is {part.stride!r}, expected `argument.axis` of an array"
    for name in sorted(values.keys() & contract.configurations.keys()):
        yield f"configurations: {name!r} is an argument already"
    if (launches := contract.launches) is not None:
        if launches.argument not in values or values[launches.argument][0] is not Role.SCALAR:
            yield f"launches: no by-value argument {launches.argument!r}{_nearest(launches.argument, values)}"
        if contract.returns:
            yield "launches: several launches fill buffers, they cannot return a result (`returns`)"
    yield from _twice(contract)
    yield from _bad_generated(contract)
    for name in contract.returns:
        if name not in values:
            yield f"returns: no argument {name!r}{_nearest(name, values)}"
        elif values[name][0] is not Role.OUTPUT:
            yield f"returns: argument {name!r} is not an output"


def _bad_layouts(contract: KernelContract, name: str) -> Iterator[str]:
    """Layouts in which elements are others too, where each has to be its own."""
    role, values = contract.values[name]
    domain = values.domain
    shared = [layout for layout in values.layouts if layout in SHARED_LAYOUTS]
    if not shared:
        return
    if role in (Role.OUTPUT, Role.STATE, Role.WORKSPACE) or values.inplace:
        yield f"lies {shared[0]}, and the kernel writes it: two results would be one"
    elif domain.speaks_of or domain.probability or domain.sum or domain.unique or domain.sorted or domain.last:
        yield f"lies {shared[0]}, and its domain says more than what each element may be by itself"
    elif name in contract.generates or (contract.generator is not None and not contract.generates):
        yield f"lies {shared[0]}, and {contract.generator} makes it"


def _twice(contract: KernelContract) -> Iterator[str]:
    names = [part.name for arg in contract.args if arg.model for part in (arg.fields or (arg,)) if part.model]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"argument {name!r} stands twice in `args`; callables take each of its own name"


def _cutting(domain: Domain) -> str:
    return "domain.offsets" if domain.offsets is not None else "domain.ends"


def _bad_beside(contract: KernelContract, domain: Domain) -> Iterator[str]:
    """Arguments beside which this one means nothing, because they are not what it takes them for."""
    values = contract.values
    if (cut := domain.last) is not None:
        if cut not in values:
            yield f"domain.last names {cut!r}{_nearest(cut, values)}"
        elif values[cut][1].domain.offsets is None:
            yield f"domain.last names {cut!r}, which has no domain.offsets, such as that of a list of pages"
    if (start := domain.after) is not None:
        if start not in values:
            yield f"domain.after names {start!r}{_nearest(start, values)}"
        elif values[start][0] is not Role.SCALAR or values[start][1].domain.hangs_on is not None:
            yield f"domain.after names {start!r}, expected a number passed by value that hangs on no other"


def _bad_slots(contract: KernelContract, domain: Domain) -> str:
    """Why a length cannot count slots of pages; empty when it can, or when something else is wrong already."""
    said = contract.values[domain.last][1].domain if domain.last in contract.values else domain
    table, _ = said.speaks_of or ("", 0)
    if table not in contract.values or domain.pages is None:
        return ""
    (pages, axis), points_to = domain.pages, contract.values[table][1].domain
    if points_to.index is None or points_to.speaks_of is None:
        return f"domain.slots needs `lengths` of a page table, and {table!r} has no domain.index, such as {pages}.0"
    into, along = points_to.speaks_of
    if into != pages or along == axis:
        return f"domain.slots is {domain.slots!r}, expected another axis of {into!r}, into which {table!r} points"
    return ""


def _bad_generated(contract: KernelContract) -> Iterator[str]:
    """Arrays that no generator can give."""
    values = contract.values
    if contract.generates and contract.generator is None:
        yield "generates: there is no `generator`; name the function of the base tree that returns them"
    for name in contract.generates:
        if name not in values:
            yield f"generates: no argument {name!r}{_nearest(name, values)}"
        elif values[name][0] in FILLED or values[name][1].shape is None:
            yield f"generates: argument {name!r} is no array that the kernel reads"
    for name in dict.fromkeys(n for n in contract.generates if contract.generates.count(n) > 1):
        yield f"generates: {name!r} is named twice"


def bad_callables(contract: KernelContract) -> Iterator[str]:
    """A candidate without what is needed to judge it."""
    if contract.import_root.startswith("/") or ".." in contract.import_root.split("/"):
        yield f"`import_root` {contract.import_root!r} is not a folder inside the tree"
    if not contract.runnable:
        return
    given = next(k for k in ("candidate", "torch", "compiled") if getattr(contract, k) is not None)
    if contract.reference is None:
        yield f"`{given}` needs a `reference` in the base tree"
    if not contract.values:
        yield f"`{given}` needs `args`"
    elif not any(role in (Role.OUTPUT, Role.STATE) or v.inplace for role, v in contract.values.values()):
        yield f"`{given}` gives no result: no argument has role `output` or `state`, or is changed `inplace`"
    for name, (role, value) in contract.values.items():
        if not value.dtype and role is not Role.SCALAR:
            yield f"argument {name!r}: needs `dtype` and `shape`, or `model = false` if the callable does not take it"
        elif not value.dtype and not isinstance(value.value, int | float | str):
            yield f"argument {name!r}: needs `value` or `dtype`"
        elif role is not Role.SCALAR and value.shape is None:
            yield f"argument {name!r}: needs `shape`"
