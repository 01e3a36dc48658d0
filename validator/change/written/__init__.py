"""Which kernels the changed sources define, as far as their text says: by name, for artifacts to be asked for them.

Nothing is run. A definition is found by the words that make a kernel: in CUDA C++, also in strings that are compiled at
run time (`cuda`), and in the Python of Triton, CuTe DSL, Numba and TileLang (`python`). Not found: kernels that a macro
with arguments makes, names that are put together, and kernels of which only a function that they call has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from validator.change.kernels import HOST_SUFFIXES, SOURCE_SUFFIXES
from validator.change.model import Change, ChangeStatus, FileKind, read_many
from validator.change.written import cuda, python
from validator.change.written.definition import Definition, Maker
from validator.globs import matches

__all__ = ["Compiled", "WrittenKernel", "kernels_written"]


@dataclass(frozen=True, slots=True)
class WrittenKernel:
    """One kernel that a changed source defines and that no changed file of the base defines with the same words."""

    path: str
    """At the head."""
    line: int
    """1-based."""
    name: str
    """The function's own, without namespaces and template arguments."""
    maker: Maker = Maker.CUDA


def kernels_written(change: Change, tests: Sequence[str]) -> list[WrittenKernel]:
    """Those that are new or changed, by path and line; `tests`: globs of files that are left out.

    Takes time in proportion to the files, whatever is in them.
    """
    there = [f for f in change.files if f.kind not in (FileKind.SYMLINK, FileKind.SUBMODULE)]
    head = [f.path for f in there if f.status is not ChangeStatus.DELETED and not matches(f.path, tests)]
    base = [f.old_path or f.path for f in there if f.status is not ChangeStatus.ADDED]
    texts = dict(read_many(change.head_tree, sorted(filter(_is_source, head))))
    defined, used = _read(texts)
    if not any(defined.values()):
        return []
    before, _ = _read(dict(read_many(change.merge_base_tree, sorted(set(filter(_is_source, base))))))
    words = {one.words for ones in before.values() for one in ones}
    names = {one.name for ones in before.values() for one in ones}
    return [
        WrittenKernel(path, one.line, one.name, one.maker)
        for path, ones in sorted(defined.items())
        for one in ones
        if one.words not in words and (one.certain or one.name in used or _is_edited(one, names))
    ]


def _is_edited(one: Definition, names: set[str]) -> bool:
    """A template of CUDA C++ that the base has, too: who launches it may be a file that did not change."""
    return one.maker is Maker.CUDA and one.name in names


def _is_source(path: str) -> bool:
    return path.lower().endswith(SOURCE_SUFFIXES + HOST_SUFFIXES)


def _read(texts: dict[str, bytes]) -> tuple[dict[str, list[Definition]], frozenset[str]]:
    """Every kernel that is defined in some files, and the names of those that something in them uses."""
    live = {path: cuda.live(data) for path, data in texts.items() if not _is_python(path)}
    markers = cuda.markers(live.values())
    found: dict[str, list[Definition]] = {}
    for path, text in live.items():
        found[path] = list(cuda.definitions(text, markers, header=cuda.is_header(path)))
    programs = {path: data for path, data in texts.items() if _is_python(path)}
    modules = {path: python.parsed(data) for path, data in programs.items() if python.may_define(data)}
    for path, module in modules.items():
        found[path] = [] if module is None else list(python.definitions(module))
    wanted = python.uncertain(found.values())
    if wanted:  # they may be launched by files that define nothing
        told = re.compile("|".join(map(re.escape, sorted(wanted))).encode())
        more = {path: python.parsed(d) for path, d in programs.items() if path not in modules and told.search(d)}
        modules |= more
    launched = python.launched([m for m in modules.values() if m is not None], wanted)
    return found, cuda.used(live.values(), found.values()) | launched


def _is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


class Compiled:
    """The names of what was compiled, to be asked for what is written."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: mangled and demangled."""
        self._own = {_own_name(name) for name in names}
        self._unspecialised = {_SPECIALISED.sub("", name) for name in self._own}

    def holds(self, kernel: WrittenKernel) -> bool:
        """Whether a kernel of these is made from that one."""
        if kernel.maker is Maker.CUTE:  # `kernel_cutlass_<function>_<arguments>`
            start = f"kernel_cutlass_{kernel.name}"
            return any(name == start or name.startswith(f"{start}_") for name in self._own)
        return kernel.name in (self._unspecialised if kernel.maker is Maker.TRITON else self._own)


_SPECIALISED = re.compile(r"(?:_(?:\d+[a-z]*)+)+$")
"""What Triton of old adds to a name: `_0d1d2de3`."""
_BRACKETS = re.compile(r"[<>(]")


def _own_name(name: str) -> str:
    """`norm` of `void ns::norm<float, (int)4>(float*)`."""
    plain, depth, start = name.replace("(anonymous namespace)", "_"), 0, 0
    kept = []
    for sign in _BRACKETS.finditer(plain):
        if not depth:
            kept.append(plain[start : sign.start()])
            if sign[0] == "(":
                break
        depth += {"<": 1, ">": -1}.get(sign[0], 0)
        start = sign.end()
    else:
        kept.append(plain[start:])
    return "".join(kept).split("::")[-1].split(" ")[-1]
