"""Threads held against each other: right kernels are quiet, each mutant of them shows its own fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.ordering.facts import Facts
from validator.ordering.ptx import read_ptx
from validator.ordering.rounds import Rounds
from validator.ordering.shared import Shared
from validator.ordering.stages import Kind

PATTERNS = Path(__file__).parents[2] / "fixtures/ordering/patterns"


def kinds(text: str) -> set[Kind]:
    (program,) = read_ptx(text.encode(), "ring.ptx").programs
    facts = Facts(program, None, "ring.ptx")
    return {fault.kind for fault in Rounds(facts, Shared(facts)).faults}


def ptx(pattern: str) -> str:
    return (PATTERNS / pattern / "sm_90a.ptx").read_text()


@pytest.mark.parametrize(
    "pattern",
    [
        "ring-unrolled-by-the-compiler",
        "ring-counts-each-warp",
        "store-ring-waits-for-its-stage",
        "store-ring-handed-over",
        "bytes-of-rolled-copies",
    ],
)
def test_a_right_kernel_is_quiet(pattern: str):
    assert kinds(ptx(pattern)) == set()


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("bad-ring-filled-without-empty", Kind.REFILLED),
        ("bad-ring-handed-back-before-read", Kind.RELEASED),
        ("bad-ring-parity-never-flips", Kind.STALE),
        ("bad-ring-counts-one-warp", Kind.CROWDED),
        ("bad-store-ring-handed-over-early", Kind.SOURCE),
        ("bad-bytes-of-rolled-copies", Kind.SHORT),
        ("bad-store-ring-waits-for-too-few", Kind.SOURCE),
    ],
)
def test_a_wrong_kernel_shows_its_fault(pattern: str, kind: Kind):
    assert kinds(ptx(pattern)) == {kind}


@pytest.mark.parametrize(
    ("pattern", "old", "new", "kind"),
    [
        ("store-ring-waits-for-its-stage", "wait_group.read 1", "wait_group.read 3", Kind.SOURCE),
        ("store-ring-handed-over", "wait_group.read 0", "wait_group.read 1", Kind.SOURCE),
        ("bytes-of-rolled-copies", "2048", "1536", Kind.SHORT),
    ],
)
def test_a_mutant_shows(pattern: str, old: str, new: str, kind: Kind):
    text = ptx(pattern)
    assert old in text
    assert kinds(text.replace(old, new)) == {kind}
