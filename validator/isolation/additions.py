"""What a change registers and asks for: operators, kernels, config keys, environment variables, entry points, commands,
dependencies and their pins, build targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from validator.change.model import MissingFile, Tree
from validator.isolation.source import Sources
from validator.tables import TableError, parse_document

__all__ = ["Addition", "additions"]


@dataclass(frozen=True, slots=True)
class Addition:
    """One thing that the head has and the base has not, or (kinds that end in `gone`) the other way round."""

    kind: str
    name: str
    path: str
    line: int
    for_everybody: bool
    """It takes effect whatever the switch says: installed, built or loaded for all."""


_ENVIRONMENT: Final = re.compile(
    r"""(?:environ(?:\.get|\.setdefault)?\s*[\[(]|getenv\(|putenv\()\s*["']([A-Za-z_]\w*)["']"""
)
_OPERATOR: Final = re.compile(
    r"""(?:custom_op\(\s*|direct_register_custom_op\(\s*(?:op_name\s*=\s*)?|register_fake\(\s*)["']([\w:.]+)["']"""
    r"|\bTORCH_LIBRARY(?:_FRAGMENT|_IMPL)?\(\s*(\w+)"
)
_IMPLEMENTS: Final = re.compile(r"\bTORCH_LIBRARY_IMPL\(\s*(\w+)\s*,\s*\w+\s*,\s*(\w+)\s*\)\s*\{([^}]{0,2000})\}")
_OF_ALL: Final = ("aten", "_")
"""Namespaces of operators that everybody calls: who implements theirs changes them for all, wherever the file lies."""
_TARGET: Final = re.compile(
    r"^\s*(?:add_library|add_executable|define_(?:gpu_)?extension_target|pybind11_add_module|add_subdirectory|Extension|"
    r"CUDAExtension|CppExtension)\s*\(\s*(?:name\s*=\s*)?[\"']?([\w./-]+)",
    re.M,
)


_KERNEL: Final = re.compile(
    r"\b__global__\b[^;{(]*?(?:__launch_bounds__\s*\([^)]*\)\s*)?\b(\w+)\s*\("
    r"|@(?:triton\.(?:jit|autotune)|cute\.(?:kernel|jit))\b[^\n]*\n(?:[ \t]*@[^\n]*\n)*[ \t]*def[ \t]+(\w+)"
)
_KEY: Final = re.compile(r"""\b\w*(?:config|options|settings)\w*\)?\s*\.get\(\s*["']([\w.-]+)["']""", re.I)
_RUNTIME: Final = re.compile(r"(?:^|/)(?:requirements|constraints)[^/]*(?:/.+)?\.(?:txt|in)$")
"""Requirements files: `requirements.txt`, `requirements/cuda.txt`."""
_NATIVE: Final = (".cu", ".cpp", ".cc", ".cuh", ".h", ".hpp")


def additions(
    base: Sources, head: Sources, changed: Iterable[str], reached: Callable[[str, int], bool]
) -> Iterator[Addition]:
    """Look at the changed files (paths at the head), each once. `reached`: whether a line of the head runs, or is built
    into what everybody loads, with the switch off."""
    for path in changed:
        name = path.rsplit("/", 1)[-1]
        new, old = _text(head.tree, path), _text(base.tree, path)
        if name == "pyproject.toml":
            yield from _project(path, old, new)
        if name in ("CMakeLists.txt", "setup.py") or name.endswith(".cmake"):
            yield from _matches("build target", _TARGET, path, old, new, True)
        if _RUNTIME.search(path):
            yield from _required(path, old, new)
        if path.endswith((".py", *_NATIVE)):
            for kind, pattern in (("environment variable", _ENVIRONMENT), ("config key", _KEY)):
                for found in _matches(kind, pattern, path, old, new, False):
                    if not base.mentions(found.name):
                        yield replace(found, for_everybody=reached(path, found.line))
            yield from _implemented(base, path, old, new)
            for kind, pattern in (("operator", _OPERATOR), ("kernel", _KERNEL)):
                for found in _matches(kind, pattern, path, old, new, False):
                    shared = found.name in _OF_ALL or reached(path, found.line)
                    yield replace(found, for_everybody=kind == "operator" and shared)


def _implemented(base: Sources, path: str, old: str, new: str) -> Iterator[Addition]:
    """Operators that the base calls and that native code of the change implements: for everybody, once it is loaded."""
    for block in _IMPLEMENTS.finditer(new):
        for found in re.finditer(rf"\b{re.escape(block[2])}\.impl\(\s*[\"'](?:\w+::)?([\w.]+)[\"']", block[3]):
            name = f"{block[1]}::{found[1]}"
            plain = found[1].partition(".")[0]
            used = base.holding(f"torch.ops.{block[1]}.{plain}".encode()) or base.holding(f'"{name}"'.encode())
            if used and found[0] not in old:
                line = new.count("\n", 0, block.start(3) + found.start()) + 1
                yield Addition("operator", name, path, line, True)


def _required(path: str, old: str, new: str) -> Iterator[Addition]:
    """Lines of a requirements file that came or went; a pin that moved is both."""
    before, after = _lines(old), _lines(new)
    yield from (
        Addition("dependency", line, path, number, True) for line, number in after.items() if line not in before
    )
    yield from (Addition("dependency gone", line, path, 1, True) for line in before if line not in after)


def _lines(text: str) -> dict[str, int]:
    """Line without comments → its number."""
    plain = ((line.split(" #")[0].strip(), number) for number, line in enumerate(text.splitlines(), 1))
    return {line: number for line, number in plain if line and not line.startswith("#")}


def _text(tree: Tree, path: str) -> str:
    try:
        return tree.read(path).decode("utf-8", "replace")
    except MissingFile:
        return ""


def _matches(kind: str, pattern: re.Pattern[str], path: str, old: str, new: str, everybody: bool) -> Iterator[Addition]:
    """Names that the pattern finds in the new text and not in the old."""
    known = {next(filter(None, m.groups())) for m in pattern.finditer(old)}
    for match in pattern.finditer(new):
        name = next(filter(None, match.groups()))
        if name not in known:
            known.add(name)
            yield Addition(kind, name, path, new.count("\n", 0, match.start(match.lastindex or 0)) + 1, everybody)


def _project(path: str, old: str, new: str) -> Iterator[Addition]:
    """Dependencies, build requirements and entry points of a `pyproject.toml`."""
    before, after = _declared(old), _declared(new)
    for (kind, name), everybody in after.items():
        if (kind, name) not in before:
            line = next((i for i, text in enumerate(new.splitlines(), 1) if name.split(" = ")[0] in text), 1)
            yield Addition(kind, name, path, line, everybody)
    for (kind, name), everybody in before.items():
        if (kind, name) not in after:
            yield Addition(f"{kind} gone", name, path, 1, everybody)


def _declared(text: str) -> dict[tuple[str, str], bool]:
    try:
        document = parse_document(text.encode("utf-8", "surrogateescape"), "pyproject.toml").values
    except TableError:
        return {}
    project = document.get("project", {})
    found: dict[tuple[str, str], bool] = {}
    if not isinstance(project, dict):
        return found
    found |= {("dependency", str(d)): True for d in _list(project.get("dependencies"))}
    build = document.get("build-system", {})
    found |= {
        ("build requirement", str(d)): True for d in _list(build.get("requires") if isinstance(build, dict) else [])
    }
    for extra, names in _table(project.get("optional-dependencies")):
        found |= {("optional dependency", f"{d} [{extra}]"): False for d in _list(names)}
    for group, entries in _table(project.get("entry-points")):
        found |= {("entry point", f"{name} = {target} [{group}]"): True for name, target in _table(entries)}
    found |= {("command", f"{name} = {target}"): False for name, target in _table(project.get("scripts"))}
    return found


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _table(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []
