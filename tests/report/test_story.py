"""Evidence of any kind has a place on the page and in the bundle, and nothing of any shape breaks either."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.conftest import BASE
from tests.report.stories import STORY, told
from tests.report.test_page import check_page
from validator.report import story
from validator.report.bundle import bundle_files, save_bundle
from validator.report.html import render_html
from validator.report.pictures.lanes import happened, measured
from validator.report.reading import read_result
from validator.verdict.bundle import load_bundle, verify_bundle
from validator.verdict.model import Evidence, Severity, Status, Strength

EVIDENCE = Evidence("e", "anything", Strength.GPU_RUN, "s", Status.PROVEN, details=STORY)


def text_of(page: str) -> str:
    return " ".join(" ".join(check_page(page).text).split())


@pytest.mark.parametrize(
    ("strength", "words"),
    [(Strength.GPU_RUN, "run on a GPU"), (Strength.PTX_RUN, "run on the PTX on a CPU")],
)
def test_everything_that_evidence_brings_is_on_the_page(strength: Strength, words: str) -> None:
    text = text_of(render_html(told(STORY, strength)))
    for said in (
        f"({words})",
        "consumer.ptx:57 : consumer: thread 4 of CTA 1 reads x[132]",
        "The consumer reads x before the producer, which a neighbour holds up, has written it.",
        "Speed-up over batch size",
        "fused: 1.68 at 1, 1.6 at 2, 1.41 at 4, 1.2 at 8, 0.97 at 64",
        "0 µs 0 20 µs 200",
        "st.global.f32 [%rd1], %f1;",
        "Log: compute-sanitizer",
        "ERROR SUMMARY: 0 errors",
        "Figures that were measured in this run stand with their evidence",
    ):
        assert said in text, said
    # Once with the kernel that it is about, once with the evidence that is about none.
    assert text.count("The launch that failed") == 2
    assert "Nothing was measured" not in text


def test_a_run_of_any_kind_counts_as_a_run_of_its_kernel() -> None:
    page = render_html(told(STORY))
    assert re.search(r'class="cell refuted"[^>]*/><text[^>]*>GPU<', page.replace("\n", ""))


def test_where_nothing_was_measured_the_page_says_so() -> None:
    text = text_of(render_html(BASE))
    assert "Nothing was measured in this run." in text
    assert "no picture of speed-up over batch size because there is no measurement" in text


def test_lanes_are_drawn_to_scale() -> None:
    lanes = story.lanes(EVIDENCE)
    assert lanes is not None
    picture = happened(lanes)
    widths = [float(w) for w in re.findall(r'<rect[^>]*width="([\d.]+)"', picture.svg)]
    assert widths[0] == pytest.approx(5 * widths[1], rel=0.01)
    assert picture.svg.count('class="span bad"') == 1
    assert "24 µs" in picture.svg


def test_a_wide_axis_is_spaced_by_ratio() -> None:
    (series,) = story.series(EVIDENCE)
    spots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', measured(series).svg)][:5]
    steps = [b - a for a, b in pairwise(spots)]
    assert steps[0] == pytest.approx(steps[1], abs=0.3)
    assert steps[3] == pytest.approx(3 * steps[0], abs=0.5)
    one = replace(series, lines=(story.Line("a", ((4.0, 0.0),)),))
    assert "0 at 4" in measured(one).says


KEYS = """
steps lanes series tables excerpts logs importers outputs text at kind name spans start end label points lines title
says unit x y columns rows finding mark path line when target behind
"""
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(STORY)), HOSTILE))
def test_details_of_any_shape_do_nothing(details: dict[str, Any]) -> None:
    result = told(details)
    check_page(render_html(result))
    assert all(re.fullmatch(r"[A-Za-z0-9._/-]+", name) for name in bundle_files(result))


@pytest.mark.parametrize("points", [[[0, 0]], [[1, 1e308], [2, 0]], [[1e-300, 1], [1e300, 2]], [[5, 5], [5, 6]]])
def test_figures_of_any_size_are_drawn(points: list[list[float]]) -> None:
    page = render_html(told({"series": [{"lines": [{"name": "a", "points": points}]}]}))
    check_page(page)
    assert "nan" not in page
    assert "inf" not in re.sub("info|infer|infinit", "", page)


def test_excerpts_and_logs_lie_in_the_bundle_by_digest(tmp_path: Path) -> None:
    finding = replace(BASE.findings[0], severity=Severity.ERROR)
    around = {"finding": finding.id, "at": "k.cu:41", "text": "a\nb\nc", "mark": 1}
    audit = replace(BASE.evidence[1], details={"excerpts": [around], "logs": [{"name": "../../nvcc", "text": "ok"}]})
    save_bundle(replace(BASE, evidence=(BASE.evidence[0], audit)), tmp_path / "b")
    files = load_bundle(tmp_path / "b").manifest["files"]
    (excerpt,) = (n for n, e in files.items() if e["kind"] == "excerpt")
    (log,) = (n for n, e in files.items() if e["kind"] == "log")
    assert excerpt.startswith(f"excerpts/{finding.id.replace('/', '-').replace(':', '-')}.")
    assert (tmp_path / "b" / excerpt).read_text() == "ordering/a, k.cu:41\n  a\n> b\n  c\n"
    assert (tmp_path / "b" / log).read_text() == "ok\n"
    assert log.startswith("logs/ordering-a-")
    (tmp_path / "b" / log).write_text("other\n")
    assert log in [p.where for p in verify_bundle(tmp_path / "b")]
    page = render_html(read_result(tmp_path / "b"))
    assert "<strong>b</strong>" in page


def test_the_deciding_findings_code_is_open() -> None:
    stored = Path(__file__).parent / "bundles" / "hoisted"
    page = render_html(read_result(stored))
    opened = re.search(r"<details open><summary>Code around it.*?</details>", page, re.DOTALL)
    assert opened is not None
    assert re.search(r"<strong> *0x0150 +LDG\.E\.CONSTANT [^<]*</strong>", opened[0])
    assert "ACQBULK" in opened[0]
