"""A result with evidence of kinds that the page knows nothing about, with everything that it may bring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.report.conftest import BASE
from validator.verdict.compute import compute, verdict_reason
from validator.verdict.model import Evidence, Obligation, Status, Strength
from validator.verdict.result import CheckResult

__all__ = ["STORY", "told"]

STORY: dict[str, Any] = {
    "steps": [
        {"text": "producer: CTA 0 triggers its dependants", "at": "producer.ptx:31"},
        {"text": "consumer: thread 4 of CTA 1 reads x[132]", "at": "consumer.ptx:57", "kind": "bad"},
        {"text": "producer: CTA 1 writes x[132]", "at": "producer.ptx:48"},
    ],
    "lanes": {
        "title": "The launch that failed",
        "says": "The consumer reads x before the producer, which a neighbour holds up, has written it.",
        "unit": "µs",
        "lanes": [
            {"name": "neighbour", "spans": [{"start": 0, "end": 20, "label": "holds the SMs", "kind": "delay"}]},
            {
                "name": "producer",
                "spans": [
                    {"start": 0, "end": 4, "label": "CTA 0", "kind": "run"},
                    {"start": 20, "end": 24, "label": "CTA 1 writes x", "kind": "write"},
                ],
            },
            {
                "name": "consumer",
                "spans": [
                    {"start": 4, "end": 7, "label": "x", "kind": "bad"},
                    {"start": 7, "end": 24, "label": "waits", "kind": "wait"},
                ],
            },
        ],
    },
    "series": [
        {
            "title": "Speed-up over batch size",
            "x": "batch",
            "y": "times the stock path",
            "lines": [
                {"name": "fused", "points": [[1, 1.68], [2, 1.6], [4, 1.41], [8, 1.2], [64, 0.97]]},
                {"name": "stock", "points": [[1, 1], [2, 1], [4, 1], [8, 1], [64, 1]]},
            ],
        }
    ],
    "tables": [{"title": "Launches", "columns": ["delay", "wrong"], "rows": [["0 µs", 0], ["20 µs", 200]]}],
    "excerpts": [{"title": "The store", "at": "producer.ptx:48", "text": "st.global.f32 [%rd1], %f1;\nret;"}],
    "logs": [{"name": "compute-sanitizer", "text": "========= ERROR SUMMARY: 0 errors"}],
}


def told(details: dict[str, Any], strength: Strength = Strength.GPU_RUN) -> CheckResult:
    """A refuted run of the kernel on a device, and a build that belongs to no kernel."""
    run = Evidence("run/kda_decode*", "late-producer", strength, "200 of 200 launches wrong", Status.REFUTED)
    build = Evidence("build", "build", Strength.SOURCE, "4 files built", Status.PROVEN)
    obligations = (
        Obligation("run/kda_decode*", "it is right behind a late producer", Status.REFUTED, "200 wrong", (run.id,)),
        Obligation("build", "the compiled files are what the sources give", Status.PROVEN, "", (build.id,)),
    )
    return replace(
        BASE,
        obligations=obligations,
        evidence=(replace(run, details=details), replace(build, details=details)),
        findings=(),
        verdict=compute(obligations),
        reason=verdict_reason(obligations),
    )
