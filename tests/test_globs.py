"""Path globs: what each form means, and that no pattern takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validator.globs import first_match, matches, name_matches


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a/*.py", ["a/b.py", "a/.py"], ["a/b/c.py", "a.py", "b/a/b.py", "a/b.pyc"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "ab/c"]),
        ("a/", ["a/b", "a/b/c"], ["a", "ab"]),
        ("**/t.py", ["t.py", "a/t.py", "a/b/t.py"], ["at.py", "a/t.py/b"]),
        ("**", ["a", "a/b"], []),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("./a", ["a"], ["b"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("a[b].py", ["a[b].py"], ["ab.py"]),
        ("*", ["a", ".a"], ["a/b"]),
        ("**/tests/**", ["tests/a", "x/tests/y/z"], ["tests", "xtests/a"]),
    ],
)
def test_forms(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [p for p in yes if not matches(p, [pattern])] == []
    assert [p for p in no if matches(p, [pattern])] == []


def test_the_first_pattern_is_named() -> None:
    assert first_match("a/b", ["x", "a/*", "**"]) == "a/*"
    assert first_match("a/b", []) is None


def test_names_are_not_paths() -> None:
    assert name_matches("org/model-1", ["org*"])
    assert not name_matches("Org", ["org"])


def oracle(path: str, pattern: str) -> bool:
    """The same meaning by a regular expression."""
    out = []
    parts = pattern.split("/")
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "**":
            out.append((".+" if i else ".*") if last else "(?:[^/]+/)*")
        else:
            out.append(re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") + ("" if last else "/"))
    return re.fullmatch("".join(out), path, re.DOTALL) is not None


names = st.text("ab", min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(names, min_size=1, max_size=4).map("/".join),
    st.lists(st.one_of(st.text("ab*?", min_size=1, max_size=3), st.just("**")), min_size=1, max_size=4).map("/".join),
)
def test_against_a_regular_expression(path: str, pattern: str) -> None:
    assert matches(path, [pattern]) == oracle(path, pattern), (path, pattern)


@pytest.mark.parametrize("pattern", ["a*" * 100 + "b", "**/" * 60 + "b", "*?" * 100, "**/*a*/" * 20 + "x"])
def test_no_pattern_takes_long(pattern: str) -> None:
    started = time.process_time()
    assert not matches("a" * 2000 + "/a" * 500, [pattern])
    assert time.process_time() - started < 2
