"""Every format shows the same result, whatever the names in it try to do."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.golden import compare
from validator.report.check_sarif import render_sarif
from validator.report.json import check_document, render_json
from validator.report.junit import render_junit
from validator.report.markdown import BUDGET, render_markdown
from validator.report.schemas import SCHEMAS, schema_of
from validator.report.text import paint_for, render_text
from validator.verdict.model import Evidence, Finding, Location, Severity, Status, Strength
from validator.verdict.result import CheckResult, where_to_look

ATTACKS = [
    "\x1b[2J\x1b]0;pwned\x07",
    "![x](https://evil.example/x.png)",
    "<img src=x onerror=alert(1)><script>",
    "@org/everyone fixes #1",
    "a|b`c\\|d``e",
    "-->\n\n# pass\n\n| a | b |\n| --- | --- |",
    "\u202egnp.exe\u2066\u200b",
    "\udcff\udc80",
    "\udd00",
    "```\nnot code\n```",
    "https://evil.example www.evil.example",
    "[click](javascript:alert(1))",
    "</details></table>",
]
reader = MarkdownIt("commonmark").enable("table").enable("strikethrough")
ALLOWED_HTML = {"<!-- validator:check -->\n", "<br>", "<code>", "</code>"}


def harmless(text: str) -> bool:
    return all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in text)


def test_text_says_what_was_and_what_was_not_shown(result: CheckResult) -> None:
    text = render_text(result)
    assert text.startswith(
        "FAIL: ordering/kda_decode* refuted; of 4 obligations, 1 proven, 1 refuted, 1 unproven, 1 waived\n"
    )
    for heading in ("kernels", "obligations", "not covered", "findings", "assumptions", "waivers", "where to look"):
        assert f"\n{heading}\n" in text
    assert "griddepcontrol.wait;" in text
    assert "fast/kda/kernel.ptx:41, kernel kda_decode" in text
    assert result.change.head in text
    assert "\x1b" not in text


def test_a_command_that_shows_a_fault_again_is_not_called_a_fix(result: CheckResult) -> None:
    command = f"validator replay '{'{}'}{'x ' * 200}' --manifest FILE"  # longer than a line, which would break it
    told = replace(result, findings=(replace(result.findings[0], fix=command),))
    shown = render_text(told)
    assert f"            to see it again:\n              {command}\n" in shown
    assert "fix:" not in shown
    assert f"*How to see it again*:\n\n```\n{command}\n```\n" in render_markdown(told)


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("check.txt", render_text),
        ("check.md", render_markdown),
        ("check.json", render_json),
        ("check.sarif", render_sarif),
        ("check.xml", render_junit),
    ],
)
def test_whole_report(result: CheckResult, name: str, render: Callable[[CheckResult], str]) -> None:
    compare(Path(__file__).parent / "golden" / name, render(result))


def test_markdown_has_every_section_in_order(result: CheckResult) -> None:
    page = render_markdown(result)
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert titles == [
        "What this change is",
        "What it may touch",
        "Where to look",
        "Kernels at a glance",
        "Obligations",
        "What is not covered",
        "Assumptions and waivers",
        "Findings",
        "Claims of the author, not checked here",
        "Changed files",
        "How to reproduce, and how to decide",
    ]
    tables = [t for t in reader.parse(page) if t.type == "table_open"]
    assert len(tables) == 3


def test_json_follows_its_published_schema(result: CheckResult) -> None:
    document = json.loads(render_json(result))
    jsonschema.validate(document, schema_of("check"))
    assert next(iter(document)) == "schema"
    assert document["verdict"] == "fail"
    assert [o["id"] for o in document["obligations"]] == sorted(o.id for o in result.obligations)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_published_schema_is_a_schema(name: str) -> None:
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    version = 2 if name == "bundle" else 1
    assert (
        schema["properties"]["schema"]["const"] == f"validator/{'manifest' if name == 'contract' else name}/{version}"
    )


def test_only_the_environment_differs_between_runs(result: CheckResult) -> None:
    later = replace(result, environment=replace(result.environment, started="2027-01-01T00:00:00Z", seconds=9.0))
    one, two = check_document(result), check_document(later)
    assert one["environment"] != two["environment"]
    assert {**one, "environment": None} == {**two, "environment": None}
    assert "/repo" not in json.dumps({**one, "environment": None})
    assert render_text(result) == render_text(later)
    assert render_markdown(result) == render_markdown(later)


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_names_do_nothing_in_any_format(hostile: Callable[[str], CheckResult], attack: str) -> None:
    check_hostile(hostile(attack))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_does_nothing_in_any_format(hostile: Callable[[str], CheckResult], text: str) -> None:
    check_hostile(hostile(text))


def check_hostile(result: CheckResult) -> None:
    text, page, document = render_text(result), render_markdown(result), render_json(result)
    assert harmless(text)
    assert harmless(page)
    assert document.isascii()
    jsonschema.validate(json.loads(document), schema_of("check"))
    sarif, junit = render_sarif(result), render_junit(result)
    assert sarif.isascii()
    assert not re.search(r"[^{]\{\d+\}|\]\(", "".join(_messages(json.loads(sarif))))
    assert harmless(junit)
    assert len(list(ET.fromstring(junit).iter("testcase"))) == len(result.obligations)
    tokens = reader.parse(page)
    headings = [b.content for a, b in pairwise(tokens) if a.type == "heading_open"]
    assert headings[1:] == re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert len([t for t in tokens if t.type == "table_open"]) == 3
    inline = [child for t in tokens for child in t.children or ()]
    assert not {c.type for c in inline} & {"link_open", "image"}
    markup = {c.content for c in inline if c.type == "html_inline"} | {
        t.content for t in tokens if t.type == "html_block"
    }
    assert markup <= ALLOWED_HTML
    shown = " ".join(c.content for c in inline if c.type == "text")
    assert not re.search(r"@\w|#\d", shown)


def _messages(log: Any) -> list[str]:
    """Every message of a SARIF log: in these, `{0}` and `](` would mean something."""
    if isinstance(log, dict):
        own = [log["text"]] if isinstance(log.get("text"), str) and "markdown" not in log else []
        return own + [text for value in log.values() for text in _messages(value)]
    return [text for value in log for text in _messages(value)] if isinstance(log, list) else []


def test_a_page_that_is_too_long_is_cut_at_section_ends_and_says_so(result: CheckResult) -> None:
    many = tuple(
        Finding(
            "order/early-read", Severity.ERROR, f"argument {n} " + "é" * 900, Location(f"k{n}.ptx"), why=f"w{n}" * 200
        )
        for n in range(1000)
    )
    page = render_markdown(replace(result, findings=many))
    assert len(page) <= BUDGET
    assert "cut short: Findings" in page
    assert "of 1,000 not shown here" in page
    assert "## How to reproduce" in page
    assert "## What is not covered" in page
    assert page.count("```") % 2 == 0


@pytest.mark.parametrize("budget", [2_000, 3_000])
def test_any_budget_is_kept(result: CheckResult, budget: int) -> None:
    page = render_markdown(result, budget)
    assert len(page) <= budget
    assert "limited to" in page
    reader.parse(page)


def test_where_to_look_ranks_open_faults_first_and_stops_at_seven(result: CheckResult) -> None:
    places = where_to_look(result)
    assert places[0].path == "fast/kda/kernel.ptx"
    assert places[0].line == 41
    assert [p.why for p in places if p.path == "dispatch.py"] == [
        "waived, not mended: dispatch.py is outside the declared paths"
    ]
    assert [p.why for p in places if p.kernel == "differential/kda_decode*"] == [
        "differential/kda_decode* is unproven: no CPU model"
    ]
    assert places[-1].why == "two owners"
    assert "existing file, modified: +3 -1 lines" in [p.why for p in where_to_look(replace(result, findings=()))]
    many = tuple(replace(result.findings[0], identity=(str(n),), where=Location(f"{n}.ptx")) for n in range(20))
    assert len(where_to_look(replace(result, findings=many))) == 7


def test_a_result_without_manifest_still_renders(result: CheckResult) -> None:
    bare = replace(result, manifest=None, manifest_path=None, manifest_digest=None, policy=None)
    assert "manifest   none" in render_text(bare)
    assert "No manifest" in render_markdown(bare)
    jsonschema.validate(json.loads(render_json(bare)), schema_of("check"))


class Stream:
    def __init__(self, interactive: bool) -> None:
        self.interactive = interactive

    def isatty(self) -> bool:
        return self.interactive


@pytest.mark.parametrize(
    ("interactive", "environment", "coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_only_where_it_is_wanted(
    result: CheckResult,
    monkeypatch: pytest.MonkeyPatch,
    interactive: bool,
    environment: dict[str, str],
    coloured: bool,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    painted = render_text(result, paint_for(Stream(interactive)))  # type: ignore[arg-type]
    assert ("\x1b[" in painted) is coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == render_text(result)


def test_findings_beyond_the_cap_are_counted(result: CheckResult) -> None:
    many = tuple(replace(result.findings[0], identity=(str(n),)) for n in range(45))
    assert "and 15 more findings of 45" in render_text(replace(result, findings=many))


def test_findings_with_one_explanation_are_explained_once(result: CheckResult) -> None:
    warning = Finding("order/movable-load", Severity.WARNING, "m0", Location("k.ptx"), why="because", fix="do this")
    many = tuple(replace(warning, message=f"m{n}", identity=(str(n),)) for n in range(25))
    shown = replace(result, findings=(*result.findings, *many))
    text, page = render_text(shown), render_markdown(shown)
    assert text.count("why: because") == 1
    assert page.count("because") == 1
    assert "`order/movable-load`, 25 findings:" in page
    assert "- and 5 more" in page
    assert all(f"m{n}" in text for n in range(25))
    assert [p.why for p in where_to_look(shown) if "order/movable-load" in p.why] == [
        "m0 (and 24 more findings of order/movable-load)"
    ]


def test_waived_findings_come_last(result: CheckResult) -> None:
    text = render_text(result)
    waived = next(f for f in result.findings if f.status is Status.WAIVED)
    assert text.index("gate/note") < text.index(f"{waived.id} (waived)")


def test_sarif_has_rules_with_pages_and_suppressions_with_reasons(result: CheckResult) -> None:
    waived = replace(result.findings[1], identity=("d",))
    use = replace(result.waivers[0], finding=waived.id)
    log = json.loads(render_sarif(replace(result, findings=(result.findings[0], waived), waivers=(use,))))
    (run,) = log["runs"]
    rules = {r["id"]: r for r in run["tool"]["driver"]["rules"]}
    assert "griddepcontrol" in rules["order/early-read"]["help"]["text"]
    assert rules["order/early-read"]["properties"]["tags"] == ["order"]
    early, dispatch = run["results"]
    assert "suppressions" not in early
    assert early["locations"][0]["physicalLocation"]["region"]["startLine"] == 41
    (suppression,) = dispatch["suppressions"]
    assert (suppression["kind"], suppression["status"]) == ("external", "accepted")
    assert "dispatch is one line; owner @ann" in suppression["justification"]
    said = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert "differential/kda_decode* is unproven: no CPU model" in said
    assert "not covered: what ptxas makes of it" in said
    assert run["properties"] == {"head": result.change.head, "base": result.change.base}


def test_junit_has_a_case_for_every_obligation_and_every_differential_case(result: CheckResult) -> None:
    cases = [
        {"id": "a1", "status": "passed", "inputs": "B = 1"},
        {"id": "a2", "status": "failed", "inputs": "B = 2", "faults": ["y[0]: expected 1, got 2"], "origin": "edge"},
        {"id": "a3", "status": "void"},
        {"id": "a4", "status": "missing"},
    ]
    run = Evidence(
        "differential/k", "differential", Strength.CPU_MODEL, "4 cases", Status.REFUTED, details={"cases": cases}
    )
    root = ET.fromstring(render_junit(replace(result, evidence=(*result.evidence, run))))
    assert {k: root.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8",
        "failures": "2",
        "errors": "2",
        "skipped": "2",
    }
    obligations, differential = root.findall("testsuite")
    outcome = {c.get("classname"): [e.tag for e in c] for c in obligations}
    assert outcome["gate"] == ["system-out"] or outcome["gate"] == []
    assert outcome["ordering"] == ["failure", "system-out"]
    assert outcome["differential"] == ["error"]
    assert outcome["scope"] == ["skipped"]
    assert [[e.tag for e in c] for c in differential] == [[], ["failure"], ["skipped"], ["error"]]
    assert differential[1][0].get("message") == "y[0]: expected 1, got 2"
