"""A failure fits on a screen, whatever the contract looks like, and says which numbers were drawn."""

from __future__ import annotations

import numpy as np

from validator.differential.cases import Case
from validator.differential.faults import Fault, FaultKind
from validator.differential.inwords import in_words
from validator.differential.results import CaseResult
from validator.differential.text import replay_text
from validator.manifest.contract import KernelContract


def test_a_failure_of_many_arguments_dimensions_and_outputs_fits_on_a_screen() -> None:
    dims = tuple((f"NUMBER_OF_ROWS_{n}", 1000 + n) for n in range(60))
    variants = tuple((f"argument_with_a_long_name_{n}", "large") for n in range(40))
    message = "out[3, 4, 5]: expected 1.25, got 1.5; " + ", ".join(f"only index {n} along axis {n}" for n in range(60))
    faults = [
        Fault(FaultKind.VALUE, f"out{n}", message, {f"figure {k}": k / 3 for k in range(40)}, ("a step " * 60,) * 40)
        for n in range(30)
    ]
    failed = CaseResult(Case("k", dims, 1, variants=variants), tuple(faults[:1]), chosen="w = 1; lens = [2, 5]")
    *told, replay, _ = replay_text(failed).split("\n")
    assert len(told) <= 24
    assert max(map(len, told)) <= 100
    assert replay.startswith("  replay  validator replay ")
    many = replay_text(CaseResult(Case("k", dims, 1), tuple(Fault(f.kind, f.output, f.message) for f in faults)))
    assert many.count("\n") <= 24
    assert "  and 27 more\n" in many


def test_what_was_drawn_stands_in_the_words_of_a_failure() -> None:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T"]},
        {"name": "w", "role": "scalar", "dtype": "int32"},
        {"name": "eps", "role": "scalar", "dtype": "float32"},
        {"name": "told", "role": "scalar", "value": "T"},
        {"name": "lens", "role": "index", "dtype": "int32", "shape": [2]},
        {"name": "ids", "role": "index", "dtype": "int64", "shape": [900]},
        {"name": "out", "role": "output", "dtype": "int32", "shape": [2]},
    ]
    contract = KernelContract.model_validate({"match": "k", "dims": ["T in 1..9"], "args": args})
    lens, ids, out = np.array([2, 5], np.int32), np.zeros(900, np.int64), np.zeros(2, np.int32)
    made = {"x": np.ones(3, np.float32), "w": 1, "eps": 0.25, "told": 3, "lens": lens, "ids": ids, "out": out}
    chosen = in_words(contract, made)
    assert chosen == "w = 1; eps = 0.25; lens = [2, 5]"
    case = Case("k", (("T", 3),), 1)
    assert CaseResult(case, chosen=chosen).words() == "T = 3; w = 1; eps = 0.25; lens = [2, 5]; plan repeat"
    assert CaseResult(case).words() == case.words()
