"""Every format of the demo's bundles, whole: `good` passes, `hoisted` and `loosened` fail, `first` is of version 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import compare
from validator.report.formats import FORMATS, render
from validator.report.reading import read_result
from validator.verdict.bundle import RESULT, verify_bundle

HERE = Path(__file__).parent
BUNDLES = ("first", "good", "hoisted", "loosened")
STORED = {"text": "txt", "markdown": "md", "html": "html", "sarif": "sarif", "junit": "xml"}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("name", BUNDLES)
def test_whole(name: str, kind: str) -> None:
    compare(HERE / "golden" / f"{name}.{STORED[kind]}", render(read_result(HERE / "bundles" / name), kind))


def assert_holds(document: Any, stored: Any, path: str = "") -> None:
    """All that is stored is there as it was; what is declared may have learnt to say more since, by its defaults."""
    if isinstance(stored, dict):
        more = document.keys() - stored.keys() if path.startswith(".manifest.declared") else ()
        assert stored.keys() == document.keys() - more, path
        for key in stored:
            assert_holds(document[key], stored[key], f"{path}.{key}")
    elif isinstance(stored, list):
        assert len(stored) == len(document), path
        for n, (one, other) in enumerate(zip(document, stored, strict=True)):
            assert_holds(one, other, f"{path}.{n}")
    else:
        assert document == stored, path


@pytest.mark.parametrize("name", BUNDLES[1:])
def test_json_is_what_the_bundle_holds(name: str) -> None:
    document = json.loads(render(read_result(HERE / "bundles" / name), "json"))
    document.pop("environment")
    assert_holds(document, json.loads((HERE / "bundles" / name / RESULT).read_bytes()))
    assert {*STORED, "json"} == set(FORMATS)


@pytest.mark.parametrize("name", BUNDLES)
def test_the_stored_bundles_are_untouched(name: str) -> None:
    assert verify_bundle(HERE / "bundles" / name) == ()
