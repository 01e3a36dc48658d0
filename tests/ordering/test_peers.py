"""Cluster barriers taken out of good kernels, one after the other: each of them was needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from validator.manifest.load import load_contract
from validator.ordering.artifacts import audit_artifacts

FIXTURES = Path(__file__).parents[2] / "fixtures/ordering"
RULE = "order/peer-memory-unmet"
HALF = re.compile(r"^\s*barrier\.cluster\.(?:arrive|wait)[^;]*;", re.MULTILINE)
CASES = [
    ("rules/peer-memory-unmet/good", 0, ["handed", "start"]),
    ("rules/peer-memory-unmet/good", 1, ["exit"]),
    ("patterns/cluster-meets-before-it-ends", 1, ["exit"]),
    ("patterns/pushed-to-peer-then-met", 0, ["start"]),
    ("patterns/pushed-to-peer-then-met", 1, ["handed"]),
    ("patterns/peer-by-generic-address", 1, ["handed"]),
    ("patterns/peer-by-generic-address", 2, ["exit"]),
]
"""(folder, which barrier goes, what is missed)."""


def missed(folder: str, text: str) -> list[str]:
    kernels, steps = load_contract((FIXTURES / folder / "contract.toml").read_bytes(), "contract.toml")
    (kernel,) = audit_artifacts([("kernel.ptx", text.encode())], kernels, steps).kernels
    return sorted(f.identity[-1] for f in kernel.findings if f.rule == RULE)


@pytest.mark.parametrize(("folder", "number", "kinds"), CASES)
def test_a_cluster_barrier_taken_out_is_missed(folder: str, number: int, kinds: list[str]):
    text = (FIXTURES / folder / "sm_90a.ptx").read_text()
    assert not missed(folder, text)
    halves = list(HALF.finditer(text))[2 * number : 2 * number + 2]
    assert len(halves) == 2
    for half in reversed(halves):
        text = text[: half.start()] + text[half.end() :]
    assert missed(folder, text) == kinds
