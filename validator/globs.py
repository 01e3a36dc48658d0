"""Path globs, as policies and manifests write them.

`*` and `?` stay inside one folder, `**` as a whole part crosses any number of folders, a trailing `/` means everything
below. Nothing else is special, so a path with brackets matches itself. Patterns may come from the change: matching
takes time proportional to pattern times path, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

__all__ = ["first_match", "matches", "name_matches"]


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether any pattern means this path."""
    return first_match(path, patterns) is not None


def first_match(path: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that means this path."""
    for pattern in patterns:
        literal, parts = _split(pattern)
        # What a path begins with settles most cases, before it is taken apart.
        if path.startswith(literal) and _means(path, parts):
            return pattern
    return None


def _means(path: str, parts: Sequence[str]) -> bool:
    if len(parts) == 2 and parts[0] == "**" and parts[1] != "**":
        return _part(path.rpartition("/")[2], parts[1])  # a file's name, wherever it is
    if len(parts) == 3 and parts[0] == parts[2] == "**" and not {"*", "?"} & set(parts[1]):
        return f"/{parts[1]}/" in f"/{path}"  # what is below a folder, wherever that is
    return _parts(path.split("/"), parts)


def name_matches(name: str, patterns: Iterable[str]) -> bool:
    """The same for names that are not paths (models, owners): `*` matches anything."""
    return any(_part(name, pattern) for pattern in patterns)


@lru_cache(maxsize=4096)
def _split(pattern: str) -> tuple[str, tuple[str, ...]]:
    """What a path must begin with, which settles most cases, and the pattern's parts."""
    pattern = pattern.removeprefix("./")
    pattern += "**" if pattern.endswith("/") else ""
    literal = pattern[: next((at for at, character in enumerate(pattern) if character in "*?"), len(pattern))]
    # `a/**/b` also means `a/b`, so only what stands before the first part with a wildcard is sure.
    return literal if literal == pattern else literal[: literal.rfind("/") + 1], tuple(pattern.split("/"))


def _parts(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Row by row over the pattern: which prefixes of the path it can have consumed."""
    reached = [True] + [False] * len(parts)
    for number, pattern in enumerate(patterns):
        if pattern == "**":
            first = reached.index(True) if True in reached else len(reached)
            # At the end `folder/**` means what is below, not the folder's own name.
            first += 1 if number == len(patterns) - 1 and number else 0
            reached = [place >= first for place in range(len(reached))]
        else:
            reached = [False] + [reached[i] and _part(part, pattern) for i, part in enumerate(parts)]
    return reached[-1]


def _part(text: str, pattern: str) -> bool:
    """`*` and `?` in one part, going back only to the last `*`."""
    if pattern.count("*") == 1 and "?" not in pattern:
        before, _, behind = pattern.partition("*")
        return len(text) >= len(pattern) - 1 and text.startswith(before) and text.endswith(behind)
    at = here = 0
    star, resume = -1, 0
    while at < len(text):
        if here < len(pattern) and pattern[here] == "*":
            star, resume, here = here, at, here + 1
        elif here < len(pattern) and pattern[here] in ("?", text[at]):
            at, here = at + 1, here + 1
        elif star >= 0:
            resume += 1
            at, here = resume, star + 1
        else:
            return False
    return set(pattern[here:]) <= {"*"}
