"""Native sources that a build takes because they lie where it looks: `file(GLOB_RECURSE …)`, `glob("csrc/*.cu")`.

Such a file is compiled into what everybody loads, whatever the switch says, and no line of the build names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from validator.change.model import MissingFile, Tree
from validator.globs import matches
from validator.isolation.source import Sources

__all__ = ["SOURCES", "Globbed", "globbed"]

SOURCES = (".cu", ".cpp", ".cc", ".c", ".cxx", ".hip", ".mm")
"""What builds compile by itself; headers only act through who includes them."""

_CMAKE = re.compile(r"\bfile\s*\(\s*GLOB(?P<deep>_RECURSE)?\s+\w+\s+(?P<patterns>[^)]{0,1500})\)", re.I)
_PYTHON = re.compile(rf"[\"']([^\"'*\n]{{0,200}}\*[^\"'\n]{{0,200}}(?:{'|'.join(map(re.escape, SOURCES))}|\.\*))[\"']")
_BUILDS = re.compile(rb"\b(?:\w*Extension|cpp_extension|sources|nvcc|ninja)\b")
"""What code that compiles says, and code that only looks at sources does not."""
_HERE = re.compile(r"^\$\{(?:CMAKE_CURRENT_(?:SOURCE|LIST)_DIR)\}/")
_SOMEWHERE = re.compile(r"^.*\$\{[^}]*\}/?")
_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Globbed:
    """One file and the line that takes it."""

    path: str
    build: str
    line: int
    pattern: str


def globbed(base: Sources, paths: Collection[str]) -> Iterator[Globbed]:
    """Each native file of these that a build of the base takes by a pattern, once."""
    left = sorted(p for p in paths if p.endswith(SOURCES))
    patterns = list(_patterns(base)) if left else []
    for path in left:
        found = next((p for p in patterns if matches(path, p[2])), None)
        if found is not None:
            yield Globbed(path, found[0], found[1], found[3])


def _patterns(base: Sources) -> Iterator[tuple[str, int, tuple[str, ...], str]]:
    """(file, line, the pattern as globs over paths, as written)."""
    cmake = (e.path for e in base.tree.list("") if e.path.endswith((".cmake", "CMakeLists.txt")))
    for path in cmake:
        text = _text(base.tree, path)
        for found in _CMAKE.finditer(text):
            for written in re.findall(r"[^\s\"]+", found["patterns"]):
                if "*" in written:
                    line = text.count("\n", 0, found.start()) + 1
                    yield path, line, _globs(path, written, deep=found["deep"] is not None), written
    for path in sorted({p for word in ("glob", "rglob") for p in base.mentions(word)}):
        text = base.data(path).decode("utf-8", "replace") if _BUILDS.search(base.data(path)) else ""
        for written in _PYTHON.finditer(text):
            line = text.count("\n", 0, written.start()) + 1
            yield path, line, _globs(path, written[1], deep="/" not in written[1]), written[1]


def _globs(build: str, written: str, *, deep: bool) -> tuple[str, ...]:
    """The pattern from the top of the tree. Folders that a variable names may be any."""
    folder = f"{build.rpartition('/')[0]}/".lstrip("/")
    inner = _HERE.sub("", written)
    somewhere = _SOMEWHERE.sub("", inner)
    # Python code may look below any folder that it names elsewhere.
    start = "**/" if somewhere != inner or (build.endswith(".py") and "/" not in written) else folder
    whole = f"{start}{somewhere}".replace("/./", "/")
    above, _, name = whole.rpartition("/")
    return (whole, f"{above}/**/{name}".lstrip("/")) if deep else (whole,)


def _text(tree: Tree, path: str) -> str:
    try:
        return tree.read(path)[:_MAX].decode("utf-8", "replace")
    except MissingFile:
        return ""
