"""Journals of finished cases: what stands before the first damage is believed, the rest is cut off."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from validator.differential.cases import Case
from validator.differential.controls import Controlled
from validator.differential.faults import Fault, FaultKind
from validator.differential.journal import Finished, Journal
from validator.differential.results import CaseResult

MODULES = ("validator.differential.journal", "validator.differential.results", "validator.differential.cases")


def seeds() -> Iterator[bytes]:
    case = Case("scale", (("B", 1), ("D", 4)), 7, plan="flip", origin="ordinary values", input_class="plain")
    fault = Fault(FaultKind.VALUE, "out", "2 elements are wrong", {"error": float("nan"), "elements": 2})
    failed, passed = (
        CaseResult(case, (fault,), None, error=float("inf")),
        CaseResult(case, (), Controlled(("a",), (), ())),
    )
    with tempfile.TemporaryDirectory(prefix="validator-fuzz-") as scratch:
        path = Path(scratch, "j")
        with Journal(path) as journal:
            for finished in (
                Finished(failed, 1, 0, 0, True),
                Finished(failed, 9, 1, 2, True, ("w",), ("w",), 399, passed),
            ):
                journal.add(finished)
        yield path.read_bytes()
        yield path.read_bytes()[:-9]


def one(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="validator-fuzz-") as scratch:
        path = Path(scratch, "j")
        path.write_bytes(data)
        with Journal(path) as journal:
            known = dict(journal._finished)
        left = path.read_bytes()
        assert data.startswith(left) or left == b"validator/journal/1\n"
        with Journal(path) as journal:
            assert dict(journal._finished).keys() == known.keys()
        assert path.read_bytes() == left
