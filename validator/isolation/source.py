"""Python files of one tree: read as objects, searched as bytes, parsed on demand, never imported or run."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from validator.change.model import FileKind, MissingFile, Tree, read_many
from validator.isolation.syntax import nodes, parse_new_syntax

if TYPE_CHECKING:
    from validator.isolation.blast.graph import ImportGraph

__all__ = ["Corpus", "Source", "Sources", "Words", "compile_problem"]

MAX_SOURCE = 4 * 1024 * 1024
"""Bytes of one Python file that are parsed: a 50,000-line file is about 2 MB; `ast` takes about 100 times that."""


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file."""

    path: str
    module: ast.Module | None
    """None when it cannot be parsed; `problem` says why."""
    lines: tuple[str, ...]
    problem: str = ""
    line: int | None = None
    """1-based line of the problem."""

    def text(self, start: int, end: int, limit: int = 12) -> str:
        """The lines `start` to `end` as written, at most `limit` of them."""
        shown = self.lines[start - 1 : min(end, start + limit - 1)]
        more = [f"… {end - start + 1 - limit} more lines"] if end - start + 1 > limit else []
        return "\n".join([*shown, *more])


_WORD = frozenset(bytes([c]) for c in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_PROPERTY = re.compile(rb"@[\w.]*property\b[^\n]*\n(?:[ \t]*[@#][^\n]*\n)*[ \t]*(?:async[ \t]+)?def[ \t]+([^\W\d]\w*)")


def parse(path: str, data: bytes) -> Source:
    """Parse one file. Whatever goes wrong is in the result: untrusted text raises many things."""
    if len(data) > MAX_SOURCE:
        return Source(path, None, (), f"is larger than {MAX_SOURCE // 2**20} MiB", None)
    try:
        text = _decode(data)
    except (SyntaxError, LookupError, UnicodeError) as error:
        return Source(path, None, (), f"cannot be decoded: {error}", 1)
    # As Python counts them: `str.splitlines` also ends lines at form feeds and other separators.
    lines = tuple(text.removesuffix("\n").split("\n"))
    for lower in (False, True):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = parse_new_syntax(text) if lower else ast.parse(text)
                too_long = _long_number(text, module)
                if too_long is not None:
                    return Source(path, None, lines, "holds a number of more digits than are compared", too_long)
                return Source(path, module, lines)
        except SyntaxError as error:
            problem, line = f"does not parse: {error.msg}", error.lineno
        except (ValueError, RecursionError, MemoryError) as error:
            problem, line = f"does not parse: {error or type(error).__name__}", None
    return Source(path, None, lines, problem, line)


_DIGITS = re.compile(r"[0-9a-fA-F_]{2000}")


def _long_number(text: str, module: ast.Module) -> int | None:
    """Line of a whole number that Python does not turn into text again."""
    if _DIGITS.search(text) is None:
        return None
    constants = (n for n in ast.walk(module) if isinstance(n, ast.Constant))
    return next((n.lineno for n in constants if isinstance(n.value, int) and n.value.bit_length() > 8000), None)


def compile_problem(source: Source) -> tuple[str, int | None] | None:
    """(why, line) where Python's compiler refuses what its parser takes: a `return` outside functions, a late
    `from __future__`, a name that is `global` too late. Nothing is run."""
    if source.module is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source.module, "<judged>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"does not compile: {error.msg}", error.lineno
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError, SystemError) as error:
        return f"does not compile: {error or type(error).__name__}", None
    return None


def _decode(data: bytes) -> str:
    """Text of a Python file: BOM, PEP 263 cookie, else UTF-8. Raises what `codecs` and `tokenize` raise."""

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class Words:
    """Names in one file."""

    names: frozenset[str]
    """Plain names, read or bound."""
    bound: frozenset[str]
    """Of those, the ones that some statement binds, in any scope."""
    attributes: frozenset[str]

    @classmethod
    def of(cls, module: ast.Module | None) -> Words:
        """Of a parsed file; all empty for one that is not."""
        names = frozenset(node.id for node in nodes(module, ast.Name))
        bound = frozenset(node.id for node in nodes(module, ast.Name) if isinstance(node.ctx, ast.Store))
        return cls(names, bound, frozenset(node.attr for node in nodes(module, ast.Attribute)))


class Corpus:
    """The bytes of many files in one piece: a search is one call, not one a file."""

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        self._paths: list[str] = []
        self._starts: list[int] = []
        pieces: list[bytes] = []
        at = 0
        for path, data in files:
            self._paths.append(path)
            self._starts.append(at)
            pieces += [data, b"\0"]
            at += len(data) + 1
        self._starts.append(at)
        self._bytes = b"".join(pieces)

    def first(self, text: bytes, around: re.Pattern[bytes] | None = None) -> str:
        """The first file that holds the bytes anywhere; empty: none. `around`: what must match where they stand."""
        at = self._bytes.find(text)
        while around is not None and at >= 0 and around.match(self._bytes, at) is None:
            at = self._bytes.find(text, at + 1)
        return self._paths[bisect_right(self._starts, at) - 1] if at >= 0 else ""

    def holding(self, name: str) -> Iterator[str]:
        """Files that hold the name as a whole word."""
        needle = name.encode("utf-8", "surrogateescape")
        if not needle:
            return
        everything, size = self._bytes, len(needle)
        at = everything.find(needle)
        while at >= 0:
            if everything[at - 1 : at] not in _WORD and everything[at + size : at + size + 1] not in _WORD:
                file = bisect_right(self._starts, at) - 1
                yield self._paths[file]
                at = everything.find(needle, self._starts[file + 1])
            else:
                at = everything.find(needle, at + 1)


_SET_BY_PARTS = re.compile(
    rb"\bsetattr\([^\n]*?,\s*(?:f[\"'](?P<begins>\w+)\{|[\"'](?P<first>\w+)[\"']\s*[+%]"
    rb"|f[\"'][^\"'\n]*\}(?P<ends>\w+)[\"'])"
)
"""`setattr(x, f"scale_{kind}", …)`, `"scale_" + kind`, `f"{kind}_scale"`."""


class Sources:
    """The `.py` files of a tree, each read and parsed at most once."""

    def __init__(self, tree: Tree, isolated: Callable[[str], bool], twin: Sources | None = None) -> None:
        self.tree = tree
        self.twin = twin
        """The other side of the change: what is the same object there is not read or parsed again."""
        self.isolated = isolated
        """Whether a path belongs to the change alone."""
        kinds = (FileKind.REGULAR, FileKind.EXECUTABLE)
        entries = [e for e in tree.list("") if e.path.endswith(".py") and e.kind in kinds]
        self.ids = {e.path: e.id for e in entries}
        self.paths: tuple[str, ...] = tuple(sorted(self.ids))
        self._data: dict[str, bytes] = {}
        self._loaded = False
        self.graph: ImportGraph | None = None
        """Who imports whom; None: nobody asked yet."""
        self.importers: dict[str, list[str]] | None = None
        """File → files that load it whenever they are loaded; None: nobody asked yet."""
        self.learnt = False
        """Whether this run found out something that an earlier one did not."""
        self._parsed: dict[str, Source] = {}
        self._searched: Corpus | None = None
        self._shared: tuple[str, ...] | None = None
        self.loaded: dict[tuple[str, frozenset[str]], bool] = {}
        """See `offpath.loading`: whether anything loads a module, beside those that nothing loads."""
        self._mentions: dict[str, tuple[str, ...]] = {}
        self._words: dict[str, Words] = {}
        self._defined: dict[str, int] = {}
        self._properties: dict[str, tuple[str, ...]] | None = None
        self._names = _module_names(self.paths, self._external)
        self._by_name: dict[str, str] = {}
        for path, name in self._names.items():
            self._by_name.setdefault(name, path)

    def __contains__(self, path: str) -> bool:
        return path in self.ids

    def _external(self, name: str) -> bool:
        """Whether the other side has no module of this name and imports one: a folder of that name deep in the tree
        that comes later is not what it imports."""
        if self.twin is None or any(n == name or n.startswith(f"{name}.") for n in self.twin.names()):
            return False
        if name in sys.stdlib_module_names:
            return True
        imported = re.compile(rb"^[ \t]*(?:import|from)[ \t]+" + re.escape(name.encode()) + rb"\b", re.M)
        return any(imported.search(self.twin.data(path)) for path in self.twin.mentions(name))

    def data(self, path: str) -> bytes:
        """Bytes of a file; empty when it is too large to be read."""
        if path not in self._data:
            if self.twin is not None and self.same(path):
                self._data[path] = self.twin.data(path)
            else:
                try:
                    self._data[path] = self.tree.read(path)
                except MissingFile:
                    self._data[path] = b""
        return self._data[path]

    def load(self) -> None:
        """Read every file, many at once: for whoever is going to look at them all."""
        if self._loaded:
            return
        self._loaded = True
        if self.twin is not None:
            self.twin.load()
        wanted = [p for p in self.paths if p not in self._data and not self.same(p)]
        self._data |= dict.fromkeys(wanted, b"") | dict(read_many(self.tree, wanted))

    def parse(self, path: str) -> Source:
        """The file, parsed."""
        if path not in self._parsed:
            same = self.twin if self.same(path) else None
            self._parsed[path] = same.parse(path) if same else parse(path, self.data(path))
        return self._parsed[path]

    def same(self, path: str) -> bool:
        """Whether the other side has the same object at this path."""
        return self.twin is not None and path in self.ids and self.twin.ids.get(path) == self.ids[path]

    def properties(self) -> dict[str, tuple[str, ...]]:
        """Name → files outside the isolated paths that define a property of that name."""
        if self._properties is None:
            found: dict[str, list[str]] = {}
            for path in self.shared():
                for name in set(_PROPERTY.findall(self.data(path))):
                    found.setdefault(name.decode("utf-8", "surrogateescape"), []).append(path)
            self.learnt = True
            self._properties = {name: tuple(paths) for name, paths in found.items()}
        return self._properties

    @cached_property
    def set_by_parts(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """What names that `setattr` puts together begin with, and what they end with."""
        found = [m for p in self.mentions("setattr") for m in _SET_BY_PARTS.finditer(self.data(p))]
        beginnings = {m["begins"] or m["first"] for m in found if not m["ends"]}
        return tuple(sorted(beginnings)), tuple(sorted({m["ends"] for m in found if m["ends"]}))

    def defines(self, name: str) -> int:
        """How many functions of this name there are outside the isolated paths."""
        if name not in self._defined:
            pattern = re.compile(rb"\bdef[ \t]+" + re.escape(name.encode("utf-8", "surrogateescape")) + rb"\b")
            self._defined[name] = sum(len(pattern.findall(self.data(p))) for p in self.mentions(name))
        return self._defined[name]

    def mentions(self, name: str) -> tuple[str, ...]:
        """Files outside the isolated paths that hold `name` as a whole word, anywhere (also in text and comments)."""
        if name not in self._mentions:
            self.learnt = True
            found = set(self._corpus().holding(name))
            if self.twin is not None:
                found.update(p for p in self.twin.mentions(name) if self.same(p))
            self._mentions[name] = tuple(sorted(found))
        return self._mentions[name]

    def knows(self, name: str, near: str) -> bool:
        """Whether any file mentions the name; `near`: where it most likely is, so that most need no search."""
        if near in self.ids and name not in self._mentions and not self.isolated(near):
            word = re.compile(rb"\b" + re.escape(name.encode("utf-8", "surrogateescape")) + rb"\b")
            if name.isascii() and word.search(self.data(near)):
                return True
        return bool(self.mentions(name))

    def holding(self, text: bytes, around: re.Pattern[bytes] | None = None) -> str:
        """The first file outside the isolated paths that holds these bytes; empty: none. `around`: as for `Corpus`."""
        found = self._corpus().first(text, around)
        if not found and self.twin is not None:
            found = self.twin.holding(text, around)
            found = found if self.same(found) else ""
        return found

    def remember(self, mentions: Mapping[str, tuple[str, ...]], properties: dict[str, tuple[str, ...]] | None) -> None:
        """Take over what an earlier run learnt of the same tree."""
        self._mentions.update(mentions)
        self._properties = properties

    def remembered(self) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]] | None]:
        """Files by the word that they mention, and by the property that they define, as far as anybody asked."""
        return self._mentions, self._properties

    @property
    def tree_id(self) -> str:
        """The same for the same Python files at the same places."""
        total = hashlib.sha256()
        for path in self.paths:
            total.update(path.encode("utf-8", "surrogateescape") + b"\0" + self.ids[path].encode() + b"\0")
        return total.hexdigest()

    def _corpus(self) -> Corpus:
        """What has to be searched here: files outside the isolated paths that the other side does not have alike."""
        if self._searched is None:
            self.load()
            own = [p for p in self.shared() if self.twin is None or not self.same(p) or self.twin.isolated(p)]
            self._searched = Corpus((p, self.data(p)) for p in own)
        return self._searched

    def shared(self) -> tuple[str, ...]:
        """Files outside the isolated paths."""
        if self._shared is None:
            self._shared = tuple(p for p in self.paths if not self.isolated(p))
        return self._shared

    def module_name(self, path: str) -> str:
        """Dotted name of the module at this path."""
        return self._names.get(path) or path.removesuffix(".py").replace("/", ".")

    def words(self, path: str) -> Words:
        """Names in a file, looked for once."""
        if path not in self._words:
            self._words[path] = Words.of(self.parse(path).module)
        return self._words[path]

    def names(self) -> Iterable[str]:
        """Dotted names of all modules."""
        return self._by_name

    def module_path(self, name: str) -> str | None:
        """Path of the module with this dotted name, None when it is not in the tree."""
        return self._by_name.get(name)

    def resolve(self, path: str, node: ast.ImportFrom) -> str:
        """Absolute dotted name of the module that `from … import` names in the file at `path`."""
        if not node.level:
            return node.module or ""
        package = self.module_name(path).split(".")
        if not path.endswith("__init__.py"):
            package = package[:-1]
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, *([node.module] if node.module else [])])


def _module_names(paths: Iterable[str], external: Callable[[str], bool]) -> dict[str, str]:
    """Path → dotted name, counted from above the outermost folder that is a package (namespace packages inside it
    count). `external`: whether the name of such a package below other folders means something outside the tree."""
    paths = tuple(paths)
    packages = {p.rpartition("/")[0] for p in paths if p.endswith("/__init__.py")}
    prefixes: dict[str, str] = {}
    names: dict[str, str] = {}
    for path in paths:
        folder, _, file = path.rpartition("/")
        if folder not in prefixes:
            prefixes[folder] = _package_name(folder, packages, external)
        name = file.removesuffix(".py")
        whole = [prefixes[folder]] if name == "__init__" and prefixes[folder] else [prefixes[folder], name]
        names[path] = ".".join(filter(None, whole))
    return names


def _package_name(folder: str, packages: Set[str], external: Callable[[str], bool]) -> str:
    parts = folder.split("/") if folder else []
    start = next((i for i in range(len(parts)) if "/".join(parts[: i + 1]) in packages), None)
    if start is None or (start and external(parts[start])):
        start = 1 if parts and parts[0] in ("src", "python", "lib") else 0
    return ".".join(parts[start:])
