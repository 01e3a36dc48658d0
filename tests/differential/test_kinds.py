"""The table of kinds of cheating, row by row: each has its fixture, what catches it, and an honest look-alike."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.rule_fixtures import gate_fixtures
from validator.differential.results import KernelResult

ROOT = Path(__file__).parents[2]
KINDS: list[dict[str, Any]] = tomllib.loads((ROOT / "fixtures" / "cheating.toml").read_text())["kind"]
ROWS = pytest.mark.parametrize("row", KINDS, ids=[row["kind"] for row in KINDS])
EVASIONS, CHANGES = gate_fixtures("evasion"), gate_fixtures("honest")


@ROWS
def test_a_kind_is_caught_by_what_is_meant_to_catch_it(row: dict[str, Any], fixtures_of: Callable[[str], Any]) -> None:
    """The candidates named here are run by `test_planted.py`, the changes by `tests/gate/test_evasions.py`."""
    cheats, honest = fixtures_of("cheats"), fixtures_of("honest")
    assert row["caught_by"]
    assert row.get("cheats") or row.get("evasions") or row.get("tests")
    found = {cheats[name].found for name in row.get("cheats", ())}
    assert found == set(row.get("rules", ()))
    assert all(honest[name].found is None for name in row.get("honest", ()))
    assert set(row.get("evasions", ())) <= EVASIONS.keys()
    assert set(row.get("changes", ())) <= CHANGES.keys()
    if row.get("cheats"):
        assert row.get("honest"), "no honest look-alike"
    if row.get("evasions"):
        assert row.get("changes"), "no honest look-alike"
    for named in row.get("tests", ()):
        path, _, name = named.partition("::")
        tree = ast.parse((ROOT / path).read_bytes())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_cheat_has_its_kind(fixtures_of: Callable[[str], Any]) -> None:
    assert {name for row in KINDS for name in row.get("cheats", ())} == fixtures_of("cheats").keys()
    assert len({row["kind"] for row in KINDS}) == len(KINDS) >= 26


def test_the_run_ends_with_a_candidate_that_is_known_to_be_bad(
    fixtures_of: Callable[[str], Any], engine: Callable[..., KernelResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged as the others were; where it passes, nothing that was judged counts."""
    import validator.differential.engine as module

    asked: list[str] = []
    real = module.refuses_nothing_done

    def watched(runner: Any, case: Any) -> bool:
        asked.append(case.id)
        return real(runner, case)

    monkeypatch.setattr(module, "refuses_nothing_done", watched)
    result = engine(fixtures_of("honest")["in_double_and_back"], count=2)
    assert asked
    assert asked[0] == result.of("passed")[-1].case.id
    assert result.sound
