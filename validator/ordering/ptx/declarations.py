"""Declarations: parameters, variables, function headers and performance directives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

from validator.ordering.program import Parameter, Space
from validator.ordering.ptx.lexical import SPACES, TYPE_BITS, integer, split_commas, words

__all__ = ["Formal", "Header", "Variable", "formals_of", "header_of", "parameters_of", "variables_of"]

_NAME = r"[A-Za-z_$%][\w$.]*+"
_FORMAL = re.compile(
    rf"\.(?P<space>param|reg)\s++(?P<attributes>(?:\.\w++(?:\s++\d++)?\s*+)*+)(?P<name>{_NAME})\s*+(?P<extent>(?:\[[^\]]*+\]\s*+)*+)$",
    re.ASCII,
)
_VARIABLE = re.compile(rf"(?P<name>{_NAME})\s*+(?P<extent>(?:\[[^\]]*+\]\s*+)*+)(?P<count><\s*+\d++\s*+>)?", re.ASCII)
_ALIGN = re.compile(r"\.align\s++(\d{1,9})")
_WORD = re.compile(r"\.([\w:]++)")
_EXTENT = re.compile(r"\[([^\]]*+)\]")
_ATTRIBUTE = re.compile(r"\.attribute\s*+\((?:[^()]|\([^()]*+\))*+\)")
_FUNCTION = re.compile(
    r"\s*+(?P<result>\([^)]*+\))?\s*+(?P<name>[A-Za-z_$%][\w$]*+)\s*+(?P<formals>\([^)]*+\))?(?P<directives>[^()]*+)$",
    re.ASCII,
)
_DIRECTIVE = re.compile(r"\.(\w++)\s*+((?:\d\w*+\s*+,?\s*+)*+)(?:\"[^\"]*+\"\s*+;?)?")

_FLAGS = words(
    """
    maxntid reqntid minnctapersm maxnctapersm maxnreg noreturn pragma reqnctapercluster explicitcluster
    maxclusterrank blocksareclusters unique abi_preserve abi_preserve_control local_maxnreg language
    """
)


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal parameter or result of a kernel or a function."""

    name: str
    space: str
    """`param` or `reg`."""
    type: str
    """As declared: `u64`, or `b8[40]` for an array."""
    size: int
    """Bytes."""
    align: int
    """Bytes."""
    pointer: bool | None
    """True with `.ptr`; False for types no address fits in; else None."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable outside the register space."""

    name: str
    space: Space
    size: int | None
    """Bytes; None for an open array such as dynamic shared memory."""
    align: int = 1
    """As declared, at least the element's own."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the body of a `.entry` or a `.func`."""

    name: str
    results: tuple[Formal, ...]
    formals: tuple[Formal, ...]
    block_size: tuple[int, int, int] | None = None
    """.reqntid"""
    max_block_size: int | None = None
    """Product of .maxntid or .reqntid."""
    noreturn: bool = False
    unknown: tuple[str, ...] = ()
    """Directives that are not in the PTX ISA this reader knows."""
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Performance directive → its numbers, e.g. `reqnctapercluster` → (2, 1, 1)."""


def _elements(extent: str) -> int | None:
    """Number of elements of `[4][8]`; 1 without brackets, None when open or not a literal."""
    sizes = [integer(size.strip()) for size in _EXTENT.findall(extent)]
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None


def _bits(kinds: list[str]) -> int:
    """Bits of one element of the declared type."""
    lanes = next((int(w[1:]) for w in kinds if w in ("v2", "v4", "v8")), 1)
    return lanes * next((TYPE_BITS[w] for w in kinds if w in TYPE_BITS), 32)


def _formal(text: str) -> Formal | None:
    match = _FORMAL.match(text.strip())
    if match is None:
        return None
    attributes = match["attributes"]
    kinds = _WORD.findall(attributes)
    kind = next((word for word in kinds if word in TYPE_BITS), "b32")
    element = max(1, _bits(kinds) // 8)
    count = _elements(match["extent"])
    # `.ptr .align n` speaks of the memory behind the pointer, not of the parameter.
    own, dot, _ = attributes.partition(".ptr")
    align = _ALIGN.search(own)
    array = bool(match["extent"])
    pointer = True if dot else None if array or element == 8 else False
    return Formal(
        name=match["name"],
        space=match["space"],
        type=f"{kind}[{'' if count is None else count}]" if array else kind,
        size=element * (count or 0),
        align=max(1, int(align[1]) if align else element),
        pointer=pointer,
    )


def formals_of(text: str) -> tuple[Formal, ...] | None:
    """Formals between the parentheses of a header (comments removed); None when one cannot be read."""
    inner = text.strip().strip("()").strip()
    if not inner:
        return ()
    formals = [_formal(part) for part in inner.split(",")]
    known = tuple(formal for formal in formals if formal is not None)
    return known if len(known) == len(formals) else None


def parameters_of(formals: tuple[Formal, ...]) -> tuple[Parameter, ...]:
    """Kernel parameters laid out as the driver lays them out: in order, each at its natural or declared alignment."""
    offset = 0
    parameters = []
    for index, formal in enumerate(formals):
        offset = -(-offset // formal.align) * formal.align
        parameters.append(Parameter(index, offset, formal.size, formal.name, formal.type, formal.pointer))
        offset += formal.size
    return tuple(parameters)


def _three(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return x, y, z


def header_of(text: str) -> Header | None:
    """Header behind the word `.entry` or `.func` (comments removed); None when it is not one."""
    match = _FUNCTION.match(_ATTRIBUTE.sub(" ", text))
    if match is None:
        return None
    results = formals_of(match["result"] or "")
    formals = formals_of(match["formals"] or "")
    if results is None or formals is None:
        return None
    directives: dict[str, tuple[int, ...]] = {}
    for word, numbers in _DIRECTIVE.findall(match["directives"]):
        values = (integer(number) for number in re.findall(r"\w+", numbers))
        directives[word] = tuple(value for value in values if value is not None)
    if _DIRECTIVE.sub("", match["directives"]).strip():
        return None
    required, maximum = directives.get("reqntid"), directives.get("maxntid")
    limit = required or maximum
    return Header(
        name=match["name"],
        results=results,
        formals=formals,
        block_size=_three(required) if required else None,
        max_block_size=prod(limit) if limit else None,
        noreturn="noreturn" in directives,
        unknown=tuple(sorted("." + word for word in directives if word not in _FLAGS)),
        directives=directives,
    )


def variables_of(text: str) -> tuple[Variable, ...]:
    """Variables of a `.shared`, `.global`, `.const`, `.local` or `.param` declaration without its semicolon."""
    head = _ATTRIBUTE.sub(" ", text).strip()
    kinds: list[str] = []
    while (match := re.match(r"\s*+\.([\w:]++)(?:\s++(\d++)(?=\s))?", head)) is not None:
        kinds.append(match[1])
        head = head[match.end() :]
    space = next((SPACES[word] for word in kinds if word in SPACES), Space.GLOBAL)
    element = max(1, _bits(kinds) // 8)
    said = _ALIGN.search(text)
    align = max(1, int(said[1]) if said else element)
    found = []
    for part in split_commas(head):
        declared = _VARIABLE.match(part.partition("=")[0].strip())
        if declared is None:
            continue
        extent, count = declared["extent"], declared["count"]
        total = _elements(extent)
        if not count:
            found.append(Variable(declared["name"], space, None if total is None else element * total, align))
            continue
        numbers = range(min(int(count.strip("<> \t")), 4096))
        size = None if total is None else element * total
        found.extend(Variable(f"{declared['name']}{number}", space, size, align) for number in numbers)
    return tuple(found)
