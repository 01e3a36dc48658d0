"""The page is whole, harmless, small, and says what is not shown as loudly as what is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.test_formats import ATTACKS, harmless
from tests.support.golden import compare
from validator.report.html import render_html
from validator.report.reading import read_result
from validator.verdict.model import Evidence
from validator.verdict.result import CheckResult

FIRST = Path(__file__).parent / "bundles" / "first"
_VOID = {"meta", "link", "br"}
_OPTIONAL = {"td", "th", "tr"}
"""End tags that HTML lets a table leave out."""
ELEMENTS = """
a body br caption circle code dd details div dl dt figcaption figure h1 h2 h3 h4 head header html li link main meta nav
ol p path pre rect section span strong style summary svg table tbody td text th thead title tr ul
"""
ATTRIBUTES = """
aria-hidden aria-label aria-labelledby charset class colspan content cx cy d focusable height href http-equiv id lang
name open r rel role scope tabindex viewbox width x y
"""


class Reader(HTMLParser):
    """Everything that the page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID | _OPTIONAL:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _OPTIONAL:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def check_page(page: str) -> Reader:
    """Nothing but what the template brings: no script, no link to elsewhere, every element closed."""
    read = Reader(page)
    assert read.open == []
    assert {tag for tag, _ in read.elements} <= set(ELEMENTS.split())
    assert {name for _, attributes in read.elements for name in attributes} <= set(ATTRIBUTES.split())
    links = [a["href"] for _, a in read.elements if "href" in a]
    assert all(link == "data:," or re.fullmatch(r"#[a-z]+(-\d+){0,2}", link or "") for link in links)
    ids = [a["id"] for _, a in read.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link and link != "data:,"} <= set(ids)
    assert harmless(page)
    return read


def test_the_page_says_everything_in_order(result: CheckResult) -> None:
    read = check_page(render_html(result))
    text = " ".join(" ".join(read.text).split())
    for said in (
        "✕ fail",
        "What happened Refused: memory is read before the wait that makes it valid, in kda_decode",
        "ordering/kda_decode* refuted; of 4 obligations, 1 proven, 1 refuted, 1 unproven, 1 waived",
        "What was shown (2 of 4 obligations)",
        "What was not shown (2 open, 2 not covered)",
        "speed: claims are not measured",
        "it computes what the reference does : no CPU model".replace(" :", ":"),
        "t.w is a weight, as declared",
        "order/early-read",
        "griddepcontrol.wait;",
        "fast/kda/kernel.ptx:41",
        "(applied): dispatch is one line; owner @ann",
        "tokens/s : 423 against 252; holds for: one user, GB300".replace(" :", ":"),
        "validator check --base aaaa --head bbbb --seed 7",
        "expires 2027-02-01",
    ):
        assert said in text.replace(" :", ":"), said
    headings = [" ".join(h.split()) for h in re.findall(r"<h2[^>]*>([^<]*)</h2>", render_html(result))]
    assert headings == [
        "What this change is",
        "Where to look",
        "Shown, and not shown",
        "Design at a glance",
        "Findings (3)",
        "Kernels and cases",
        "Assumptions, waivers, claims",
        "Changed files",
        "How to reproduce, and how to decide",
    ]


def test_whole_page(result: CheckResult) -> None:
    compare(Path(__file__).parent / "golden" / "check.html", render_html(result))


def test_the_page_holds_no_time_and_no_place(result: CheckResult) -> None:
    later = replace(result, environment=replace(result.environment, started="2027-01-01T00:00:00Z", seconds=9.0))
    assert render_html(result) == render_html(later)
    assert "/repo" not in render_html(result)


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_names_do_nothing_on_the_page(hostile: Callable[[str], CheckResult], attack: str) -> None:
    check_page(render_html(hostile(attack)))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_does_nothing_on_the_page(hostile: Callable[[str], CheckResult], text: str) -> None:
    check_page(render_html(hostile(text)))


def test_what_confined_the_candidate_is_said(result: CheckResult) -> None:
    held = {"limits": "yes", "namespaces": "not on this machine", "x": 3}
    run = replace(result.evidence[1], kind="differential", details={"confinement": held})
    text = " ".join(" ".join(check_page(render_html(replace(result, evidence=(run,)))).text).split())
    assert "process was confined by: limits (yes), namespaces (not on this machine)." in text


HOSTILE_DETAILS = [
    {"confinement": {"<b>": "<i>"}, "limits": "<u>", "excerpts": [{"text": "<s>", "finding": "<p>"}]},
    {},
    {"early": None, "cases": "x", "waits": [1, None, {}], "coverage": {}},
    {"early": [{"memory": "<script>", "role": "\x1b[2J", "allowed": "yes", "count": -1}], "accesses": [{}]},
    {"cases": [{"id": "<b>", "status": "</td>", "dims": {"<i>": 3, "B": "x"}, "error": "NaN", "faults": [3, "<p>"]}]},
    {"cases": [{"dims": [], "dtypes": 1, "error": 1e308, "baseline": -1}, {"error": True, "dims": {"B": 10**30}}]},
]


@pytest.mark.parametrize("details", HOSTILE_DETAILS)
@pytest.mark.parametrize("kind", ["ordering-audit", "differential"])
def test_details_of_any_shape_do_nothing(result: CheckResult, kind: str, details: dict[str, object]) -> None:
    evidence: tuple[Evidence, ...] = tuple(replace(e, kind=kind, details=details) for e in result.evidence)
    page = render_html(replace(result, evidence=evidence))
    check_page(page)


def test_a_bundle_of_the_first_version_makes_a_page() -> None:
    text = " ".join(check_page(render_html(read_result(FIRST))).text)
    assert "is read before the dependency wait by LDG.E.CONSTANT" in text
    assert "nothing was run on a GPU" in text


def test_a_result_without_manifest_makes_a_page(result: CheckResult) -> None:
    bare = replace(result, manifest=None, manifest_path=None, manifest_digest=None, policy=None, evidence=())
    assert "so nothing bounds it" in " ".join(check_page(render_html(bare)).text)
