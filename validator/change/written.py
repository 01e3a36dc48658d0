"""Which kernels the changed sources define, as far as their text says: by name, for artifacts to be asked for them.

Nothing is parsed or run: definitions are found by the words that make a kernel in CUDA C++ (`__global__`), in Triton
(`@triton.jit`) and in CuTe DSL (`@cute.kernel`). What is compiled is what counts later, so a definition that nobody
uses may be left out here, and one that is used must not be: templates and what headers define count where a changed
file names them again, Triton functions where they are launched, as the others are inlined.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from validator.change.kernels import HEADER_SUFFIXES, HOST_SUFFIXES, SOURCE_SUFFIXES
from validator.change.model import Change, ChangeStatus, FileChange, FileKind, Tree, read_many
from validator.globs import matches

__all__ = ["WrittenKernel", "is_compiled_as", "kernels_written"]

_NOT_CODE = re.compile(rb'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)
_BRACES = re.compile(rb"[{}]")
_WORD_OR_PARENTHESIS = re.compile(rb"(\w+)\s*\(|[;{]")
_ATTRIBUTE = re.compile(rb"__\w+__|__attribute__|alignas|decltype")
_PARENTHESES = re.compile(rb"[()]")
_TEMPLATE = re.compile(rb"\btemplate\s*<")
_WORD = re.compile(rb"\w+")
_LAUNCH = re.compile(rb"\b(\w+)(?:\s*\[|\.(?:run|warmup)\s*\()|[ \t]=[ \t]+(\w+)[ \t]*$", re.M)
"""`k[grid](…)`, `k.run(…)`, `launched = k`: Triton functions that kernels call are inlined."""
_PYTHON = re.compile(
    rb"^([ \t]*)@(?:\w+\.)*?(?:(triton|gluon)\.jit|cute\.kernel)\b[^\n]*\n"
    rb"(?:[ \t]*(?:[@#)][^\n]*)?\n){0,40}[ \t]*def[ \t]+(\w+)",
    re.M,
)
_HEAD = 8192
"""Bytes of a kernel's head, attributes and parameters, that are looked at."""


@dataclass(frozen=True, slots=True)
class WrittenKernel:
    """One kernel that a changed source defines and that the base does not define with these words."""

    path: str
    """At the head."""
    line: int
    """1-based."""
    name: str
    """The function's own, without namespaces and template arguments."""
    dsl: bool = False
    """In CuTe DSL, which makes a longer name of it."""


@dataclass(frozen=True, slots=True)
class _Definition:
    name: bytes
    start: int
    text: bytes
    certain: bool
    """Compiled whether or not something uses it."""
    kind: str


def kernels_written(change: Change, tests: Sequence[str]) -> list[WrittenKernel]:
    """Those that are new or changed, by path and line; `tests`: globs of files that are left out.

    Takes time in proportion to the files, whatever is in them.
    """
    files = {f.path: f for f in change.files if _is_source(f) and not matches(f.path, tests)}
    texts = {path: _plain(path, data) for path, data in read_many(change.head_tree, sorted(files))}
    defined = {path: list(_definitions(path, text)) for path, text in sorted(texts.items())}
    used = _used([one for ones in defined.values() for one in ones], list(texts.values()))
    found = []
    for path, definitions in defined.items():
        before = _before(change.merge_base_tree, files[path]) if definitions else set()
        breaks = [m.start() for m in re.finditer(rb"\n", texts[path])] if definitions else []
        for one in definitions:
            if one.kind != "declaration" and one.text not in before and (one.certain or one.name in used):
                line = bisect_left(breaks, one.start) + 1
                found.append(WrittenKernel(path, line, one.name.decode("ascii", "replace"), one.kind == "cute"))
    return found


def is_compiled_as(kernel: WrittenKernel, names: Iterable[str]) -> bool:
    """Whether a compiled kernel of one of these names, mangled or not, is made from `kernel`."""
    own = re.escape(kernel.name)
    # CuTe DSL: `kernel_cutlass_<function>_<arguments>`; Triton of old adds what it specialised: `_0d1d2`.
    wanted = re.compile(
        rf"kernel_cutlass_{own}(?:_|$)" if kernel.dsl else rf"(?<![\w$]){own}(?:_(?:\d+[a-z]*)+)?(?![\w$])"
    )
    return any(wanted.search(name) for name in names)


def _is_source(file: FileChange) -> bool:
    there = file.status is not ChangeStatus.DELETED and file.kind not in (FileKind.SYMLINK, FileKind.SUBMODULE)
    return there and file.path.lower().endswith(SOURCE_SUFFIXES + HOST_SUFFIXES)


def _before(tree: Tree, file: FileChange) -> set[bytes]:
    """How the base words its kernels in this file."""
    if file.status is ChangeStatus.ADDED:
        return set()
    path = file.old_path or file.path
    return {one.text for _, data in read_many(tree, [path]) for one in _definitions(path, _plain(path, data))}


def _plain(path: str, data: bytes) -> bytes:
    """C++ without comments, every line where it was. Strings stay: what is in them may be compiled at run time."""
    if path.endswith(".py"):
        return data
    return _NOT_CODE.sub(lambda m: m[0] if m[0].startswith(b'"') else b"\n" * m[0].count(b"\n"), data)


def _definitions(path: str, text: bytes) -> Iterator[_Definition]:
    certain = not path.lower().endswith(HEADER_SUFFIXES)
    places = [m.span() for m in re.finditer(rb"\b__global__\b", text)]
    for last, place, following in zip([(0, 0), *places], places, [*places[1:], (len(text),)], strict=False):
        head = _head(text, place[1], following[0])
        if head is not None:
            name, body = head
            ahead = re.split(rb"[;}]", text[max(last[1], place[0] - _HEAD) : place[0]])[-1]
            yield _Definition(
                name,
                place[0],
                text[place[0] : _closed(text, body, following[0])],
                certain and _TEMPLATE.search(ahead) is None,
                "declaration" if text[body : body + 1] == b";" else "cuda",
            )
    if path.endswith(".py"):
        for found in _PYTHON.finditer(text):
            after = re.compile(rb"^(?!" + found[1] + rb"[ \t]|[ \t]*(?:[#)\]]|$))", re.M).search(text, found.end())
            kind = "triton" if found[2] else "cute"
            end = after.start() if after else len(text)
            yield _Definition(found[3], found.start(), text[found.start() : end], kind == "cute", kind)


def _head(text: bytes, at: int, limit: int) -> tuple[bytes, int] | None:
    """(name, where the body begins or the declaration ends) of what follows `__global__`."""
    limit = min(limit, at + _HEAD)
    name = b""
    while (found := _WORD_OR_PARENTHESIS.search(text, at, limit)) is not None:
        if found[1] is None:
            return (name, found.start()) if name else None
        if not name and not _ATTRIBUTE.fullmatch(found[1]):
            name = found[1]
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


def _used(definitions: Sequence[_Definition], texts: Sequence[bytes]) -> set[bytes]:
    """Names of templates and of what headers define that are named once more, and of Triton functions launched."""
    uncertain = {one.name for one in definitions if one.kind == "cuda" and not one.certain}
    mentions = Counter(word for text in texts for word in _WORD.findall(text) if word in uncertain) if uncertain else {}
    own = Counter(one.name for one in definitions if one.kind in ("cuda", "declaration"))
    used = {name for name, times in mentions.items() if times > own[name]}
    if any(one.kind == "triton" for one in definitions):
        used.update(name for text in texts for found in _LAUNCH.findall(text) for name in found if name)
    return used
