"""Kernels of CUDA C++, found in its text: `__global__`, or a macro that stands for it, up to the end of the body."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from validator.change.kernels import HEADER_SUFFIXES
from validator.change.written.definition import Definition, Maker

__all__ = ["definitions", "is_header", "live", "markers", "used"]

_SPLICED = re.compile(rb"^(?:[^\n]*\\\r?\n)+[^\n]*", re.M)
_NOT_CODE = re.compile(
    rb'R"([^()\\\s"]{0,16})\('
    rb'|"(?:\\.|[^"\\\n])*(?:"|$)'
    rb"|(?<!\w)(?:u8|[uUL])?'(?:\\.|[^'\\\n]){1,8}'"
    rb"|^[ \t]*\#[ \t]*(?:include|define|error|warning|pragma)\b[^\n]*"
    rb"|//[^\n]*|/\*(?:.*?\*/|.*\Z)",
    re.S | re.M,
)
"""Literals, directives and comments; of a raw string the beginning."""
_CONDITION = re.compile(rb"^[ \t]*\#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b([^\n]*)", re.M)
_MACRO = re.compile(rb"^[ \t]*\#[ \t]*define[ \t]+(\w+)[ \t]+[^\n]*\b__global__\b", re.M)
_MARKERS = (rb"__global__", rb"CUTLASS_GLOBAL", rb"__attribute__\s*\(\(\s*(?:__)?global(?:__)?\s*\)\)")
_STEP = re.compile(rb"(?<!\w)(\w+)\s*(?:<(?:[^;{}()<>]|<(?:[^;{}()<>]|<[^;{}()<>]{0,64}>){0,64}>){0,200}>)?\s*\(|[(;{]")
_ATTRIBUTE = re.compile(rb"__\w+__|alignas|decltype|noexcept|requires|explicit")
_PARENTHESES = re.compile(rb"[()]")
_BRACES = re.compile(rb"[{}]")
_TEMPLATE = re.compile(rb"\btemplate\s*<\s*[^>\s]")
_STRING = re.compile(rb'"(?:\\.|[^"\\\n])*(?:"|$)', re.M)
_WORD = re.compile(rb"\w+")
_HEAD = 8192
"""Bytes of a kernel's head, attributes and parameters, that are looked at."""


def is_header(path: str) -> bool:
    return path.lower().endswith(HEADER_SUFFIXES)


def live(data: bytes) -> bytes:
    """The text without comments, directives and what `#if 0` leaves out, every line where it was.

    Strings stay: what is in them may be compiled at run time. Macros that stand for `__global__` stay as well.
    """
    spliced = data
    if b"\\\n" in data or b"\\\r\n" in data:
        spliced = _SPLICED.sub(lambda m: re.sub(rb"\\\r?\n", b"", m[0]) + b"\n" * m[0].count(b"\n"), data)
    return _without_dead(_NOT_CODE.sub(_kept, spliced))


def _kept(found: re.Match[bytes]) -> bytes:
    text = found[0]
    if text.startswith((b'"', b'R"')) or _MACRO.match(text):
        return text
    return (
        b"''" if text.endswith(b"'") and not text.startswith((b"/", b" ", b"\t", b"#")) else b"\n" * text.count(b"\n")
    )


def _without_dead(text: bytes) -> bytes:
    """Without what stands between `#if 0` and the next branch or end of it."""
    if re.search(rb"^[ \t]*\#[ \t]*if[ \t]+(?:0|false)\b", text, re.M) is None:
        return text
    parts, start, dead_at, depth = [], 0, 0, 0
    for found in _CONDITION.finditer(text):
        kind, rest = found[1], found[2].strip()
        if not dead_at:
            depth += {b"endif": -1}.get(kind, 1 if kind.startswith(b"if") else 0)
            if kind == b"if" and rest in (b"0", b"false"):
                parts.append(text[start : found.start()])
                dead_at, start = depth, found.start()
            continue
        if kind.startswith(b"if"):
            depth += 1
        elif depth == dead_at:
            parts.append(b"\n" * text.count(b"\n", start, found.end()))
            start, dead_at = found.end(), 0
            depth -= kind == b"endif"
        elif kind == b"endif":
            depth -= 1
    parts.append(b"\n" * text.count(b"\n", start) if dead_at else text[start:])
    return b"".join(parts)


def markers(texts: Iterable[bytes]) -> re.Pattern[bytes]:
    """What makes a function a kernel: the keyword, and macros of these texts that stand for it."""
    own = {name for text in texts for name in _MACRO.findall(text)}
    words = b"|".join(sorted({*map(re.escape, own)}))
    plain = b"|".join(_MARKERS)
    return re.compile(rb"(?<!\w)(?:" + (words + b"|" if words else b"") + plain + rb")(?!\w)")


def definitions(text: bytes, marker: re.Pattern[bytes], *, header: bool) -> Iterator[Definition]:
    """The kernels of a text that is `live`; one that a macro is defined to begin is none."""
    text = re.sub(rb"^[ \t]*\#[^\n]*", b"", text, flags=re.M)
    places = [m.span() for m in marker.finditer(text)]
    breaks = [m.start() for m in re.finditer(rb"\n", text)] if places else []
    for last, place, following in zip([(0, 0), *places], places, [*places[1:], (len(text),)], strict=False):
        head = _head(text, place[1], following[0])
        if head is not None:
            name, body = head
            ahead = re.split(rb"[;}]", text[max(last[1], place[0] - _HEAD) : place[0]])[-1]
            words = b" ".join(_tokens(text[place[0] : _closed(text, body, following[0])]))
            template = _TEMPLATE.search(ahead) is not None
            yield Definition(
                name.decode("ascii", "replace"),
                bisect_left(breaks, place[0]) + 1,
                words.decode("utf-8", "surrogateescape"),
                Maker.CUDA,
                not (header or template or b"static" in ahead.split() or b"static" in text[place[1] : body].split()),
            )


def _tokens(text: bytes) -> list[bytes]:
    return re.findall(rb"\w+|[^\w\s]", text)


def _head(text: bytes, at: int, limit: int) -> tuple[bytes, int] | None:
    """(name, where the body begins) of what follows the marker; None: a declaration, or something else."""
    limit = min(limit, at + _HEAD)
    name = b""
    while (found := _STEP.search(text, at, limit)) is not None:
        if found[0] == b"{":
            return (name, found.start()) if name else None
        if found[0] == b";":
            return None
        if found[1] is not None and not _ATTRIBUTE.fullmatch(found[1]):
            name = found[1]  # the last one: bounds of a launch stand before it, in macros of any name
        at = _past(text, found.end(), limit)
    return None


def _past(text: bytes, at: int, limit: int) -> int:
    """Behind the parenthesis that closes the one before `at`."""
    depth = 1
    for sign in _PARENTHESES.finditer(text, at, limit):
        depth += 1 if sign[0] == b"(" else -1
        if not depth:
            return sign.end()
    return limit


def _closed(text: bytes, at: int, limit: int) -> int:
    """Behind the brace that closes the one at `at`; no kernel is within another."""
    depth = 0
    for sign in _BRACES.finditer(text, at, limit):
        depth += 1 if sign[0] == b"{" else -1
        if depth <= 0:
            return sign.end()
    return limit


def used(texts: Iterable[bytes], found: Iterable[Sequence[Definition]]) -> frozenset[str]:
    """Kernels that need not be compiled, and whose name stands in the code of these texts more often than it is
    defined."""
    uncertain = Counter(one.name for ones in found for one in ones if one.maker is Maker.CUDA and not one.certain)
    if not uncertain:
        return frozenset()
    mentions: Counter[str] = Counter()
    for text in texts:
        words = (word.decode("ascii", "replace") for word in _WORD.findall(_STRING.sub(b"", text)))
        mentions.update(word for word in words if word in uncertain)
    return frozenset(name for name, times in mentions.items() if times > uncertain[name])
