"""C++ names and the parameter types in them.

A mangled name is untrusted and demanglers are recursive, so they run outside this process (`cu++filt`, `c++filt`,
`llvm-cxxfilt`, whichever is on PATH); without one, the qualified name alone is read off the Itanium mangling.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from validator.ordering.program import Parameter

__all__ = ["demangle", "parameter_types", "with_types"]

_TOOLS = ("cu++filt", "c++filt", "llvm-cxxfilt")
_LONGEST = 16384
_TIMEOUT = 60.0
_NUMBER = re.compile(r"\d+")
_BATCH = 4096
_REMEMBERED = 1 << 17
_KNOWN: dict[str, str] = {}


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Name → readable name; names that are not mangled (or too long to be sane) stand for themselves.

    Names are remembered, so that asking for one after a whole library was asked for starts no process.
    """
    wanted = list(dict.fromkeys(names))
    new = [n for n in wanted if n not in _KNOWN]
    if len(_KNOWN) + len(new) > _REMEMBERED:
        _KNOWN.clear()
        new = wanted
    mangled = [n for n in new if n.startswith("_Z") and len(n) <= _LONGEST and n.isprintable() and " " not in n]
    for start in range(0, len(mangled), _BATCH):
        batch = mangled[start : start + _BATCH]
        _KNOWN.update(zip(batch, _by_tool(batch) or [_qualified(n) for n in batch], strict=True))
    return {name: _KNOWN.setdefault(name, name) for name in wanted}


@cache
def _tool() -> str | None:
    return next((found for name in _TOOLS if (found := shutil.which(name))), None)


def _by_tool(names: Sequence[str]) -> list[str] | None:
    tool = _tool()
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool], input="\n".join(names) + "\n", capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    lines = done.stdout.splitlines()
    return lines if len(lines) == len(names) else None


def _qualified(name: str) -> str:
    """`ns::kernel` of `_ZN2ns6kernelIfEEvPKf`: the leading source names of the Itanium mangling."""
    at = 3 if name.startswith("_ZN") else 2
    parts: list[str] = []
    while found := _NUMBER.match(name, at):
        size = int(found[0][:6])
        start = found.end()
        if size == 0 or start + size > len(name):
            break
        parts.append(name[start : start + size])
        at = start + size
        if not name.startswith("_ZN"):
            break
    readable = ["(anonymous namespace)" if p.startswith("_GLOBAL__N_") else p for p in parts]
    return "::".join(readable) or name


def parameter_types(demangled: str) -> tuple[str, ...] | None:
    """Types between the last top-level parentheses of a demangled function; None when there is no signature."""
    if not demangled.endswith(")"):
        return None
    depth = 0
    for at in range(len(demangled) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(demangled[at], 0)
        if depth == 0:
            return _split(demangled[at + 1 : -1])
    return None


def _split(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    depth = start = 0
    for at, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}" and not text.startswith("->", at - 1):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return tuple(p for p in parts if p not in ("", "void"))


_SCALARS = re.compile(
    r"^(const )?(unsigned |signed )?"
    r"(bool|char|short|int|long|long long|float|double|__half|half|__nv_bfloat16)( const)?$"
)


def with_types(parameters: tuple[Parameter, ...], demangled: str) -> tuple[Parameter, ...]:
    """Parameters with the types of the signature, where their numbers agree."""
    types = parameter_types(demangled)
    if types is None or len(types) != len(parameters):
        return parameters
    return tuple(
        replace(p, type=t, pointer=True if t.endswith("*") else False if _SCALARS.match(t) else None)
        for p, t in zip(parameters, types, strict=True)
    )
