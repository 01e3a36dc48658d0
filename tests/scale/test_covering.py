"""Covering arrays: every valid combination is in some row, no invalid one is; the same input gives the same rows."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validator.scale.covering import Constraint, CoverError, cover


def uncovered(rows, factors, strength, constraints=()):
    """Combinations that some valid full row holds and no given row does, by brute force."""
    valid = [
        row
        for row in (dict(zip(factors, values, strict=True)) for values in product(*factors.values()))
        if all(c.holds(row) for c in constraints)
    ]
    missing = set()
    for names in combinations(factors, strength):
        wanted = {tuple(row[n] for n in names) for row in valid}
        missing |= {(names, t) for t in wanted - {tuple(row[n] for n in names) for row in rows}}
    return missing


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    factors = {f"f{i}": [f"v{k}" for k in range(size)] for i, size in enumerate(sizes)}
    constraints = []
    for _ in range(draw(st.integers(0, 3))):
        names = tuple(draw(st.lists(st.sampled_from(list(factors)), min_size=1, max_size=3, unique=True)))
        allowed = draw(st.sets(st.sampled_from(list(product(*(factors[n] for n in names)))), min_size=1))
        constraints.append(
            Constraint(names, lambda row, names=names, allowed=allowed: tuple(row[n] for n in names) in allowed)
        )
    return factors, constraints, draw(st.integers(1, 3))


@settings(max_examples=200, deadline=None)
@given(problems())
def test_every_valid_combination_is_covered_and_every_row_is_valid(problem):
    factors, constraints, strength = problem
    try:
        covered = cover(factors, strength, constraints)
    except CoverError:
        assert not any(
            all(c.holds(dict(zip(factors, values, strict=True))) for c in constraints)
            for values in product(*factors.values())
        )
        return
    rows = list(covered)
    assert all(c.holds(row) for row in rows for c in constraints)
    assert not uncovered(rows, factors, min(strength, len(factors)), constraints)
    assert rows == list(cover(factors, strength, constraints))


def test_a_constraint_that_follows_from_two_others_is_seen():
    """a=0 demands b=0, and b=0 demands c=0: a=0 with c=1 is in no row although no constraint speaks of both."""
    factors = {"a": [0, 1], "b": [0, 1], "c": [0, 1], "d": [0, 1]}
    chain = [
        Constraint(("a", "b"), lambda r: r["a"] == 1 or r["b"] == 0),
        Constraint(("b", "c"), lambda r: r["b"] == 1 or r["c"] == 0),
    ]
    covered = cover(factors, 2, chain)
    assert not uncovered(list(covered), factors, 2, chain)
    assert not any(row["a"] == 0 and row["c"] == 1 for row in covered)
    assert covered.impossible == 3  # a0 b1, a0 c1, b0 c1


def test_few_rows_are_all_there_and_what_is_always_there_comes_first():
    factors = {"a": [0, 1, 2], "b": [0, 1]}
    covered = cover(factors, 2, always=[{"a": 2, "b": 1}], exhaustive=6)
    rows = list(covered)
    assert rows[0] == {"a": 2, "b": 1}
    assert len(rows) == 6
    assert covered.strength == 2
    many = cover({f"f{i}": list(range(5)) for i in range(6)}, 2, always=[{f"f{i}": 4 for i in range(6)}])
    assert next(iter(many)) == {f"f{i}": 4 for i in range(6)}
    assert len(many) < 60 < many.raw


def test_three_values_at_once_take_few_rows():
    covered = cover({f"f{i}": list(range(5)) for i in range(6)}, 3)
    assert 125 <= len(covered) <= 240  # 125 is the least there can be
    assert covered.combinations == 20 * 125


def test_what_nothing_satisfies_or_nobody_can_count_is_an_error():
    with pytest.raises(CoverError, match="satisfies"):
        cover({"a": [0, 1]}, 1, [Constraint(("a",), lambda r: False)])
    wide = {f"f{i}": list(range(100)) for i in range(4)}
    with pytest.raises(CoverError, match="bind"):
        cover(wide, 2, [Constraint(tuple(wide), lambda r: True)])
    with pytest.raises(CoverError, match="too many"):
        cover({f"f{i}": list(range(200)) for i in range(20)}, 3)
