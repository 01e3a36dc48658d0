"""f-strings as Python 3.12 reads them (PEP 701), for an older parser.

Inside a replacement field everything is allowed there: the same quotes, backslashes, comments, newlines, further
f-strings. A field that an older parser may not read is replaced by a name that occurs nowhere, and what it held is
parsed on its own and put back into the tree. Line numbers stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["lower_fstrings"]

_START = re.compile(r"(?<!\w)([A-Za-z]{0,2})('''|\"\"\"|'|\")")
_HARD = re.compile(r"['\"\\\n#]")
"""What a field of an older f-string must not hold."""
_PLACE = "__validator_field_{}__"
_MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class _Field:
    """What stood in a replacement field: an expression, or its own text (`{x=}` prints that)."""

    text: str
    line: int
    literal: bool = False


def lower_fstrings(text: str) -> tuple[str, Callable[[ast.Module], ast.Module]]:
    """The text with names in place of hard fields, and what puts the fields back into its tree.

    The second raises `SyntaxError` where a field holds no expression.
    """
    lowering = _Lowering(text)
    lowered = lowering.code(0, "")[0]
    return lowered, lambda module: _put_back(module, lowering.fields)


def _put_back(module: ast.Module, fields: dict[str, _Field]) -> ast.Module:
    whole: ast.Module = _Fill(fields).visit(module) if fields else module
    return whole


class _Fill(ast.NodeTransformer):
    def __init__(self, fields: dict[str, _Field]) -> None:
        self.fields = fields

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name of ours becomes what it stands for."""
        found = self.fields.get(node.id)
        if found is None:
            return node
        if found.literal:
            return ast.copy_location(ast.Constant(value=found.text), node)
        lowered, fill = lower_fstrings(f"({found.text}\n)")
        inner = fill(ast.parse(lowered))
        if len(inner.body) != 1 or not isinstance(inner.body[0], ast.Expr):
            raise SyntaxError("a replacement field holds no expression", ("", found.line, 0, found.text))
        ast.increment_lineno(inner, found.line - 1)
        return inner.body[0].value


class _Lowering:
    """Walks over a text once: code, strings in it, fields in these, code in those."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fields: dict[str, _Field] = {}
        self.depth = 0

    def code(self, at: int, stop: str) -> tuple[str, int]:
        """Code from `at` up to one of the characters `stop` outside brackets, or to the end: (lowered, end)."""
        out: list[str] = []
        level = 0
        while at < len(self.text):
            char = self.text[at]
            if char == "#":
                end = self.text.find("\n", at)
                end = len(self.text) if end < 0 else end
                out.append(self.text[at:end])
                at = end
                continue
            start = _START.match(self.text, at) if char.isalpha() or char in "'\"" else None
            if start and not (at and (self.text[at - 1].isalnum() or self.text[at - 1] == "_")):
                piece, at = self._string(start)
                out.append(piece)
                continue
            if stop and not level and char in stop and self.text[at : at + 2] != "!=":
                return "".join(out), at
            level += (char in "([{") - (char in ")]}")
            out.append(char)
            at += 1
        return "".join(out), at

    def _string(self, start: re.Match[str]) -> tuple[str, int]:
        """A string literal: (lowered, where it ends)."""
        prefix, quote = start[1].lower(), start[2]
        if not set(prefix) & {"f", "t"}:
            end = self._end_of_plain(start.end(), quote)
            return self.text[start.start() : end], end
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise SyntaxError("f-strings are nested too deeply", ("", self._line(start.start()), 0, ""))
        body, end, lost = self._body(start.end(), quote, "r" in prefix, spec=False)
        self.depth -= 1
        letters = "".join("f" if c in "ft" else c for c in prefix)
        return f"{letters}{quote}{body}{quote}" + "\\\n" * lost, end

    def _end_of_plain(self, at: int, quote: str) -> int:
        while at < len(self.text) and not self.text.startswith(quote, at):
            if self.text[at] == "\n" and len(quote) == 1:
                return at
            at += 2 if self.text[at] == "\\" else 1
        return min(at + len(quote), len(self.text))

    def _body(self, at: int, quote: str, raw: bool, *, spec: bool) -> tuple[str, int, int]:
        """(lowered body, where the string (or the format spec) ends, newlines that were taken out)."""
        out: list[str] = []
        lost = 0
        while at < len(self.text):
            if spec and self.text[at] == "}":
                return "".join(out), at, lost
            if not spec and self.text.startswith(quote, at):
                return "".join(out), at + len(quote), lost
            pair = self.text[at : at + 2]
            if pair in ("{{", "}}") and not spec:
                out.append(pair)
                at += 2
            elif self.text[at] == "{":
                piece, at, gone = self._field(at, quote, raw)
                out.append(piece)
                lost += gone
            elif self.text[at] == "\\" and not pair.startswith("\\{"):
                named = re.compile(r"\\N\{[^}]*\}").match(self.text, at) if not raw else None
                out.append(named[0] if named else pair)
                at += len(named[0]) if named else 2
            else:
                out.append(self.text[at])
                at += 1
        return "".join(out), at, lost

    def _field(self, at: int, quote: str, raw: bool) -> tuple[str, int, int]:
        """A replacement field from its `{`: (lowered, where it ends, newlines that were taken out)."""
        begin = at + 1
        _, end = self.code(begin, "!:}")
        written = self.text[begin:end]
        shows = re.search(r"(?<![=!<>:])=\s*$", written)
        expression = written[: shows.start()] if shows else written
        conversion, spec, lost = "", "", 0
        if self.text.startswith("!", end):
            found = re.compile(r"!\s*\w+\s*").match(self.text, end)
            conversion, end = (found[0].strip(), found.end()) if found else ("", end + 1)
        if self.text.startswith(":", end):
            spec, end, lost = self._body(end + 1, quote, raw, spec=True)
            spec = f":{spec}"
        end = end + 1 if self.text.startswith("}", end) else end
        if not _HARD.search(written):
            return f"{{{written}{conversion}{spec}}}", end, lost
        line = self._line(begin)
        value = self._placed(_Field(expression, line))
        if shows:
            label = self._placed(_Field(written, line, literal=True))
            value = f"{label}}}{{{value}"
            conversion = conversion or ("" if spec else "!r")
        return f"{{{value}{conversion}{spec}}}", end, lost + written.count("\n")

    def _placed(self, field: _Field) -> str:
        name = _PLACE.format(len(self.fields))
        self.fields[name] = field
        return name

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1
