"""What one kernel's run saw, as rows for a report: `Evidence.details` of kind `differential`.

coverage      [{class, words, cases, applies, reason}]
cases         [{id, status, dims, dtypes, class, inputs, origin, faults, error, baseline}]
confinement   {what: yes or why not}
limits        what a result may be off by before it counts as wrong, in words (added by `settle`)
counterexamples [{id, kernel, case}]: the smallest cases that fail, as `validator replay` takes them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from validator.differential.cases import Case, case_text
from validator.differential.coverage import Row
from validator.differential.results import CaseResult, KernelResult

__all__ = ["kernel_details"]


def kernel_details(result: KernelResult, rows: Sequence[Row]) -> dict[str, Any]:
    """Plain JSON; cases in the order in which they ran, then those that were planned and have no result."""
    ran = [_case(r) for r in result.results]
    missing = [{**_case(CaseResult(c)), "status": "missing"} for c in result.missing]
    return {
        "coverage": [_row(r) for r in rows],
        "cases": [*ran, *missing],
        "confinement": dict(result.enforced),
        "counterexamples": [_stored(r.case) for r in result.shrunk.values()],
    }


def _stored(case: Case) -> dict[str, str]:
    return {"id": case.id, "kernel": case.kernel, "case": case_text(case)}


def _row(row: Row) -> dict[str, Any]:
    return {
        "class": row.input_class,
        "words": row.words,
        "cases": row.cases,
        "applies": row.applies,
        "reason": row.reason,
    }


def _case(result: CaseResult) -> dict[str, Any]:
    case = result.case
    return {
        "id": case.id,
        "status": result.status,
        "dims": dict(case.dims),
        "dtypes": dict(case.dtypes),
        "class": case.input_class,
        "inputs": result.words(),
        "origin": case.origin,
        "faults": [f.message for f in result.faults],
        "error": result.error,
        "baseline": result.baseline,
    }
