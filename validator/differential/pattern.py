"""What the failing cases share: a rule of one condition or two that separates them from those that pass.

Only a rule that no failing case breaks is told, with how many cases it holds for, and the figures beside it; where no
simple one separates them, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from validator.differential.cases import Case
from validator.differential.inputs import VARIANTS
from validator.differential.results import CaseResult

__all__ = ["pattern"]

_LEAST = 3
"""Cases that fail, and others, from which anything is said."""
_SURE = 0.9
"""Share of the cases of a rule that fail."""
_MULTIPLES = (4, 8, 16, 32, 64, 128)
_PAIRED = 160
"""Conditions that are tried in pairs."""


@dataclass(frozen=True, slots=True)
class _Rule:
    words: str
    cases: int
    """Those for which it holds, a bit each."""
    parts: int = 1
    at: int = 0
    """Its place among the others."""


def pattern(
    results: Sequence[CaseResult], tiles: Mapping[str, Sequence[int]], of: str = "failed", told: str = "fails"
) -> str:
    """In words: `fails in 12 of 12 cases with B >= 5, in 0 of 40 others`; empty where there is no such rule.

    `of`: the status that is told apart from `passed`; `told`: what such a case does.
    """
    judged = [r for r in results if r.status in (of, "passed")]
    failed = _bits([r.status == of for r in judged])
    if min(failed.bit_count(), len(judged) - failed.bit_count()) < _LEAST:
        return ""
    cases = [r.case for r in judged]
    rules = enumerate(_conditions(cases, failed, tiles))
    single = [replace(rule, at=at) for at, rule in rules if rule.cases & failed == failed]
    single.sort(key=lambda rule: rule.cases.bit_count())
    pairs = (
        _Rule(" and ".join(one.words for one in sorted((a, b), key=lambda r: r.at)), a.cases & b.cases, 2)
        for a, b in combinations(single[:_PAIRED], 2)
        if (a.cases & b.cases).bit_count() < min(a.cases.bit_count(), b.cases.bit_count())
    )
    count = failed.bit_count()
    sure = [rule for rule in (*single, *pairs) if count >= _SURE * rule.cases.bit_count()]
    best = min(sure, key=lambda rule: (rule.cases.bit_count(), rule.parts), default=None)
    if best is None or best.cases.bit_count() > len(judged) - _LEAST:
        return ""
    inside = best.cases.bit_count()
    return f"{told} in {count} of {inside} cases with {best.words}, in 0 of {len(judged) - inside} others"


def _bits(holds: Sequence[bool]) -> int:
    return sum(1 << at for at, one in enumerate(holds) if one)


def _conditions(cases: Sequence[Case], failed: int, tiles: Mapping[str, Sequence[int]]) -> Iterator[_Rule]:
    """The plainest first."""
    failing = [case for at, case in enumerate(cases) if failed >> at & 1]
    sizes = [dict(case.dims) for case in cases]
    for name in dict(cases[0].dims):
        values = [size.get(name, 0) for size in sizes]
        wrong = [dict(case.dims).get(name, 0) for case in failing]
        yield _Rule(f"{name} = {wrong[0]}", _bits([v == wrong[0] for v in values]))
        yield _Rule(f"{name} >= {min(wrong)}", _bits([v >= min(wrong) for v in values]))
        yield _Rule(f"{name} <= {max(wrong)}", _bits([v <= max(wrong) for v in values]))
        yield _Rule(f"{name} even", _bits([v % 2 == 0 for v in values]))
        yield _Rule(f"{name} odd", _bits([v % 2 == 1 for v in values]))
        for step in dict.fromkeys((*tiles.get(name, ()), *_MULTIPLES)):
            yield _Rule(f"{name} a multiple of {step}", _bits([v % step == 0 for v in values]))
            yield _Rule(f"{name} no multiple of {step}", _bits([v % step != 0 for v in values]))
    for words in dict.fromkeys(fact for case in failing for fact in _facts(case)):
        yield _Rule(words, _bits([words in _facts(case) for case in cases]))


def _facts(case: Case) -> tuple[str, ...]:
    """What is out of the ordinary in a case."""
    return (
        *(f"{name} as {dtype}" for name, dtype in case.dtypes),
        *(f"{name} {VARIANTS[variant].words}" for name, variant in case.variants),
        *(f"some argument {VARIANTS[variant].words}" for _, variant in case.variants),
        *(f"{name} {layout} in memory" for name, layout in case.layouts),
        *(f"{name} in its alias's memory" for name in case.aliased),
        *(f"{name} = {value}" for name, value in case.configuration),
        *(["unused parts NaN"] if case.padding else []),
        f"plan {case.plan}",
    )
