"""Every format of two bundles of the demo, whole: `good` passes, `first` (of the first version) fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.golden import compare
from validator.report.formats import FORMATS, render
from validator.report.reading import read_result
from validator.verdict.bundle import RESULT, verify_bundle

HERE = Path(__file__).parent
STORED = {"text": "txt", "markdown": "md", "html": "html", "sarif": "sarif", "junit": "xml"}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("name", ["first", "good"])
def test_whole(name: str, kind: str) -> None:
    compare(HERE / "golden" / f"{name}.{STORED[kind]}", render(read_result(HERE / "bundles" / name), kind))


def test_json_is_what_the_bundle_holds() -> None:
    document = json.loads(render(read_result(HERE / "bundles" / "good"), "json"))
    document.pop("environment")
    assert document == json.loads((HERE / "bundles" / "good" / RESULT).read_bytes())
    assert {*STORED, "json"} == set(FORMATS)


@pytest.mark.parametrize("name", ["first", "good"])
def test_the_stored_bundles_are_untouched(name: str) -> None:
    assert verify_bundle(HERE / "bundles" / name) == ()
