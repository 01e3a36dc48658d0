"""One pass over the body of a kernel or function: statements, register scopes, labels, source positions.

The pass keeps offsets and a shared `Form` per opcode, not an object per instruction: operands are cut out of the text
when somebody asks for them.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from validator.ordering.ptx.declarations import Variable, variables_of
from validator.ordering.ptx.errors import PtxError
from validator.ordering.ptx.form import Flow, Form
from validator.ordering.ptx.lexical import TYPE_BITS, code_only
from validator.ordering.ptx.opcodes import END_OF_BODY, classify

__all__ = ["Body", "SourcePosition", "scan_body"]

MAX_DEPTH = 100
"""Nested scopes; compilers write one or two."""

LONG = 2048
MAX_OPERANDS = 1024
"""The longest instructions name 256 registers; the limit keeps the cost of one bounded."""

_STATEMENT = re.compile(
    r"""\s*+(?:
      (@\s*+!?\s*+[\w$%]++\s++)? ([a-zA-Z_]\w*+(?:(?:\.|::)\w++)*+) \s*+(?!:) ([^;{}]*+(?:\{[^{};]*+\}[^;{}]*+)*+);
    | (\.loc)\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9})(?![\w.])
        (?:\s*+,\s*+function_name\s++[\w$]++(?:\s*+\+\s*+\w++)?\s*+,\s*+inlined_at\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9}))?
        [^\S\n]*+;?+
    | ([A-Za-z_$%][\w$]*+)\s*+:(?!:)
    | ([{}])
    | (\.\w++)([^;]*+);
    | (;)
    | (\S)
    )""",
    re.VERBOSE | re.ASCII,
)
_JOINED = re.compile(r"[\w\])}]\s++[\w@$%\[{(.]", re.ASCII)
"""Two operands with nothing but space between them: a semicolon is missing."""
_SIDE_BY_SIDE = re.compile(r",[ \t]*+[^\s,;]++(?<=[\w\])}])[ \t]++[\w@$%\[{(.]", re.ASCII)
"""The same on one line and behind a comma, quick to look for in a whole body."""
_INSTRUCTION, _LOC, _INLINED, _LABEL, _BRACE, _DIRECTIVE, _EMPTY, _STRAY = 3, 7, 10, 11, 12, 14, 15, 16
_REGISTER = re.compile(r"([A-Za-z_$%][\w$]*+)\s*+(?:<\s*+(\d++)\s*+>)?")
_REGISTER_TYPE = re.compile(r"^\s*+(?:\.\w++(?:\s++\d++(?=\s))?\s*+)++")
_TARGET = re.compile(r"[A-Za-z_$%][\w$]*+")
_DIGITS = "0123456789"
_VARIABLES = frozenset(
    (".shared", ".global", ".const", ".local", ".param", ".tex", ".extern", ".visible", ".weak", ".common")
)
_NO_FALLTHROUGH = (Flow.BRANCH, Flow.INDIRECT, Flow.RETURN, Flow.EXIT, Flow.TRAP)
_IGNORED = frozenset((".pragma", ".callprototype", ".file", ".section", ".attribute", ".alias"))


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """What one `.loc` says."""

    file: int
    """Number in the .file table."""
    line: int
    inlined_at: tuple[int, int] | None
    """File number and line of the outermost call site."""


@dataclass(slots=True)
class _Scope:
    """Names declared between one pair of braces."""

    parent: int
    registers: dict[str, int] = field(default_factory=dict)
    """Name → -1, or prefix → count for `%r<5>`."""
    types: dict[str, str] = field(default_factory=dict)
    """The same names → declared type, `b32`."""
    variables: dict[str, Variable] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    """Label → index of the next instruction."""
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Label of a .branchtargets or .calltargets list → labels."""

    def declares(self, name: str) -> bool:
        if name in self.registers or name in self.variables:
            return True
        prefix = name.rstrip(_DIGITS)
        count = self.registers.get(prefix, -1)
        return count >= 0 and len(name) - len(prefix) < 10 and name != prefix and int(name[len(prefix) :]) < count


@dataclass(slots=True)
class Body:
    """Statements of one body. Indices are local, from 0, in text order."""

    text: str
    """Without comments."""
    first_line: int
    """1-based line of the file on which `text` begins."""
    forms: list[Form] = field(default_factory=list)
    starts: array[int] = field(default_factory=lambda: array("Q"))
    """Offset in `text` of each opcode."""
    ends: array[int] = field(default_factory=lambda: array("Q"))
    """Offset of each semicolon."""
    guards: dict[int, str] = field(default_factory=dict)
    """Index → `%p1` or `!%p1`."""
    scopes: list[_Scope] = field(default_factory=lambda: [_Scope(-1)])
    scope_starts: list[int] = field(default_factory=lambda: [0])
    scope_ids: list[int] = field(default_factory=lambda: [0])
    locs: list[SourcePosition] = field(default_factory=list)
    loc_starts: array[int] = field(default_factory=lambda: array("Q"))
    """Index of the first instruction that each entry of `locs` speaks of."""
    events: list[int] = field(default_factory=list)
    """Indices of instructions that touch memory or order it."""
    flow: list[int] = field(default_factory=list)
    """Indices of branches, calls, returns and exits."""
    parameter_stores: list[int] = field(default_factory=list)
    """Indices of st.param."""
    generic_parameters: bool = False
    """Whether a cvta.param makes generic addresses of parameters."""
    newlines: array[int] = field(default_factory=lambda: array("Q"))

    def scope(self, index: int) -> int:
        """Scope that instruction `index` stands in; 0 is the function's own."""
        if len(self.scopes) == 1:
            return 0
        return self.scope_ids[bisect_right(self.scope_starts, index) - 1]

    def operands(self, index: int) -> str:
        """Text between opcode and semicolon."""
        return self.text[self.starts[index] + len(self.forms[index].opcode) : self.ends[index]]

    def statement(self, index: int) -> str:
        """The whole statement on one line."""
        guard = self.guards.get(index)
        text = " ".join(self.text[self.starts[index] : self.ends[index] + 1].split())
        return f"@{guard} {text}" if guard else text

    def line(self, index: int) -> int:
        """1-based line of the file."""
        return self.line_at(self.starts[index])

    def line_at(self, offset: int) -> int:
        """1-based line of the file at `offset` of the text."""
        if not self.newlines:
            lengths = (len(line) + 1 for line in self.text.split("\n"))
            self.newlines = array("Q", accumulate(lengths))
        return self.first_line + bisect_right(self.newlines, offset)

    def source(self, index: int) -> SourcePosition | None:
        """What the last `.loc` before instruction `index` says; None when it says "nowhere" (line 0)."""
        at = bisect_right(self.loc_starts, index) - 1
        return self.locs[at] if at >= 0 and self.locs[at].line else None

    def declaring_scope(self, name: str, scope: int) -> int:
        """Innermost scope around `scope` that declares `name`; 0 when none but the function's own may."""
        while scope > 0:
            if self.scopes[scope].declares(name):
                return scope
            scope = self.scopes[scope].parent
        return 0

    def declares(self, name: str, scope: int) -> bool:
        """Whether `scope` or one around it declares a register or variable `name`: `%r7` of `%r<8>`, not `%r8`."""
        while scope >= 0:
            if self.scopes[scope].declares(name):
                return True
            scope = self.scopes[scope].parent
        return False

    def register_type(self, name: str, scope: int) -> str | None:
        """Declared type of register `name` as seen from `scope`: `b32`; None when no scope declares it."""
        types = self.scopes[self.declaring_scope(name, scope)].types
        return types.get(name) or types.get(name.rstrip(_DIGITS))

    def variable(self, name: str, scope: int) -> Variable | None:
        """The variable that `name` means in `scope`, when the body declares one."""
        while scope >= 0:
            found = self.scopes[scope].variables.get(name)
            if found is not None:
                return found
            scope = self.scopes[scope].parent
        return None

    def label(self, name: str, scope: int) -> int | None:
        """Index of the instruction behind label `name` as seen from `scope`."""
        while scope >= 0:
            found = self.scopes[scope].labels.get(name)
            if found is not None:
                return found
            scope = self.scopes[scope].parent
        return None

    def branch_targets(self, name: str, scope: int) -> tuple[str, ...] | None:
        """Labels of the list that label `name` stands before."""
        while scope >= 0:
            found = self.scopes[scope].targets.get(name)
            if found is not None:
                return found
            scope = self.scopes[scope].parent
        return None


class _Sources:
    """Chains of `inlined_at`: a .loc names the position its function was inlined at, which has a .loc of its own."""

    def __init__(self) -> None:
        self._outermost: dict[tuple[str | Any, ...], tuple[int, int] | None] = {}

    def position(self, match: re.Match[str]) -> SourcePosition:
        outermost = None
        if match.lastindex == _INLINED:
            file, line = match.group(8, 9)
            outermost = self._outermost.get(match.group(8, 9, 10)) or (int(file), int(line))
        self._outermost[match.group(5, 6, 7)] = outermost
        return SourcePosition(int(match[5]), int(match[6]), outermost)


def _declare_registers(scope: _Scope, text: str) -> None:
    head = _REGISTER_TYPE.match(text)
    kind = next((w for w in re.findall(r"\.(\w++)", head[0]) if w in TYPE_BITS), "b32") if head else "b32"
    for part in _REGISTER_TYPE.sub("", text).split(","):
        match = _REGISTER.match(part.strip())
        if match is not None:
            scope.registers[match[1]] = -1 if match[2] is None else int(match[2][:9])
            scope.types[match[1]] = kind


def _declare(scope: _Scope, word: str, text: str, label: str | None) -> bool:
    """Take in a directive; False when it is not a known one."""
    if word == ".reg":
        _declare_registers(scope, text)
    elif word in _VARIABLES:
        for variable in variables_of(word + text):
            scope.variables[variable.name] = variable
    elif word in (".branchtargets", ".calltargets"):
        if label is not None:
            scope.targets[label] = tuple(_TARGET.findall(text))
    else:
        return word in _IGNORED
    return True


def _unended_lines(text: str) -> Iterator[int]:
    """Offsets behind lines that end in the middle of something."""
    offset = 0
    for line in text.split("\n"):
        offset += len(line) + 1
        code = line.rstrip()
        if code and code[-1] not in ";:,{}":
            yield offset


def _run_together(body: Body) -> int | None:
    """Index of an instruction that swallowed the next one for want of a semicolon."""
    cleared = -1
    for offset in sorted((*_unended_lines(body.text), *(m.end() for m in _SIDE_BY_SIDE.finditer(body.text)))):
        index = bisect_right(body.starts, offset - 1) - 1
        if index > cleared and offset <= body.ends[index]:
            cleared = index
            start = body.starts[index] + len(body.forms[index].opcode) + 1
            if _JOINED.search(body.text, start, body.ends[index]):
                return index
    return None


def _branches_to_end(body: Body) -> bool:
    """Whether a branch goes to a label that stands right before the closing brace."""
    end = {name for scope in body.scopes for name, index in scope.labels.items() if index == len(body.forms)}
    listed = {name for scope in body.scopes for names in scope.targets.values() for name in names}
    branches = (index for index in body.flow if body.forms[index].flow is Flow.BRANCH)
    return bool(end) and (not end.isdisjoint(listed) or any(body.operands(index).strip() in end for index in branches))


def _unbalanced(body: Body) -> int | None:
    """Index of the first instruction whose brackets or parentheses do not pair up."""
    for opening, closing in ("[]", "()"):
        if body.text.count(opening) != body.text.count(closing):
            for index in range(len(body.forms)):
                text = body.operands(index)
                if text.count(opening) != text.count(closing):
                    return index
    return None


def _finish(body: Body, offset: int) -> None:
    """The closing brace at `offset` returns, where control can reach it."""
    body.generic_parameters = "cvta.param" in body.text
    last = len(body.forms) - 1
    falls = last < 0 or last in body.guards or body.forms[last].flow not in _NO_FALLTHROUGH
    if falls or _branches_to_end(body):
        body.flow.append(len(body.forms))
        body.events.append(len(body.forms))
        body.forms.append(END_OF_BODY)
        body.starts.append(offset)
        body.ends.append(offset)


def _broken(body: Body, name: str, offset: int) -> PtxError:
    """The error for a statement that cannot be one."""
    shown = body.text[offset : offset + 40].split("\n")[0]
    fix = "a semicolon or bracket is missing, or the file is cut off"
    return PtxError(f"not a whole PTX statement: {shown!r}", name, body.line_at(offset), fix)


def scan_body(raw: str, name: str, first_line: int) -> Body:
    """Statements of `raw`, the text between the braces of a body plus the closing brace.

    Raises `PtxError` with the line of the first statement that cannot be one.
    """
    text = code_only(raw)
    body = Body(text, first_line)
    forms, starts, ends = body.forms, body.starts, body.ends
    add_form, add_start, add_end = forms.append, starts.append, ends.append
    sources = _Sources()
    here = depth = 0
    label: str | None = None
    for match in _STATEMENT.finditer(text):
        kind = match.lastindex
        if kind == _INSTRUCTION:
            guard, opcode = match.group(1, 2)
            form = classify(opcode)
            index = len(forms)
            add_form(form)
            add_start(match.start(2))
            add_end(match.end(3))
            if ends[index] - starts[index] > LONG and text.count(",", starts[index], ends[index]) > MAX_OPERANDS:
                raise PtxError(f"an instruction with more than {MAX_OPERANDS} operands", name, body.line(index))
            if guard is not None:
                body.guards[index] = "".join(guard[1:].split())
            if form.flow is not Flow.NEXT:
                body.flow.append(index)
            elif form.parameter_store:
                body.parameter_stores.append(index)
            if form.event is not None:
                body.events.append(index)
        elif kind in (_LOC, _INLINED):
            body.locs.append(sources.position(match))
            body.loc_starts.append(len(forms))
        elif kind == _LABEL:
            label = match[_LABEL]
            body.scopes[here].labels[label] = len(forms)
        elif kind == _BRACE:
            if match[_BRACE] == "{":
                body.scopes.append(_Scope(here))
                here = len(body.scopes) - 1
                depth += 1
                if depth > MAX_DEPTH:
                    raise PtxError(f"more than {MAX_DEPTH} nested scopes", name, body.line_at(match.start(_BRACE)))
            else:
                here = body.scopes[here].parent
                depth -= 1
                if here < 0:
                    _finish(body, match.start(_BRACE))
                    for odd in (_unbalanced(body), _run_together(body)):
                        if odd is not None:
                            raise _broken(body, name, starts[odd])
                    return body
            body.scope_starts.append(len(forms))
            body.scope_ids.append(here)
        elif kind == _DIRECTIVE:
            word = match[13]
            if not _declare(body.scopes[here], word, match[_DIRECTIVE], label):
                body.events.append(len(forms))
                add_form(classify(word))
                add_start(match.start(13))
                add_end(match.end(_DIRECTIVE))
        elif kind == _STRAY:
            raise _broken(body, name, match.start(_STRAY))
    raise PtxError("the body is not closed", name, body.line_at(len(text)), "the file is cut off; build it again")
