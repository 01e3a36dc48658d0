"""A bundle is rendered as its run was, old bundles too, and nothing that is no bundle is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from validator.report.bundle import save_bundle
from validator.report.changes import changes, since
from validator.report.formats import FORMATS, render
from validator.report.json import check_document
from validator.report.reading import read_document, read_result, result_of
from validator.verdict.bundle import BundleError, verify_bundle
from validator.verdict.model import Finding, Location, Severity, Status, Verdict
from validator.verdict.result import CheckResult

FIRST = Path(__file__).parent / "bundles" / "first"
"""Written by the first version, which knew no details, trees, identities or source lines."""


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_of_a_bundle_is_that_of_the_run(result: CheckResult, tmp_path: Path, kind: str) -> None:
    save_bundle(result, tmp_path / "b")
    assert render(read_result(tmp_path / "b"), kind) == render(result, kind)


def test_what_is_read_gives_the_same_document(result: CheckResult, tmp_path: Path) -> None:
    save_bundle(result, tmp_path / "b")
    document = read_document(tmp_path / "b")
    assert check_document(result_of(document)) == document


def test_any_text_survives_the_way_there_and_back(hostile: Callable[[str], CheckResult], tmp_path: Path) -> None:
    for number, text in enumerate(("\x1b[2J", "\u202e", "a\r\nb", "<script>", "\udcff", "\udd00")):
        save_bundle(hostile(text), tmp_path / str(number))
        read = read_result(tmp_path / str(number))
        assert check_document(read) == read_document(tmp_path / str(number))
        said = [p.what for p in verify_bundle(tmp_path / str(number)) if "is not the id" in p.what]
        assert said == []


def test_a_bundle_of_the_first_version_is_still_read() -> None:
    assert verify_bundle(FIRST) == ()
    result = read_result(FIRST)
    recorded = json.loads((FIRST / "result.json").read_bytes())
    assert result.verdict is Verdict.FAIL
    assert [f.id for f in result.findings] == [f["id"] for f in recorded["findings"]]
    assert [o.id for o in result.obligations] == [o["id"] for o in recorded["obligations"]]
    assert not recorded["evidence"][0].get("details")
    for kind in FORMATS:
        assert "kda_decode" in render(result, kind)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"[]", "is no JSON object"),
        (b'{"schema": "validator/check/9"}', "a newer validator may have written it"),
        (b'{"schema": "validator/check/1", "verdict": "fine"}', "input should be 'pass', 'fail' or 'unproven'"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_result_is_refused(result: CheckResult, tmp_path: Path, content: bytes, words: str) -> None:
    save_bundle(result, tmp_path / "b")
    (tmp_path / "b/result.json").write_bytes(content)
    with pytest.raises(BundleError, match=words):
        read_result(tmp_path / "b")


def test_a_manifest_that_cannot_be_one_is_refused(result: CheckResult, tmp_path: Path) -> None:
    save_bundle(result, tmp_path / "b")
    path = tmp_path / "b/result.json"
    document = json.loads(path.read_bytes())
    document["manifest"]["declared"]["scope"]["batch"] = {"min": 9, "max": 1}
    path.write_text(json.dumps(document))
    with pytest.raises(BundleError, match="batch range is empty"):
        read_result(tmp_path / "b")


def test_changes_since_an_earlier_run(result: CheckResult) -> None:
    new = Finding("order/early-read", Severity.ERROR, "y", Location("k.ptx"), identity=("y",))
    first, rest = result.obligations[0], result.obligations[1:]
    later = replace(
        result,
        verdict=Verdict.UNPROVEN,
        obligations=(replace(first, status=Status.UNPROVEN, reason="r"), *rest[1:]),
        findings=(*result.findings[1:], new),
        environment=replace(result.environment, tools={"git": "2.40", "nvdisasm": "13.5"}),
    )
    assert list(changes(result, later)) == [
        f"the verdict was fail for {'b' * 12} and is unproven now",
        "gate was proven and is unproven",
        "ordering/kda_decode* is no longer asked for; it was refuted",
        f"1 finding is gone: {result.findings[0].id}",
        f"1 new finding: {new.id}",
        "git: 2.39 then, 2.40 now",
        "nvdisasm: absent then, 13.5 now",
    ]
    for kind in ("text", "markdown", "html"):
        assert "nvdisasm: absent then" in render(since(result, later), kind)
    assert since(result, result).since == ("nothing that was examined came out otherwise",)


def test_changes_are_told_within_one_manifest_only(result: CheckResult) -> None:
    assert result.manifest is not None
    other = replace(result, manifest=result.manifest.model_copy(update={"id": "other"}))
    with pytest.raises(BundleError, match="is a run of other, not of kda-decode"):
        since(other, result)
