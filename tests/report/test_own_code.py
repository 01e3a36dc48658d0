"""The change's own code stands on the page, every `path:line` leads to it, and no obligation is told twice."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.report.conftest import BASE
from tests.report.test_formats import ATTACKS
from tests.report.test_page import check_page
from validator.change.model import ChangeStatus, FileChange
from validator.report.html import render_html
from validator.report.own_code import own_code
from validator.report.story import SHARED
from validator.report.text import render_text
from validator.verdict.model import Evidence, Finding, Location, Severity, Status, Strength
from validator.verdict.result import CheckResult

SOURCE = "__global__ void k() {\n\tread(x);\n  if (a < b) wait();\n}"


def brought(code: list[dict[str, Any]], *findings: Finding) -> CheckResult:
    files = tuple(
        FileChange(str(row["path"]), ChangeStatus.ADDED, new_mode=0o100644, added=str(row["text"]).count("\n") + 1)
        for row in code
    )
    paths = Evidence(SHARED, "change", Strength.SOURCE, "all paths", Status.PROVEN, details={"code": code})
    gate = replace(BASE.obligations[0], evidence=(SHARED,))
    return replace(
        BASE,
        change=replace(BASE.change, files=files),
        evidence=(paths, *BASE.evidence),
        findings=findings,
        obligations=(gate, *BASE.obligations[1:]),
    )


def test_places_lead_to_their_line_and_other_places_nowhere() -> None:
    known = Finding("order/early-read", Severity.ERROR, "early", Location("fast/k.cu", line=3))
    beyond = Finding("order/late", Severity.ERROR, "late", Location("fast/k.cu", line=9))
    other = Finding("order/other", Severity.ERROR, "other", Location("gone.cu", line=3))
    page = render_html(brought([{"path": "fast/k.cu", "text": SOURCE, "more": 0}], known, beyond, other))
    check_page(page)
    assert '<span id="code-1-3" class="meant">   3    if (a &lt; b) wait();</span>' in page
    assert page.count(' class="meant"') == 1
    assert '<a href="#code-1-3"><code>fast/k.cu:3</code></a>' in page
    assert '<a href="#code-1"><code>fast/k.cu:9</code></a>' in page
    assert "<code>gone.cu:3</code>" in page
    assert "<a" not in page[page.index("gone.cu:3") - 40 : page.index("gone.cu:3")]


def test_a_finding_in_machine_code_leads_to_its_source() -> None:
    moved = Finding("order/early-read", Severity.ERROR, "early", Location("fast/k.cubin", pc=0x150, source="k.cu:2"))
    page = render_html(brought([{"path": "fast/k.cu", "text": SOURCE, "more": 0}], moved))
    assert '<a href="#code-1-2"><code>fast/k.cubin at 0x150 (k.cu:2)</code></a>' in page
    assert '<span id="code-1-2" class="meant">   2      read(x);</span>' in page


def test_the_largest_comes_first_and_what_is_left_out_is_said() -> None:
    long = "\n".join(f"x{n}" for n in range(4000))
    code = [
        {"path": "a.py", "text": "one\ntwo", "more": 0},
        {"path": "b.cu", "text": long, "more": 8000},
        {"path": "c.cu", "text": "", "more": 0},
    ]
    own = own_code(brought(code))
    assert [v.path for v in own.views] == ["b.cu", "a.py", "c.cu"]
    assert [v.left for v in own.views] == [
        "8,000 more lines, not shown here",
        "2 more lines, not shown here",
        "not shown here",
    ]
    assert own.total == "3 files, +4,003 lines"
    assert own.link("a.py", 1) == "#code-2"
    assert "own code   3 files, +4,003 lines: b.cu +4,000, a.py +2, c.cu +1\n" in render_text(brought(code))


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_code_does_nothing(attack: str) -> None:
    check_page(render_html(brought([{"path": attack, "text": f"{attack}\n{attack}", "more": 0}])))


@pytest.mark.parametrize(
    "code", [None, "x", [1, {}], [{"path": 3, "text": "x"}], [{"path": "dispatch.py", "more": -1}]]
)
def test_code_of_any_shape_does_nothing(code: Any) -> None:
    paths = Evidence(SHARED, "change", Strength.SOURCE, "all paths", Status.PROVEN, details={"code": code})
    check_page(render_html(replace(BASE, evidence=(paths,))))


def test_every_obligation_stands_once_with_what_was_examined() -> None:
    aside = replace(BASE.obligations[0], id="neighbour", status=Status.NOT_ASKED, reason="nobody asked")
    moot = replace(BASE.obligations[0], id="moot", status=Status.NOT_APPLICABLE, reason="there is nothing to hold")
    page = render_html(replace(BASE, obligations=(*BASE.obligations, aside, moot)))
    for obligation in (*BASE.obligations, aside, moot):
        assert page.count(f"<p><code>{obligation.id}</code>") == 1
    text = " ".join(check_page(page).text)
    assert "What was shown (2 of 6 obligations)" in text
    assert "What was not shown (2 open, 1 not asked for, 2 not covered)" in text
    assert "What does not apply (1)" in text
    shown, _, rest = page.partition('class="half no"')
    assert "nobody asked" in rest
    assert "nobody asked" not in shown
    assert re.search(
        r"1 early read of x <span class=\"quiet\">\(proof on PTX: fast/kda/kernel.ptx sha256:e{12}\)", page
    )


def test_the_digest_stands_with_the_kernel() -> None:
    text = " ".join(render_text(BASE).split())
    assert (
        "refuted (proof on PTX): sm_100a PTX of kda_decode: 1 wait, 1 early read of x (fast/kda/kernel.ptx sha256:eeee"
        in text
    )
    assert text.count("1 early read of x") == 1
    assert "1 audit or run: see kernels" in text
