"""What was learnt of a tree is kept by its id: the same result, in less reading; what cannot be believed is a miss."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.support.isolation_case import context_of, edited, honest
from tests.support.memory_tree import MemoryTree
from validator.cli.isolate import isolate
from validator.errors import ValidatorError
from validator.isolation import analysis as analysis_module
from validator.isolation.blast.radius import graph_of
from validator.isolation.index import keep, recall
from validator.isolation.proof import run
from validator.isolation.source import Sources
from validator.scale.store import Store
from validator.stage import StageContext
from validator.verdict.model import StageResult, Status


class Memory:
    """A store that counts."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.hits = 0

    def get(self, key: str) -> bytes | None:
        self.hits += key in self.kept
        return self.kept.get(key)

    def put(self, key: str, value: bytes) -> bool:
        if key.startswith("isolation/kernels/"):
            return False  # see `test_shipped`
        self.kept[key] = value
        return True


def _run(context: StageContext, store: Memory | None) -> StageResult:
    analysis_module._LAST.clear()  # a process of its own would not have it either
    return run(replace(context, store=store))


def test_a_second_run_gives_the_same_and_learns_nothing_new(tmp_path: Path) -> None:
    context, store = context_of(*honest(), tmp_path), Memory()
    without = _run(context, None)
    assert _run(context, store) == without
    first = dict(store.kept)
    assert (len(first), store.hits) == (2, 0)
    assert _run(context, store) == without
    assert (store.kept, store.hits) == (first, 2)


def test_another_change_on_the_same_base_takes_the_base_over(tmp_path: Path) -> None:
    base, head = honest()
    store = Memory()
    _run(context_of(base, head, tmp_path), store)
    other = edited(head, [{"path": "engine/layers/moe.py", "new": "from engine.models.k3_fused import executor\n"}])
    context = context_of(base, other, tmp_path)
    assert _run(context, store) == _run(context, None)
    assert store.hits == 1


def test_what_counts_as_isolated_is_part_of_the_key(tmp_path: Path) -> None:
    base, head = honest()
    store = Memory()
    _run(context_of(base, head, tmp_path), store)
    narrower = {"old": '"engine/models/k3_fused/**"', "new": '"engine/models/k3_fused/kernels/**"'}
    context = context_of(base, edited(head, [{"path": "rfcs/k3-fused-decode.toml", **narrower}]), tmp_path)
    assert _run(context, store) == _run(context, None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"[]",
        lambda data: b"null",
        lambda data: b"[" * 100_000,
        lambda data: json.dumps(json.loads(data) | {"graph": [[[999_999]], []]}).encode(),
        lambda data: json.dumps(json.loads(data) | {"mentions": {"x": [-1]}}).encode(),
        lambda data: json.dumps(json.loads(data) | {"mentions": {"x": "ab"}}).encode(),
        lambda data: json.dumps(json.loads(data) | {"properties": 3}).encode(),
    ],
)
def test_an_entry_that_does_not_read_is_a_miss(damage) -> None:  # type: ignore[no-untyped-def]
    tree, store = MemoryTree({"a.py": "import b\n", "b.py": "x = 1\n"}), Memory()
    first = Sources(tree, lambda path: False)
    assert graph_of(first).eager["a.py"] == {"b.py"}
    assert first.mentions("x") == ("b.py",)
    assert first.properties() == {}
    keep(first, store)
    for data, read in ((store.kept, True), ({key: damage(data) for key, data in store.kept.items()}, False)):
        store.kept, again = data, Sources(tree, lambda path: False)
        recall(again, store)
        assert (again.graph is not None) is read
        assert again.remembered() == (first.remembered() if read else ({}, None))


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    context_of(*honest(), tmp_path / "git", own=True)
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "validator", "isolate", "--repo", str(tmp_path / "git"), "--base", "main"]
    command += ["--head", "change", "--cache", str(cache), "--quiet"]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    with Store(cache) as store:
        assert len(store) == 4, "two trees, and two compiled files of the base"


def test_a_damaged_folder_costs_time_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context_of(*honest(), tmp_path / "git", own=True)
    cache = tmp_path / "cache"
    words = ["--repo", str(tmp_path / "git"), "--base", "main", "--head", "change", "--quiet"]
    monkeypatch.setenv("VALIDATOR_CACHE", str(cache))
    assert isolate.main(words, standalone_mode=False) == 0
    for path in cache.rglob("*.z"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert isolate.main(words, standalone_mode=False) == 0
    entries = {p: p.stat().st_mtime_ns for p in cache.rglob("*.z")}
    assert isolate.main([*words, "--cache", ""], standalone_mode=False) == 0, "an empty name turns it off"
    assert {p: p.stat().st_mtime_ns for p in cache.rglob("*.z")} == entries


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    context_of(*honest(), tmp_path / "git", own=True)
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises((ValidatorError, click.ClickException), match="written by others"):
        isolate.main(
            ["--repo", str(tmp_path / "git"), "--base", "main", "--head", "change", "--cache", str(cache)],
            standalone_mode=False,
        )


def test_the_proof_is_about_this_tree(tmp_path: Path) -> None:
    """A mutation is refuted whatever an earlier run of the honest change left."""
    base, head = honest()
    store = Memory()
    _run(context_of(base, head, tmp_path), store)
    guard = "if self.fused_executor is not None and self.fused_executor.admits(input_ids, metadata):"
    worse = edited(head, [{"path": "engine/models/k3.py", "old": guard, "new": "if input_ids.shape[0] == 1:"}])
    result = _run(context_of(base, worse, tmp_path), store)
    assert Status.REFUTED in {o.status for o in result.obligations}
