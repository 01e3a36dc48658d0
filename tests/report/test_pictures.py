"""Pictures say in words what they show, and show what the evidence says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.report.conftest import BASE, manifest
from validator.report.details import Case, accesses, cases
from validator.report.glance import kernels_at_a_glance
from validator.report.pictures.blast import blast_radius
from validator.report.pictures.charts import architectures, claims, errors, shapes
from validator.report.pictures.pipeline import pipelines
from validator.report.pictures.timeline import timeline
from validator.verdict.model import Evidence, Obligation, Status, Strength
from validator.verdict.result import CheckResult


def row(memory: str, role: str, allowed: bool = True, count: int = 1) -> dict[str, Any]:
    return {"access": "read", "memory": memory, "role": role, "allowed": allowed, "count": count, "instruction": "LDG"}


def audit(kernel: str, arch: str = "sm_100a", status: Status = Status.PROVEN, **details: Any) -> Evidence:
    figures: dict[str, int | float | str] = {"kernel": kernel, "arch": arch, "triggers": 1}
    ident = f"ordering/{kernel}/{arch}"
    return Evidence(ident, "ordering-audit", Strength.MACHINE_CODE, ident, status, figures=figures, details=details)


def change(kernels: list[str], evidence: list[Evidence], **more: Any) -> CheckResult:
    """A change with these kernels, each with arguments `x` (activation), `w` (weight) and `y` (output)."""
    args = [{"name": "x", "role": "activation"}, {"name": "w", "role": "weight"}, {"name": "y", "role": "output"}]
    tables = [{"match": k, "launch": {"pdl": True}, "args": args} for k in kernels]
    obligations = tuple(
        Obligation(
            f"ordering/{k}", "s", Status.PROVEN, "", tuple(e.id for e in evidence if e.figures.get("kernel") == k)
        )
        for k in kernels
    )
    return replace(
        BASE, manifest=manifest(kernels=tables, **more), obligations=obligations, evidence=tuple(evidence), findings=()
    )


def test_a_step_shows_who_feeds_whom_and_what_is_read_early() -> None:
    steps = [
        {
            "name": "layer",
            "launches": [
                {"kernel": "norm", "args": {"y": "h"}},
                {"kernel": "decode", "args": {"x": "h", "y": "o"}},
                {"kernel": "project", "args": {"x": "o"}},
                {"kernel": "decode", "args": {"x": "h"}},
                {"kernel": "stranger"},
            ],
        }
    ]
    early = [row("x", "activation", allowed=False), row("w", "weight")]
    evidence = [audit("decode", early=early, waits=[{"kind": "grid-wait"}]), audit("norm")]
    (picture,) = pipelines(change(["norm", "decode", "project"], evidence, steps=steps))
    assert picture.title == "Step “layer”"
    assert picture.says.startswith(
        "5 launches in this order: norm, decode, project, decode, stranger; norm feeds decode (h)"
    )
    assert "decode feeds project (o)" in picture.says
    assert "decode: BEFORE THE WAIT, refused: activation x" in picture.says
    assert picture.svg.count('class="edge"') == 3
    for text in ("before the wait: weight w", "ordered by grid-wait; 1 trigger", "no compiled code of it was audited"):
        assert text in picture.svg


def test_kernels_without_a_declared_order_feed_nobody() -> None:
    (picture,) = pipelines(change(["a", "b"], []))
    assert "declares no order" in picture.title
    assert 'class="edge"' not in picture.svg


def test_a_long_step_is_cut_and_says_so() -> None:
    names = [f"k{n}" for n in range(60)]
    steps = [{"name": "long", "launches": [{"kernel": n} for n in names]}]
    (picture,) = pipelines(change(names, [], steps=steps))
    assert "and 20 more in the table below" in picture.svg
    assert picture.says.startswith("60 launches")


def test_a_timeline_sets_early_beside_late() -> None:
    picture = timeline(
        audit(
            "k",
            waits=[{"kind": "grid-wait", "text": "all threads", "at": "k.cu:3"}],
            early=[row("x", "activation", allowed=False, count=2), row("w", "weight")],
            movable=[row("q", "activation", allowed=False)],
            accesses=[row("x", "activation", count=5), row("w", "weight"), row("q", "activation"), row("y", "output")],
        )
    )
    assert picture is not None
    assert picture.says == (
        "1 wait; refused before it: x (activation); allowed before it: w (weight); "
        "behind it, and a compiler may move it: q."
    )
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg)
    # x: two of five before the wait, three behind it; w: its only one before.
    assert texts[2:] == [
        *("x (activation)", "×2", "×3", "w (weight)", "×1"),
        *("q (activation)", "×1", "▲ ×1", "y (output)", "×1"),
    ]
    assert (picture.svg.count('class="refused"'), picture.svg.count('class="allowed"')) == (1, 1)


def test_a_kernel_without_a_wait_says_so() -> None:
    picture = timeline(audit("k", accesses=[row("y", "output")]))
    assert picture is not None
    assert "no wait was found" in picture.svg
    assert picture.says == "0 waits; nothing is touched before it."
    assert timeline(audit("k")) is None


def run(*rows: dict[str, Any]) -> tuple[Case, ...]:
    return cases(Evidence("e", "differential", Strength.CPU_MODEL, "", Status.PROVEN, details={"cases": list(rows)}))


def test_errors_are_told_beside_the_trusted_implementations_own() -> None:
    picture = errors(
        run({"error": 0.5, "baseline": 0.3}, {"error": 3.0, "baseline": 0.4}, {"error": 0}, {"error": None}),
        "run on a GPU",
    )
    assert picture is not None
    assert picture.title == "Errors against float64, run on a GPU"
    assert picture.says.startswith(
        "Candidate: median 0.5, largest 3 over 3 cases. Trusted implementation: median 0.35, largest 0.4."
    )
    assert "Which multiple of it counts as wrong stands in no evidence" in picture.says
    assert errors(run({"error": None}), "") is None
    told = errors(run({"error": 0.5}), "", "A case counts as wrong beyond: 2 times the baseline's error.")
    assert told is not None
    assert told.says.endswith("counts as wrong beyond: 2 times the baseline's error.")


def test_shapes_that_fail_or_show_nothing_stand_out() -> None:
    picture = shapes(
        run(
            {"status": "passed", "dims": {"B": 1, "H": 3}},
            {"status": "failed", "dims": {"B": 1, "H": 5}},
            {"status": "void", "dims": {"B": 2, "H": 3}, "dtypes": {"x": "bfloat16"}},
        ),
        "B",
        "run on a GPU",
    )
    assert picture is not None
    assert "(run on a GPU); empty cells were not run" in picture.says
    for text in ("2, 1 wrong", "1, show nothing", "not examined", "x bfloat16", "B = 1"):
        assert text in picture.svg
    assert shapes(run({"status": "passed"}), "B", "") is None


@pytest.mark.parametrize("count", [12, 13, 500])
def test_many_sizes_become_ranges(count: int) -> None:
    picture = shapes(run(*({"status": "passed", "dims": {"B": n}} for n in range(count))), None, "")
    assert picture is not None
    assert len(re.findall(r">B = ", picture.svg)) <= 12
    assert sum(int(n) for n in re.findall(r'class="mid">(\d+)<', picture.svg)) == count


def test_what_was_not_examined_is_named() -> None:
    result = change(["a", "b"], [audit("a"), audit("a", "sm_90a", Status.REFUTED)])
    picture = architectures(kernels_at_a_glance(result), ("sm_100a", "sm_90a"))
    assert picture is not None
    assert picture.says == "Nothing was examined of b on sm_100a, b on sm_90a. Nothing was run of a, b."
    assert picture.svg.count('class="cell refuted"') == 1


def test_claims_are_said_to_be_declared() -> None:
    picture = claims(BASE)
    assert picture is not None
    assert "not measured here" in picture.title
    assert picture.says == "tokens/s: 423 against 252."


def test_the_blast_radius_counts_what_exists_apart_from_what_is_new() -> None:
    picture = blast_radius(BASE)
    assert picture is not None
    assert picture.says == ("Edits 1 existing file (4 lines) and brings 1 new file. Who imports it was not examined.")
    assert "switch FAST_KDA" in picture.svg
    assert ">not examined<" in picture.svg


def radius(*rows: dict[str, Any]) -> CheckResult:
    told = {"importers": list(rows)}
    found = Evidence("isolation/blast-radius", "change", Strength.SOURCE, "", Status.PROVEN, details=told)
    return replace(BASE, evidence=(found,))


def test_the_blast_radius_names_who_imports_it_and_when() -> None:
    lazy = {"path": "serve/model.py", "line": 9, "when": "call", "target": "fast.kda:decode", "behind": "cfg.kda"}
    eager = {"path": "serve/all.py", "line": 2, "when": "import", "target": "fast.kda", "behind": ""}
    picture = blast_radius(radius(lazy, eager))
    assert picture is not None
    assert "serve/model.py:9 imports fast.kda:decode when it is called, behind cfg.kda" in picture.says
    assert "serve/all.py:2 imports fast.kda when it is loaded." in picture.says
    assert "serve/model.py:9" in picture.svg
    alone = blast_radius(radius())
    assert alone is not None
    assert "No import of it from outside was found" in alone.says
    assert ">nobody was found<" in alone.svg


def test_rows_of_the_wrong_shape_are_left_out() -> None:
    assert accesses(audit("k", early="x"), "early") == ()
    assert accesses(audit("k", early=[3, None]), "early") == ()
    assert cases(audit("k", cases=[{"error": float("inf")}]))[0].error is None
