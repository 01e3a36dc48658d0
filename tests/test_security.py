"""`SECURITY.md`: every promise names tests, and every test it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES = TEXT.partition("## What is promised")[2].partition("## What is not promised")[0]
LINES = [part.partition("\n\n")[0] for part in re.split(r"^- ", PROMISES, flags=re.M)[1:]]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_bytes())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\W+", "-", line.partition(".")[0])[:60])
def test_a_promise_names_tests_that_exist(line: str) -> None:
    named = NAMED.findall(line)
    assert named, f"no test stands behind: {line}"
    for path, name in named:
        assert name.startswith("test_")
        assert name in functions_of(path), f"{path} has no {name}"


def test_the_document_has_both_halves() -> None:
    assert len(LINES) > 10
    assert TEXT.count("\n- ", TEXT.index("## What is not promised")) >= 5
