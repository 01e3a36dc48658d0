"""Kernels in PTX: a fingerprint of each, over its own text and over every function and variable that it uses.

A module is split into its statements (PTX ISA, "Module directives"). What a name stands for counts, not the name: the
names of local symbols, labels that are numbered through the module, comments and debugging directives are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validator.isolation.kernels.model import Kernel, plain

__all__ = ["kernels_in_text"]

_NOISE = re.compile(
    rb"//[^\n]*|/\*.*?\*/|^[ \t]*\.section[ \t]+\.debug_\w+\s*\{.*?^[ \t]*\}|^[ \t]*\.(?:loc|file|section)\b[^\n]*$"
    rb"|^[ \t]*\$L__(?:info_string|tmp|func_(?:begin|end))\w*:|(?<=,)[ \t]*debug[ \t]*$",
    re.M | re.S,
)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(\w+)", re.M)
_DIRECTIVE = re.compile(rb"^[ \t]*\.(?:version|target|address_size)\b[^\n]*$", re.M)
_TOKEN = re.compile(rb'"[^"\n]*"|[{};]')
_FUNCTION = re.compile(rb"\.(entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$.]+)")
_VARIABLE = re.compile(
    rb"\.(?:global|const|shared|local|tex|texref|samplerref|surfref|alias)\b[^=;]*?([\w$]+)\s*(?:\[|=|;|,|$)"
)
_NAME = re.compile(rb"[A-Za-z_$%][\w$]*")
_NUMBERED = re.compile(rb"\$L__BB\d+_|__local_depot\d+|prototype_\d+|\$str(?:\$\d+)?")
_COUNTED = re.compile(rb"\$[\w$]*\$?\d*")
"""Names that a compiler counts through the module."""
_REGISTERS = re.compile(rb"\.reg[ \t]+\.\w+[ \t]+%\w+<(\d+)>")
_MEMORY = re.compile(rb"\.(local|shared)[ \t]+(?:\.align[ \t]+\d+[ \t]+)?\.[bsuf](\d+)[ \t]+[\w$]+((?:\[\d+\])*)")
_LINKED = re.compile(rb"\.(?:visible|weak|extern|common)\b")


@dataclass(frozen=True, slots=True)
class _Statement:
    """One statement of a module."""

    name: bytes
    text: bytes
    kind: str
    linked: bool
    """Other files, and the host, can name it."""


_ROUNDS = 24
"""How deep functions that call functions are followed; each of them counts on its own as well."""


def kernels_in_text(data: bytes) -> Iterator[Kernel]:
    """Every kernel, function and variable of a PTX file that has a body."""
    text = plain(_NOISE.sub(b"", data.rstrip(b"\0")))
    target = _TARGET.search(text)
    directives = b" ".join(b" ".join(_DIRECTIVE.findall(text)).split())
    statements = {s.name: s for s in _statements(_DIRECTIVE.sub(b"", text))}
    for name, digest in _digests(statements).items():
        statement = statements[name]
        yield Kernel(
            "$" if _COUNTED.fullmatch(name) else name.decode("ascii", "replace"),
            f"PTX {target[1].decode()}" if target else "PTX",
            hashlib.sha256(directives + digest).hexdigest(),
            _resources(statement.text) if statement.kind != "variable" else {"text": len(statement.text)},
            statement.kind,
        )


def _statements(text: bytes) -> Iterator[_Statement]:
    for whole in _split(text):
        function = _FUNCTION.search(whole.partition(b"{")[0] or whole)
        if function is not None:
            if b"{" not in whole:
                continue  # a declaration: what it declares is elsewhere
            yield _Statement(function[2], whole, "kernel" if function[1] == b"entry" else "function", _is_linked(whole))
        elif variable := _VARIABLE.search(whole):
            yield _Statement(variable[1], whole, "variable", _is_linked(whole))


def _is_linked(whole: bytes) -> bool:
    return _LINKED.search(whole[:200].partition(b"{")[0]) is not None


def _split(text: bytes) -> Iterator[bytes]:
    """Statements: up to `;` outside braces, or to the brace that ends a function's body."""
    depth = start = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign == b"{":
            depth += 1
        elif sign == b"}":
            depth = max(depth - 1, 0)
            if not depth and b"=" not in text[start : text.find(b"{", start)]:
                yield text[start : token.end()]
                start = token.end()
        elif sign == b";" and not depth:
            yield text[start : token.end()]
            start = token.end()
    if text[start:].strip():
        yield text[start:]


def _digests(known: Mapping[bytes, _Statement]) -> dict[bytes, bytes]:
    """Name → digest over the text, with what other symbols stand for in the place of their names."""
    own: dict[bytes, bytes] = {}
    uses: dict[bytes, tuple[bytes, ...]] = {}
    for name, statement in known.items():
        text, uses[name] = _without_names(statement, known)
        own[name] = hashlib.sha256(text).digest()
    found = own
    for _ in range(min(_ROUNDS, len(known))):
        before = found
        found = {
            name: hashlib.sha256(
                own[name] + b"".join(before[u] + (u if known[u].linked else b"") for u in uses[name])
            ).digest()
            for name in known
        }
    return found


def _without_names(statement: _Statement, known: Mapping[bytes, _Statement]) -> tuple[bytes, tuple[bytes, ...]]:
    """The text with places for names, and the symbols of the module in the order of their places."""
    own = statement.name
    mangled = b"_ZZ%d%bE" % (len(own), own)
    uses: dict[bytes, int] = {}
    labels: dict[bytes, int] = {}

    def renumbered(match: re.Match[bytes]) -> bytes:
        return match[0] if match[0] in known else b"$%d_" % labels.setdefault(match[0], len(labels))

    def placed(match: re.Match[bytes]) -> bytes:
        name = match[0]
        if name == own:
            return b"SELF"
        if name in known:
            return b"<%d>" % uses.setdefault(name, len(uses))
        # Its parameters and its variables are named after it: `add_param_0`, `_ZZ3addE5table`.
        return b"SELF" + name[len(own) :] if name.startswith(own + b"_param_") else name.replace(mangled, b"_ZZSELFE")

    text = _NAME.sub(placed, _NUMBERED.sub(renumbered, statement.text))
    return b" ".join(text.split()), tuple(uses)


def _resources(body: bytes) -> dict[str, int]:
    """Registers that are declared, and bytes of stack and of shared memory."""
    found = {
        "declared register count": sum(int(n) - 1 for n in _REGISTERS.findall(body)),
        "stack": 0,
        "shared memory": 0,
    }
    for space, bits, sizes in _MEMORY.findall(body):
        count = 1
        for size in re.findall(rb"\d+", sizes):
            count *= int(size)
        found["stack" if space == b"local" else "shared memory"] += int(bits) // 8 * count
    return found
