"""A PTX file: its directives, variables, functions and kernels. Bodies are only delimited here, not parsed."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from validator.ordering.ptx.body import Body, scan_body
from validator.ordering.ptx.declarations import Header, Variable, header_of, variables_of
from validator.ordering.ptx.errors import PtxError
from validator.ordering.ptx.lexical import code_only
from validator.ordering.ptx.program import PtxProgram, Shelf, Surroundings

__all__ = ["PtxFunction", "PtxModule", "read_ptx"]

_SPACE = re.compile(rb"(?:\s++|//[^\n]*+|/\*(?s:.*?)(?:\*/|\Z))")
_WORD = re.compile(rb"\.([A-Za-z_]\w*+)")
_VERSION = re.compile(rb"\s*+(\d{1,3}\.\d{1,3})")
_TARGET = re.compile(rb"\s*+(\w++(?:[ \t]*+,\s*+\w++)*+)")
_NUMBER = re.compile(rb"\s*+(\d++)")
_FILE = re.compile(
    rb'\s*+(\d{1,9})\s++"((?:[^"\\\n]|\\.)*+)"(?:\s*+"((?:[^"\\\n]|\\.)*+)")?(?:\s*+,\s*+\d++\s*+,\s*+\d++)?'
)
_ALIAS = re.compile(r"\s*+([\w$%]++)\s*+,\s*+([\w$%]++)\s*+$")
_TOKEN = re.compile(rb'//[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*+"?|[{}]')
_TOKEN_OR_END = re.compile(rb'//[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*+"?|[{};]')
_REST_OF_LINE = re.compile(rb"[^\n;{]*+")
_OPEN, _CLOSE, _SEMICOLON = b"{"[0], b"}"[0], b";"[0]
_CUT = "the file is cut off; build it again"
_LINKAGE = frozenset((b"visible", b"extern", b"weak", b"common"))
_VARIABLES = frozenset(
    (b"global", b"const", b"shared", b"local", b"param", b"tex", b"texref", b"samplerref", b"surfref", b"reg")
)


@dataclass
class PtxFunction:
    """A `.func`: with a body when the file defines it."""

    header: Header
    name: str
    """Of the file, for messages."""
    raw: bytes | None
    """Body from behind the opening brace to the closing one."""
    first_line: int

    @cached_property
    def body(self) -> Body | None:
        """Parsed when first called; raises `PtxError`."""
        return None if self.raw is None else scan_body(self.raw.decode("latin-1"), self.name, self.first_line)


@dataclass(frozen=True)
class PtxModule:
    """One PTX file."""

    name: str
    """As the caller named it."""
    version: str
    """PTX ISA version, `9.0`."""
    target: str
    """First target: `sm_90a`."""
    targets: tuple[str, ...]
    """All of them, with options such as `debug`."""
    address_size: int
    programs: tuple[PtxProgram, ...]
    """One per `.entry` with a body, in file order."""
    functions: dict[str, PtxFunction]
    files: dict[int, str]
    """.file table: number → path as the compiler wrote it (untrusted)."""
    variables: dict[str, Variable]
    """Module-scope variables."""
    aliases: dict[str, str]
    unknown: dict[str, int]
    """Module directives this reader does not know → count."""

    @property
    def digests(self) -> dict[str, str]:
        """Kernel name → sha256 of its own text."""
        return {program.name: program.digest for program in self.programs}


def read_ptx(data: bytes, name: str) -> PtxModule:
    """Read a PTX file; `name` stands in messages. Raises `PtxError` for anything that is not one whole PTX module.

    Bodies are parsed when a program is first asked about its body, which may raise `PtxError` as well.
    """
    return _Reader(data.rstrip(b"\0"), name).module()


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Where an `.entry` stands: byte offsets in the file."""

    header: Header
    start: int
    body: int
    stop: int
    first_line: int
    """Line of the opening brace."""


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.position = 0
        self._counted = (0, 1)
        self.version = ""
        self.targets: tuple[str, ...] = ()
        self.address_size = 32
        self.files: dict[int, str] = {}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, PtxFunction] = {}
        self.aliases: dict[str, str] = {}
        self.unknown: Counter[str] = Counter()
        self.kernels: list[_Kernel] = []

    def line(self, offset: int) -> int:
        """1-based line of `offset`; offsets asked in rising order cost one pass over the file together."""
        at, line = self._counted
        if offset < at:
            return self.data.count(b"\n", 0, offset) + 1
        line += self.data.count(b"\n", at, offset)
        self._counted = (offset, line)
        return line

    def error(self, what: str, offset: int, fix: str = "") -> PtxError:
        return PtxError(what, self.name, self.line(offset), fix)

    def text(self, start: int, stop: int) -> str:
        return code_only(self.data[start:stop].decode("latin-1"))

    def skip_space(self) -> bool:
        """Move behind white space and comments; False at the end of the file."""
        while (match := _SPACE.match(self.data, self.position)) is not None:
            self.position = match.end()
        return self.position < len(self.data)

    def close(self, start: int) -> int:
        """Offset behind the brace that closes the one at `start`."""
        depth = 0
        data = self.data
        for match in _TOKEN.finditer(data, start):
            byte = data[match.start()]
            if byte == _OPEN:
                depth += 1
            elif byte == _CLOSE:
                depth -= 1
                if depth == 0:
                    return match.end()
        line = self.line(start)
        raise self.error(
            f"the file ends inside the block that opens in line {line}",
            len(data),
            _CUT,
        )

    def until(self, ends: bytes) -> tuple[int, int]:
        """(offset, byte) of the first of `ends` outside comments and strings, braces skipped unless asked for."""
        data = self.data
        depth = 0
        for match in _TOKEN_OR_END.finditer(data, self.position):
            byte = data[match.start()]
            if byte in ends and depth == 0 and match.end() - match.start() == 1:
                return match.start(), byte
            if byte == _OPEN:
                depth += 1
            elif byte == _CLOSE:
                depth -= 1
        raise self.error("the file ends inside a declaration", len(data), _CUT)

    def module(self) -> PtxModule:
        if not self.skip_space():
            raise self.error("the file is empty", 0)
        if not self.data.startswith(b".version", self.position):
            raise self.error("not PTX: a PTX file begins with .version", self.position)
        while self.skip_space():
            self.directive()
        if not self.targets:
            raise self.error("no .target directive", len(self.data), _CUT)
        return self.assemble()

    def directive(self) -> None:
        start = self.position
        match = _WORD.match(self.data, start)
        if match is None:
            if self.data[start] == _SEMICOLON:
                self.position += 1
            elif self.data.startswith(b"@@", start):
                self.position = self.data.find(b"\n", start) % (len(self.data) + 1)
            else:
                shown = self.data[start : start + 40].split(b"\n")[0].decode("latin-1")
                raise self.error(f"no PTX directive begins with {shown!r}", start, "is the file cut off or not PTX?")
            return
        word = match[1]
        self.position = match.end()
        if word in _LINKAGE:
            if not self.skip_space():
                raise self.error("the file ends inside a declaration", len(self.data), _CUT)
            return
        if word in (b"entry", b"func"):
            self.function(word == b"entry", start)
        elif word in _VARIABLES:
            self.position = start
            stop, _ = self.until(b";")
            equals = self.data.find(b"=", start, stop)
            for variable in variables_of(self.text(start, stop if equals < 0 else equals)):
                self.variables[variable.name] = variable
            self.position = stop + 1
        else:
            self.simple(word, start)

    def simple(self, word: bytes, start: int) -> None:
        """Directives without a body."""
        if word == b"version":
            self.version = self.matched(_VERSION, start)
        elif word == b"target":
            self.targets = tuple(part.strip() for part in self.matched(_TARGET, start).split(","))
        elif word == b"address_size":
            self.address_size = int(self.matched(_NUMBER, start)[:4])
        elif word == b"file":
            self.file(start)
        elif word == b"section":
            opening, _ = self.until(b"{")
            self.position = self.close(opening)
        elif word == b"alias":
            stop, _ = self.until(b";")
            alias = _ALIAS.match(self.text(self.position, stop))
            if alias is None:
                raise self.error("an .alias names two functions", start)
            self.aliases[alias[1]] = alias[2]
            self.position = stop + 1
        elif word == b"pragma":
            self.position = self.until(b";")[0] + 1
        elif word == b"attribute":
            self.position = self.data.find(b")", start) + 1 or len(self.data)
        else:
            self.skip_unknown(word)

    def skip_unknown(self, word: bytes) -> None:
        """Count a directive nobody told this reader about, and go behind it: a line, a statement or a block."""
        self.unknown["." + word.decode("latin-1")[:60]] += 1
        start = self.position
        rest = _REST_OF_LINE.match(self.data, start)
        self.position = rest.end() if rest is not None else start
        if self.position == len(self.data):
            raise self.error("the file ends inside a directive", start, _CUT)
        if self.data[self.position] == _OPEN:
            self.position = self.close(self.position)

    def matched(self, pattern: re.Pattern[bytes], start: int) -> str:
        match = pattern.match(self.data, self.position)
        if match is None:
            shown = self.data[start : start + 40].split(b"\n")[0].decode("latin-1")
            raise self.error(f"malformed directive {shown!r}", start)
        self.position = match.end()
        return match[1].decode("latin-1")

    def file(self, start: int) -> None:
        match = _FILE.match(self.data, self.position)
        if match is None:
            raise self.error("malformed .file directive", start)
        parts = [part.decode("utf-8", "replace") for part in match.groups()[1:] if part is not None]
        self.files[int(match[1])] = "/".join(parts)
        self.position = match.end()

    def function(self, kernel: bool, start: int) -> None:
        """`.entry` or `.func`: header, then a body or a semicolon."""
        begin = self.position
        stop, byte = self.until(b"{;")
        while byte == _SEMICOLON and self.text(self.position, stop).rstrip().endswith('"'):
            # The semicolon of a .pragma among the performance directives.
            self.position = stop + 1
            stop, byte = self.until(b"{;")
        header = header_of(self.text(begin, stop))
        if header is None:
            raise self.error(f"malformed header of {'an .entry' if kernel else 'a .func'}", start)
        first_line = self.line(stop)
        self.position = stop + 1
        body_end = self.close(stop) if byte == _OPEN else None
        if body_end is not None:
            self.position = body_end
        if kernel:
            if body_end is not None:
                self.kernels.append(_Kernel(header, start, stop + 1, body_end, first_line))
            return
        known = self.functions.get(header.name)
        if known is None or known.raw is None:
            raw = None if body_end is None else self.data[stop + 1 : body_end]
            self.functions[header.name] = PtxFunction(header, self.name, raw, first_line)

    def resolve(self, name: str) -> tuple[Header, Body | None] | None:
        """The function a call names, through aliases."""
        function = self.functions.get(self.aliases.get(name, name))
        return None if function is None else (function.header, function.body)

    def assemble(self) -> PtxModule:
        around = Surroundings(
            self.name, self.variables, self.functions, self.files, self.resolve, dict(sorted(self.unknown.items()))
        )
        shelf = Shelf()
        programs = tuple(self.program(kernel, around, shelf) for kernel in self.kernels)
        return PtxModule(
            name=self.name,
            version=self.version,
            target=self.targets[0],
            targets=self.targets,
            address_size=self.address_size,
            programs=programs,
            functions=self.functions,
            files=self.files,
            variables=self.variables,
            aliases=self.aliases,
            unknown=dict(sorted(self.unknown.items())),
        )

    def program(self, kernel: _Kernel, around: Surroundings, shelf: Shelf) -> PtxProgram:
        data, name = self.data, self.name

        def scan() -> Body:
            return scan_body(data[kernel.body : kernel.stop].decode("latin-1"), name, kernel.first_line)

        digest = hashlib.sha256(memoryview(data)[kernel.start : kernel.stop]).hexdigest()
        return PtxProgram(kernel.header, self.targets[0], digest, scan, around, shelf)
