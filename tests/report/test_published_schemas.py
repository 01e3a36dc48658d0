"""Every format is what others demand: SARIF 2.1.0, JUnit XML, JSON Schema, and the limits of those who show it."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmlschema
from markdown_it import MarkdownIt

from tests.report.conftest import BASE
from tests.report.large import large_result
from tests.report.test_formats import ATTACKS
from tests.support.golden import compare
from validator.report.check_sarif import render_sarif
from validator.report.formats import render
from validator.report.reading import read_result
from validator.report.rule_pages import DOCS_URL, anchor, help_uri, render_rules
from validator.report.sarif import MAX_RESULTS, findings_log
from validator.report.schemas import schema_of
from validator.rules import all_rules
from validator.verdict.model import Finding, Location, Severity, Status
from validator.verdict.result import CheckResult

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUNDLES = ("first", "good", "hoisted", "loosened")


@functools.cache
def sarif() -> Any:
    schema = json.loads((HERE / "schemas/sarif-2.1.0-rtm.5.json").read_bytes())
    jsonschema.Draft4Validator.check_schema(schema)
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)


@functools.cache
def junit() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(HERE / "schemas/junit.xsd")


def check(result: CheckResult) -> None:
    log = json.loads(render(result, "sarif"))
    assert [e.message for e in sarif().iter_errors(log)] == []
    assert log["version"] == "2.1.0"
    junit().validate(render(result, "junit"))
    jsonschema.validate(json.loads(render(result, "json")), schema_of("check"))


@pytest.mark.parametrize("name", BUNDLES)
def test_bundles_of_the_demo(name: str) -> None:
    check(read_result(HERE / "bundles" / name))


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_names_try(hostile: Callable[[str], CheckResult], attack: str) -> None:
    check(hostile(attack))


def test_waivers_and_everything_else_that_a_result_may_hold() -> None:
    check(BASE)
    check(replace(BASE, manifest=None, manifest_path=None, manifest_digest=None, policy=None))
    check(replace(BASE, obligations=(), evidence=(), findings=()))


def test_the_schema_notices_what_is_wrong() -> None:
    log = json.loads(render(BASE, "sarif"))
    for spoil in (
        lambda r: r.update(colour="red"),
        lambda r: r["results"][0].update(level="bad"),
        lambda r: r["tool"].pop("driver"),
        lambda r: r["tool"]["driver"]["rules"][0].update(helpUri="not an address"),
    ):
        broken = json.loads(json.dumps(log))
        spoil(broken["runs"][0])
        assert not sarif().is_valid(broken)
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        junit().validate(render(BASE, "junit").replace('tests="4"', 'tests="four"'))


def test_every_command_that_writes_sarif_is_held_to_the_schema() -> None:
    finding = Finding("order/early-read", Severity.ERROR, "m", Location("a.ptx", 3, kernel="k"), steps=("a", "b"))
    for status in Status:
        log = findings_log([replace(finding, status=status)], "ordering", "s", ["p"], {finding.id: "r"}, ["u"])
        assert [e.message for e in sarif().iter_errors(log)] == []


def test_github_takes_the_log_of_a_very_large_change() -> None:
    """10 MB compressed, 25,000 results and rules, 1,000 locations a result, 20 tags a rule."""
    log = json.loads(text := render_sarif(large_result()))
    (run,) = log["runs"]
    assert len(gzip.compress(text.encode())) < 10_000_000
    assert len(run["results"]) <= MAX_RESULTS == 25_000
    assert all(len(r["locations"]) + len(r.get("relatedLocations", ())) <= 1_000 for r in run["results"])
    assert all(len(r["properties"]["tags"]) <= 20 for r in run["tool"]["driver"]["rules"])
    assert {next(iter(r["partialFingerprints"])) for r in run["results"]} == {"primaryLocationLineHash"}
    prints = [r["partialFingerprints"]["primaryLocationLineHash"] for r in run["results"]]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("limit", [65_536, 1_000_000])
def test_markdown_of_a_very_large_change_fits_where_it_is_shown(limit: int) -> None:
    page = render(large_result(), "markdown", limit=limit)
    assert len(page) <= limit
    assert len(page.encode()) <= 1 << 20
    assert page.startswith("<!-- validator:check -->\n")
    assert "cut short:" in page
    assert page.count("```") % 2 == 0
    assert page == render(large_result(), "markdown", limit=limit)


def test_junit_of_a_very_large_change_has_every_case() -> None:
    text = render(large_result(), "junit")
    junit().validate(text)
    assert text.count("<testcase ") == 10_000 + 400
    assert len(text.encode()) < 10_000_000


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    compare(ROOT / "docs" / "rules.md", render_rules())


def test_every_rule_has_a_heading_that_its_address_leads_to() -> None:
    """Headings are read by another program than the one that wrote the anchors."""
    tokens = MarkdownIt("commonmark").parse((ROOT / "docs/rules.md").read_text("utf-8"))
    headings = [b.content for a, b in pairwise(tokens) if a.type == "heading_open"]
    slugs = ["".join(c for c in h.lower().replace(" ", "-") if c.isalnum() or c in "-_") for h in headings]
    assert len(slugs) == len(set(slugs))
    assert {anchor(r.id) for r in all_rules()} <= set(slugs)
    linked = {link for t in tokens for c in t.children or () if c.type == "link_open" for link in [c.attrs["href"]]}
    assert {str(link).removeprefix("#") for link in linked} <= set(slugs)


def test_alerts_link_to_the_page_where_somebody_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DOCS_URL, raising=False)
    rules = json.loads(render(BASE, "sarif"))["runs"][0]["tool"]["driver"]["rules"]
    assert not any("helpUri" in r for r in rules)
    monkeypatch.setenv(DOCS_URL, "https://host.example/docs/rules.md")
    log = json.loads(render(BASE, "sarif"))
    assert [e.message for e in sarif().iter_errors(log)] == []
    addresses = {r["id"]: r["helpUri"] for r in log["runs"][0]["tool"]["driver"]["rules"]}
    assert addresses["order/early-read"] == "https://host.example/docs/rules.md#orderearly-read"
    for nonsense in ("", "docs/rules.md", "javascript:alert(1)", "https://a b", "https://a/#x"):
        monkeypatch.setenv(DOCS_URL, nonsense)
        assert help_uri("order/early-read") is None
