"""Delays at the synchronisation sites of a kernel's PTX: a fault inside one grid that timing hides is made to show.

Before and after every instruction that orders threads, some warps of some CTAs are held up. Which ones follows from a
seed, so that a run can be replayed; the sites that matter are found by leaving others out. A delayed kernel must
compute what it computes undelayed: the delay touches no register, no memory and no predicate of its own program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

__all__ = ["Delays", "Site", "inject", "minimised", "sites"]

_ORDERING = (
    r"bar(?:rier)?\.(?:warp\.|cta\.|cluster\.)?(?:sync|arrive|wait|red)|mbarrier\.|griddepcontrol\.|cp\.async\.(?:wait|commit|"
    r"bulk\.(?:wait|commit))|cp\.async\.mbarrier|membar|fence|atom\.|red\.|ld\.acquire|ld\.relaxed|st\.release|"
    r"st\.relaxed|ld\.volatile|st\.volatile|wgmma\.(?:wait|fence|commit)|tcgen05\.(?:wait|fence|commit)"
)
_STATEMENT = re.compile(rf"\s*(?:@!?%?[\w$]+\s+)?({_ORDERING})")
_ENTRY = re.compile(r"\s*(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(entry|func)\b(?:\s*\([^)]*\))?\s*([\w$%@.]+)?")
_WITHIN_A_WARP = re.compile(r"\s*(?:@!?%?[\w$]+\s+)?bar(?:rier)?\.warp\.")


@dataclass(frozen=True, slots=True)
class Site:
    """A place between two statements."""

    line: int
    """Of the ordering instruction, from 1."""
    after: bool
    """The place is behind the instruction, not before it."""
    text: str
    """The instruction."""

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Delays:
    """What is held up, where and for how long."""

    seed: int
    nanoseconds: int
    chosen: tuple[int, ...]
    """Indices into `sites`."""


def sites(ptx: str, kernel: str) -> tuple[Site, ...]:
    """Where a kernel can be held up, in text order: whole statements on lines of their own, as compilers print them."""
    found: list[Site] = []
    for number, line in _body(ptx, kernel):
        match = _STATEMENT.match(line)
        if match and not _WITHIN_A_WARP.match(line):
            text = line.split("//")[0].strip().rstrip(";")
            found += [Site(number, False, text), Site(number, True, text)]
    return tuple(found)


def _body(ptx: str, kernel: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of one kernel between its braces; statements that span lines, or share one, are left alone."""
    inside, depth, whole = False, 0, True
    for number, line in enumerate(ptx.splitlines(), 1):
        code = line.split("//")[0]
        if depth == 0 and (entry := _ENTRY.match(code)):
            inside = entry[1] == "entry" and entry[2] == kernel
        if inside and depth and whole and code.rstrip().endswith(";") and code.count(";") == 1:
            yield number, code
        depth += code.count("{") - code.count("}") if _is_brace(code) else 0
        stripped = code.strip()
        whole = not stripped or stripped.endswith((";", ":", "{", "}")) or stripped.startswith(".loc")


def _is_brace(code: str) -> bool:
    """Braces of a block, not those of a vector operand."""
    return code.strip() in ("{", "}") or code.rstrip().endswith("{") or ";" not in code


def inject(ptx: str, kernel: str, delays: Delays) -> str:
    """The PTX with the chosen sites delayed."""
    places = sites(ptx, kernel)
    before: dict[int, list[str]] = {}
    behind: dict[int, list[str]] = {}
    for index in delays.chosen:
        place = places[index]
        (behind if place.after else before).setdefault(place.line, []).append(_delay(index, delays))
    lines = []
    for number, line in enumerate(ptx.splitlines(), 1):
        lines += [*before.get(number, ()), line, *behind.get(number, ())]
    return "\n".join(lines) + "\n"


def _delay(index: int, delays: Delays) -> str:
    """Statements in a scope of their own; warps and CTAs by the bits of two masks."""
    warps, blocks = _masks(delays.seed, index)
    p = f"validator_{index}"
    return f"""{{
.reg .pred %{p}_skip, %{p}_more;
.reg .b32 %{p}_w, %{p}_c;
.reg .b64 %{p}_from, %{p}_now;
mov.u32 %{p}_w, %tid.x;
shr.u32 %{p}_w, %{p}_w, 5;
and.b32 %{p}_w, %{p}_w, 31;
shr.u32 %{p}_w, {warps}, %{p}_w;
mov.u32 %{p}_c, %ctaid.x;
and.b32 %{p}_c, %{p}_c, 31;
shr.u32 %{p}_c, {blocks}, %{p}_c;
and.b32 %{p}_w, %{p}_w, %{p}_c;
and.b32 %{p}_w, %{p}_w, 1;
setp.eq.u32 %{p}_skip, %{p}_w, 0;
@%{p}_skip bra ${p}_on;
mov.u64 %{p}_from, %globaltimer;
${p}_wait:
mov.u64 %{p}_now, %globaltimer;
sub.u64 %{p}_now, %{p}_now, %{p}_from;
setp.lt.u64 %{p}_more, %{p}_now, {delays.nanoseconds};
@%{p}_more bra ${p}_wait;
${p}_on:
}}"""


def _masks(seed: int, index: int) -> tuple[int, int]:
    """Which warps and which CTAs a site holds up: about half of each, never none."""
    raw = blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()
    warps, blocks = (int.from_bytes(part, "little") for part in (raw[:4], raw[4:]))
    # Among the few that a small launch has, at least one is held up and one is not.
    return warps & ~3 | (1 << (warps & 1)), blocks | 1 << (blocks >> 30 & 1)


def minimised(chosen: Sequence[int], fails: Callable[[tuple[int, ...]], bool], tries: int = 64) -> tuple[int, ...]:
    """A subset of the sites that still fails and of which no part can be left out, as far as `tries` runs show.

    Delta debugging: halves first, then ever smaller parts.
    """
    kept, parts = list(chosen), 2
    while len(kept) > 1 and tries > 0:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            tries -= 1
            if rest and fails(tuple(rest)):
                kept, parts = rest, max(parts - 1, 2)
                break
            if tries <= 0:
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(kept))
    return tuple(kept)
