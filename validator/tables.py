"""TOML text to a pydantic model, with every mistake found at once: file, line, key and the nearest valid name.

Used for policies, waivers and manifests alike. The text is untrusted: its size, its nesting and the length of its
dotted keys are bounded before a parser sees it.
"""

from __future__ import annotations

import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from validator.errors import Problem, ValidatorError
from validator.further import further_errors
from validator.positions import Path, positions
from validator.text import nearest, shorten

__all__ = [
    "MAX_BYTES",
    "Document",
    "TableError",
    "line_of",
    "load_document",
    "load_model",
    "parse_document",
    "validate",
]

MAX_BYTES = 1024 * 1024
"""Bytes one TOML file may have."""
_MAX_PROBLEMS = 200

_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""")
"""The standard parser needs quadratic time for a key of many dotted parts."""

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "date_from_datetime_parsing": "a date such as 2026-11-29",
    "date_parsing": "a date such as 2026-11-29",
    "date_type": "a date such as 2026-11-29",
    "dict_type": "a table",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "string_type": "a string",
    "tuple_type": "an array",
}
"""pydantic's error types in the words of a TOML file."""

M = TypeVar("M", bound=BaseModel)


class TableError(ValidatorError):
    """A TOML file cannot be used."""


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed file."""

    name: str
    """Path, as a person would name it; untrusted text."""
    values: Mapping[str, Any]
    lines: Mapping[Path, int]
    """Key path → 1-based line."""

    def place(self, path: Path = ()) -> str:
        """`file:line: key.path`, at the nearest key that is there."""
        line = self.nearest_line(path)
        where = f"{self.name}:{line}" if line else self.name
        return f"{where}: {dotted(path)}" if path else where

    def nearest_line(self, path: Path) -> int:
        """1-based line of a key, or of the nearest table around it that is there; 0: none is."""
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 0)


def dotted(path: Path) -> str:
    """`kernels[0].args[2].role`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return shorten(text, 200)


def line_of(problem: Problem, name: str) -> int | None:
    """Line of a problem in the file `name`, where one is known (`Document.place` wrote it)."""
    match = re.match(r":(\d+)(?:$|:)", problem.where.removeprefix(name))
    return int(match[1]) if match else None


def load_document(data: bytes, name: str, schema: str) -> Document:
    """Parses one file and checks its `schema` before anything else. Raises `TableError`."""
    document = parse_document(data, name)
    found = document.values.get("schema")
    if found == schema:
        return document
    if found is None:
        problem = Problem("missing key `schema`", name, f'begin the file with: schema = "{schema}"')
    else:
        fix = f'this version reads schema = "{schema}"'
        problem = Problem(f"`schema` is {shorten(repr(found), 80)}", document.place(("schema",)), fix)
    raise TableError(problem)


def load_model(model: type[M], data: bytes, name: str, schema: str) -> tuple[M, Document]:
    """One file as one model. Raises `TableError` with all problems."""
    document = load_document(data, name, schema)
    return validate(model, document), document


def validate(model: type[M], document: Document) -> M:
    """The document's values as a model. Raises `TableError` with all problems."""
    try:
        return model.model_validate(dict(document.values))
    except ValidationError as error:
        raise TableError(*_problems(error, model, document)) from None
    except RecursionError:
        raise TableError(Problem("tables are nested too deep", document.name)) from None


def parse_document(data: bytes, name: str) -> Document:
    """Any TOML file, whatever its keys mean. Raises `TableError`."""
    if len(data) > MAX_BYTES:
        raise TableError(Problem(f"has {len(data):,} bytes, more than the {MAX_BYTES:,} that are read", name))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8"
        raise TableError(Problem(what, f"{name}:{line}", "save the file as UTF-8")) from None
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise TableError(Problem("a key has more than 32 dotted parts", f"{name}:{line}"))
    try:
        document = Document(name, tomllib.loads(text), positions(text))
    except tomllib.TOMLDecodeError as error:
        raise TableError(_syntax(str(error), name, text)) from None
    except RecursionError:
        raise TableError(Problem("values are nested too deep", name)) from None
    except (ValueError, OverflowError) as error:  # a number of more digits than Python reads
        raise TableError(Problem(f"a value cannot be read: {str(error).partition(':')[0]}", name)) from None
    if long_numbers := [
        Problem("is no 64-bit number", document.place(path)) for path in _long_numbers(document.values)
    ]:
        raise TableError(*long_numbers[:_MAX_PROBLEMS])
    return document


def _long_numbers(values: Mapping[str, Any]) -> Iterator[Path]:
    """Whole numbers beyond what TOML promises: Python reads them, written in hexadecimal, and cannot print them."""
    pending: list[tuple[Path, Any]] = [((), values)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            pending += [((*path, at), inner) for at, inner in enumerate(value)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield path


def _syntax(message: str, name: str, text: str) -> Problem:
    """tomllib says `What (at line 3, column 7)` or `… (at end of document)`."""
    match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if match is None:
        return Problem(f"not valid TOML: {message}", name)
    line = match[1] or str(text.count("\n") + 1)
    what = message[: match.start()]
    column = f", column {match[2]}" if match[2] else ", at the end"
    return Problem(f"not valid TOML: {what[:1].lower()}{what[1:]}{column}", f"{name}:{line}")


def _problems(error: ValidationError, model: type[BaseModel], document: Document) -> list[Problem]:
    """pydantic's errors as problems, in the order of the file."""
    found: dict[tuple[int, Path, str], Problem] = {}
    at_first = error.errors(include_url=False)
    later = further_errors(model, document.values, error, lambda loc: _known(loc, document, keep_last=False))
    for item in (*at_first, *later):
        at = _known(tuple(item["loc"]), document, keep_last=item["type"] == "missing")
        whats, fix = _words(item, at, model)
        for what in whats.split("\n"):
            path = _named(what, at, document) if item["type"] == "value_error" else at
            found.setdefault((document.nearest_line(path), path, what), Problem(what, document.place(path), fix))
    problems = [found[key] for key in sorted(found, key=lambda key: (key[0], dotted(key[1]), key[2]))]
    if len(problems) > _MAX_PROBLEMS:
        rest = Problem(f"{len(problems) - _MAX_PROBLEMS} more problems", document.name)
        return [*problems[:_MAX_PROBLEMS], rest]
    return problems


def _known(path: Path, document: Document, *, keep_last: bool) -> Path:
    """Without the parts that pydantic adds for the branches of a union."""
    known: Path = ()
    for part in path:
        if (*known, part) in document.lines:
            known = (*known, part)
    return (*known, path[-1]) if keep_last and path else known


def _named(message: str, path: Path, document: Document) -> Path:
    """A check over a whole table quotes the key it means in backticks."""
    for key in re.findall(r"`([\w-]+)`", message):
        if (*path, key) in document.lines:
            return (*path, key)
    return path


def _words(item: Any, path: Path, model: type[BaseModel]) -> tuple[str, str]:
    """What is wrong (a check over a whole table may say several things, a line each), and how to mend it."""
    kind, given = item["type"], item.get("input")
    if kind == "missing":
        return f"missing key `{path[-1]}`", ""
    if kind == "extra_forbidden":
        known = _keys(model, path[:-1])
        close = nearest(str(path[-1]), known)
        return f"unknown key `{shorten(str(path[-1]), 80)}`", f"did you mean `{close}`?" if close else _list(known)
    if kind in ("enum", "literal_error"):
        expected = re.findall(r"'([^']*)'", item.get("ctx", {}).get("expected", ""))
        close = nearest(given, expected) if isinstance(given, str) else None
        return f"{_shown(given)} is not a valid value", f"did you mean {close!r}?" if close else _list(expected)
    if kind == "value_error":
        return str(item["ctx"]["error"]), ""
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, not {_shown(given)}", ""
    if kind in ("string_too_short", "too_short"):
        least, unit = item["ctx"]["min_length"], "character" if kind == "string_too_short" else "element"
        return f"expected at least {least} {unit}{'s' * (least != 1)}, not {_shown(given)}", ""
    if kind == "string_pattern_mismatch":
        return f"{_shown(given)} is not of the form {item['ctx']['pattern']}", ""
    message = item["msg"][:1].lower() + item["msg"][1:]
    return f"{message}, not {_shown(given)}", ""


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "an array" if value else "an empty array"
    return shorten(repr(value), 80)


def _list(names: Sequence[str]) -> str:
    return f"known: {', '.join(names)}" if names else ""


def _keys(model: type[BaseModel], path: Path) -> list[str]:
    """Names of the keys that the table at `path` may have."""
    kinds: list[Any] = [model]
    for part in path:
        kinds = [inner for kind in kinds for inner in _inner(kind, part)]
    names = [
        field.alias or name
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for name, field in kind.model_fields.items()
    ]
    return list(dict.fromkeys(names))


def _inner(kind: Any, part: str | int) -> list[Any]:
    """What stands at a key or index of a type, its unions and annotations opened."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = [f for name, f in kind.model_fields.items() if part in (name, f.alias)]
        return [inner for f in fields for inner in _open(f.annotation)]
    arguments = typing.get_args(kind)
    return [
        inner for argument in arguments[-1 if typing.get_origin(kind) is dict else 0 :] for inner in _open(argument)
    ]


def _open(kind: Any) -> list[Any]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _open(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [inner for argument in typing.get_args(kind) for inner in _open(argument)]
    return [kind]
