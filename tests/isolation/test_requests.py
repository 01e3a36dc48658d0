"""Edits as pull requests to inference engines make them, and what looks like them and is something else."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.isolation.test_offpath import CONFIG, _prove, _proven
from tests.support.isolation_case import FOLDER

_STORED = tomllib.loads((FOLDER / "requests.toml").read_text())
BASE: str = _STORED["base"]
REQUESTS: list[dict[str, Any]] = _STORED["requests"]
DIFFERENT = [(request, old, new) for request in REQUESTS for old, new in request["different"]]


def _edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


def _bases(request: dict[str, Any]) -> str:
    return str(request.get("base", BASE))


def _head(request: dict[str, Any]) -> str:
    text = _bases(request)
    for old, new in request["edits"]:
        text = _edited(text, old, new)
    return text


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["name"])
def test_an_honest_change_is_proven(request_: dict[str, Any]) -> None:
    proof = _prove(_bases(request_), _head(request_), CONFIG, **request_.get("files", {}))
    assert _proven(proof), [(s.difference.line, s.difference.reason, s.head_text) for s in proof.differences]


@pytest.mark.parametrize(("request_", "old", "new"), DIFFERENT, ids=[f"{r['name']}: {n}" for r, _, n in DIFFERENT])
def test_one_that_only_looks_like_it_is_told(request_: dict[str, Any], old: str, new: str) -> None:
    head = _edited(_head(request_), old, new)
    assert not _proven(_prove(_bases(request_), head, CONFIG, **request_.get("files", {})))
