"""TOML with line numbers: positions agree with the parser, mistakes come all at once, hostile text ends quickly."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from validator.positions import Path, positions
from validator.tables import MAX_BYTES, TableError, load_document, load_model, parse_document


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every key path of parsed values."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


TEXT = """\
# comment with "quotes" and [brackets]
title = "a # b"   # not [a.table]
multi = '''
[not.a.table]
key = "x"
'''
also = \"\"\"two ""quotes\"\" and \\\"\"\" escaped
last\"\"\"\"\"
"quoted key".'and this' = [ 1, # one
  2,
  { a = 1, b = [ "]", '}' ] }, ]

[table."x.y"]
date = 1979-05-27 07:32:00
[[array]]
n = 1
  [array.sub]
  k = { deep.er = true }
[[array]]
n = 2
[[array.inner]]
m = 3
[[array.inner]]
m = 4
"""


def test_positions_by_hand() -> None:
    lines = positions(TEXT)
    assert set(lines) >= set(paths(tomllib.loads(TEXT)))
    expected = {
        ("title",): 2,
        ("multi",): 3,
        ("also",): 7,
        ("quoted key", "and this"): 9,
        ("quoted key", "and this", 1): 10,
        ("quoted key", "and this", 2, "b"): 11,
        ("table", "x.y", "date"): 14,
        ("array", 0, "n"): 16,
        ("array", 0, "sub", "k", "deep", "er"): 18,
        ("array", 1, "n"): 20,
        ("array", 1, "inner", 1, "m"): 24,
    }
    assert {path: lines[path] for path in expected} == expected


keys = st.one_of(st.text("ab-_1", min_size=1, max_size=3), st.sampled_from(['"q k"', "'l.t'", '"e\\u0041\\""', '""']))
scalars = st.sampled_from(
    [
        *("1", "0x1f", "1.5e3", "nan", "true", '"s"', '"a \\" # ] }"', "'l]}#'", '"""m\n"x" ]"""', "'''\n'q' #\n'''"),
        *("1979-05-27", "07:32:00", '""', "''", '"""a""""', "''''a'''"),
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # c\n" + ",\n ".join(items) + " ]"),
        st.lists(st.tuples(keys, inner), max_size=2).map(
            lambda kv: "{ " + ", ".join(f"{k} = {v}" for k, v in kv) + " }"
        ),
    ),
    max_leaves=5,
)
lines_ = st.one_of(
    st.tuples(st.lists(keys, min_size=1, max_size=3), values).map(lambda kv: f"{' . '.join(kv[0])} = {kv[1]}"),
    st.lists(keys, min_size=1, max_size=3).map(lambda k: f"[ {'.'.join(k)} ]"),
    st.lists(keys, min_size=1, max_size=3).map(lambda k: f"[[{'.'.join(k)}]] # c"),
    st.just("# comment [x]"),
    st.just(""),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(lines_, max_size=8))
def test_positions_agree_with_the_parser(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = positions(text)
    assert set(paths(parsed)) <= set(found)
    assert set(found) <= set(paths(parsed))
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=80), st.text(max_size=80).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_are_a_document_or_an_error(data: bytes) -> None:
    try:
        document = parse_document(data, "x.toml")
    except TableError as error:
        said = [str(problem) for problem in error.problems]
    else:
        said = []
        assert set(paths(document.values)) <= set(document.lines)
    assert all(problem.startswith("x.toml") for problem in said)


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = Field(strict=True)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schema_: str = Field(alias="schema")
    name: str
    inner: tuple[Inner, ...] = ()
    table: dict[str, Inner] = {}
    either: Inner | str = ""


def problems(text: str) -> list[str]:
    with pytest.raises(TableError) as caught:
        load_model(Outer, text.encode(), "f.toml", "s/1")
    return [str(p) for p in caught.value.problems]


def test_all_mistakes_at_once_with_line_key_and_nearest_name() -> None:
    assert problems(
        'schema = "s/1"\nnaem = "x"\n[[inner]]\ncount = "1"\n[[inner]]\ncuont = 2\n[table.a]\ncount = true\n'
    ) == [
        "f.toml: name: missing key `name`",
        "f.toml:2: naem: unknown key `naem`; did you mean `name`?",
        "f.toml:4: inner[0].count: expected a whole number, not '1'",
        "f.toml:5: inner[1].count: missing key `count`",
        "f.toml:6: inner[1].cuont: unknown key `cuont`; did you mean `count`?",
        "f.toml:8: table.a.count: expected a whole number, not True",
    ]


def test_the_branches_of_a_union_do_not_hide_the_key() -> None:
    assert all("f.toml:3: either" in p for p in problems('schema = "s/1"\nname = "x"\neither = 3\n'))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.toml: missing key `schema`; begin the file with"),
        ('x = 1\nschema = "s/2"\nunknown = 1', "f.toml:2: schema: `schema` is 's/2'; this version reads"),
        ("schema = 1", "f.toml:1: schema: `schema` is 1"),
        ("a = 1\na = 2\n", "f.toml:2: not valid TOML: cannot overwrite a value, column 6"),
        ("a = [1,\n2", "f.toml:2: not valid TOML: unclosed array, at the end"),
    ],
)
def test_schema_first_and_syntax(text: str, expected: str) -> None:
    with pytest.raises(TableError) as caught:
        load_document(text.encode(), "f.toml", "s/1")
    assert len(caught.value.problems) == 1
    assert str(caught.value).startswith(expected)


def test_encoding() -> None:
    with pytest.raises(TableError, match=r"f\.toml:2: byte 6 \(0xff\) is not UTF-8"):
        parse_document(b"a = 1\n\xff", "f.toml")
    assert parse_document(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n", "f.toml").lines[("b",)] == 2


@pytest.mark.parametrize(
    "text",
    [
        "a." * 100_000 + "a = 1",
        '"a".' * 100_000 + "a = 1",
        "x = " + "[" * 100_000,
        "x = " + "{a = " * 50_000,
        "[" * 100_000,
        "a" * 1_000_000,
        '"' * 1_000_000,
        "'''" + "'" * 1_000_000,
        "x = 1\n" * 100_000,
        "#" * (MAX_BYTES + 1),
    ],
    ids=range(10),
)
def test_hostile_text_ends_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(TableError):
        parse_document(text.encode(), "f.toml")
    assert time.process_time() - started < 5


def test_a_flood_of_mistakes_is_cut_with_its_true_number() -> None:
    text = 'schema = "s/1"\nname = "x"\n' + "".join(f"k{i} = 1\n" for i in range(1000))
    found = problems(text)
    assert len(found) == 201
    assert found[-1] == "f.toml: 800 more problems"


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "-9223372036854775809", "0b" + "1" * 20_000])
def test_a_number_of_more_than_64_bits_is_a_mistake(number: str) -> None:
    """Python reads the hexadecimal ones and then fails wherever they are printed."""
    with pytest.raises(TableError):
        parse_document(f"a = 1\nb = [{{ c = {number} }}]\n".encode(), "f.toml")
    parse_document(b"a = -9223372036854775808\nb = 9223372036854775807\n", "f.toml")
