"""Cells to outcomes, whatever executes them: each once, nothing twice, nothing lost but what a cell does to itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

from tests.scale.tasks import cell, cells, gpu_cells
from validator.scale.batch import Batch, Finished, run_cells
from validator.scale.budget import Budget, BudgetError, in_words, parse_duration
from validator.scale.cell import InPlace, Needs, State
from validator.scale.engine import DEVICES, Engine
from validator.scale.local import Local, gpus_here
from validator.scale.shard import Shard, ShardError
from validator.scale.store import Store
from validator.scale.surroundings import devices


def told(outcomes):
    """Cell id → (state, data), each cell once."""
    listed = [(o.cell.id, (o.state.value, o.data)) for o in outcomes]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


@pytest.fixture
def local():
    with Local(jobs=2, gpus=(), in_place=False) as executor:
        yield executor


def run(engine, work):
    return told(engine.run(work, len(work)))


def test_other_processes_say_what_this_one_says(local, tmp_path):
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/x.py").write_text("x = 1")
    (tmp_path / "file").write_text("content")
    here, engine = InPlace(), Engine(local)
    work = [*cells(50), cell(1, "refuse"), cell(2, "break_")]
    for path in (tmp_path / "tree", tmp_path / "file"):
        name = here.keep(path)
        assert engine.keep(path) == name
        work.append(cell(len(work), "read", name.encode(), content=(name,)))
    expected = told(here.run(work, len(work)))
    assert run(engine, work) == expected
    assert Counter(state for state, _ in expected.values()) == {"done": 52, "raised": 2}
    outcomes = {o.cell.id: o for o in Engine(local).run([cell(1, "refuse"), cell(2, "break_")], 2)}
    assert outcomes["test/refuse/00001"].why == "will not do 1"
    assert outcomes["test/break_/00002"].why == "internal error: KeyError: '2'"


def test_work_is_spread_and_little_work_starts_no_process(local):
    work = cells(8, "slow", payload=b"0.3", seconds=0.3)
    assert len(run(Engine(local), work)) == 8
    assert local.starts == 2
    with Local(jobs=2, gpus=()) as lazy:
        assert len(run(Engine(lazy), cells(5))) == 5
        assert lazy.starts == 0
        run(Engine(lazy), cells(40, "slow", payload=b"0.01", seconds=0.1))
        assert lazy.starts == 2


def test_what_is_known_is_not_run_again(local, tmp_path):
    with Store(tmp_path / "s") as store:
        counter = tmp_path / "count"
        work = [cell(n, "count", str(counter).encode() + b"|0") for n in range(2)]  # the same work under two ids
        work[1] = replace(work[1], payload=work[1].payload + b".0")
        first = list(Engine(local, [store], [store]).run(work, 2))
        again = list(Engine(local, [store], [store]).run(work, 2))
    assert counter.read_text() == "xx"
    assert [o.known for o in first] == [False, False]
    assert all(o.known for o in again)
    assert told(first) == told(again)


@pytest.mark.parametrize("damage", [b"", b"poison"])
def test_a_poisoned_entry_is_recomputed(local, tmp_path, damage):
    work = cells(3, payload=b"x" * (1 << 16))
    work = [replace(c, payload=c.payload + c.id.encode()) for c in work]
    with Store(tmp_path / "s") as store:
        expected = run(Engine(local, [store], [store]), work)
        for file in (tmp_path / "s/objects").rglob("*.z"):
            file.write_bytes(damage)
        again = list(Engine(local, [store], [store]).run(work, 3))
    assert told(again) == expected


def test_whatever_can_change_a_result_is_in_its_key():
    base = cell(1)
    others = [
        replace(base, task="tests.scale.tasks:pid"),
        replace(base, payload=b"2"),
        replace(base, content=("ab",)),
        replace(base, rests_on={"nvdisasm": "13.0"}),
        replace(base, rests_on={"nvdisasm": "13.5"}),
        replace(base, rests_on={"driver": "580"}),
    ]
    assert len({c.key for c in [base, *others]}) == len(others) + 1
    assert replace(base, id="other", seconds=9.0).key == base.key


def test_what_ran_on_a_gpu_rests_on_the_devices_and_the_driver_and_is_merged_where_there_are_none(tmp_path):
    """Parts of a run say what they ran on; who puts them together may have no GPU at all."""
    work = [replace(c, task="tests.scale.tasks:echo") for c in gpu_cells(4)] + cells(2)
    parts = [Store(tmp_path / str(n)) for n in (1, 2)]
    for number, (store, on) in enumerate(zip(parts, ("driver 580; H200", "driver 590; B200"), strict=True), 1):
        machine = Fake(0, on)
        list(Engine(machine, keep_in=[store], whole=store, shard=Shard(number, 2)).run(work, 6))
        assert not any(o.known for o in Engine(Fake(0, "driver 600"), [store]).run(work, 6) if o.cell.needs.gpu)
    said = sorted(store.get(DEVICES).decode() for store in parts)
    assert said == ["driver 580; H200", "driver 590; B200"]
    merged = list(Engine(Fake(0, "none"), parts, absent=lambda c: "missing", devices=said).run(work, 6))
    assert [o.why for o in merged if not o.known] == []


def test_the_devices_of_a_machine_are_what_its_driver_says(tmp_path):
    assert devices(tmp_path) == "none"
    (tmp_path / "gpus/0000:0a").mkdir(parents=True)
    (tmp_path / "version").write_text("NVRM version: 580.159.04\nGCC version: 12\n")
    (tmp_path / "gpus/0000:0a/information").write_text("Model: \t\t NVIDIA H200\nIRQ: 7\n")
    devices.cache_clear()
    assert devices(tmp_path) == "NVRM version: 580.159.04; NVIDIA H200"


def test_what_raised_is_not_kept(local, tmp_path):
    with Store(tmp_path) as store:
        run(Engine(local, [store], [store]), [cell(1, "refuse"), cell(2, "break_")])
        assert len(store) == 0


def test_a_cell_that_kills_its_worker_costs_no_other_its_result(local):
    work = [*cells(20, "sometimes_die"), cell(99, "sometimes_die", b"kill"), *cells(20)]
    outcomes = {o.cell.id: o for o in Engine(local).run(work, len(work))}
    lost = outcomes.pop("test/sometimes_die/00099")
    assert lost.state is State.LOST
    assert "SIGKILL" in lost.why
    assert "3 times" in lost.why
    assert len(outcomes) == 40
    assert all(o.state is State.DONE for o in outcomes.values())


def killed_while_it_runs(executor, folder):
    """Runs four cells, kills the process of one of them, and says how often each was begun."""

    def kill():
        while not (folder / "1").exists() or not (folder / "1").read_text().endswith("\n"):
            time.sleep(0.02)
        os.kill(int((folder / "1").read_text()), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    stays = {1: 2.5}  # long enough for whoever kills it, on a busy machine too
    work = [cell(n, "stay", f"{folder}/{n}|{stays.get(n, 0.3)}".encode(), seconds=1.0) for n in range(4)]
    outcomes = list(Engine(executor).run(work, 4))
    assert told(outcomes) == {c.id: ("done", str(folder / str(n)).encode()) for n, c in enumerate(work)}
    return [len((folder / str(n)).read_text().split()) for n in range(4)]


def test_a_worker_that_is_killed_costs_the_cell_it_had(local, tmp_path):
    assert killed_while_it_runs(local, tmp_path) == [1, 2, 1, 1]


def test_what_was_lost_with_the_machine_is_tried_again(local, tmp_path):
    (outcome,) = Engine(local).run([cell(1, "die", str(tmp_path / "flag").encode())], 1)
    assert (outcome.state, outcome.data) == (State.DONE, b"survived")


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, ("0", "1", "10")),
        ("", ()),
        ("-1", ()),
        ("1", ("1",)),
        ("GPU-8a1, 3", ("GPU-8a1", "3")),
    ],
)
def test_the_gpus_of_a_machine_are_those_that_cuda_would_see(visible, found, tmp_path, monkeypatch):
    for name in ("nvidia10", "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus_here(tmp_path) == found


def test_what_needs_a_gpu_waits_for_one_while_the_rest_goes_on():
    """One GPU: its cells come one after another, in its own worker; the others do not wait for them."""
    with Local(jobs=1, gpus=("0",), in_place=False) as executor:
        outcomes = list(Engine(executor).run([*gpu_cells(6), *cells(6, "visible", seconds=1.0)], 12))
    seen = {(bool(o.cell.needs.gpu), o.data.decode()) for o in outcomes}
    assert seen == {(True, "0"), (False, os.environ.get("CUDA_VISIBLE_DEVICES", "none"))}
    assert executor.starts == 2


def test_what_waits_for_a_gpu_keeps_nothing_else_waiting():
    work = [replace(c, task="tests.scale.tasks:slow", payload=b"0.7") for c in gpu_cells(4)]
    work += cells(8, "slow", payload=b"0.01", seconds=1.0)
    with Local(jobs=1, gpus=("0",), in_place=False) as executor:
        order = [bool(o.cell.needs.gpu) for o in Engine(executor).run(work, 12)]
    assert sorted(order) == [False] * 8 + [True] * 4
    assert order[-2:] == [True, True]  # the last of those that come first


def test_one_worker_a_gpu():
    with Local(jobs=1, gpus=("3", "5")) as executor:
        outcomes = list(Engine(executor).run([*gpu_cells(12), *cells(3, "visible")], 15))
    on_gpu = Counter(o.data.decode() for o in outcomes if o.cell.needs.gpu)
    assert set(on_gpu) == {"3", "5"}
    assert executor.starts <= 3


def test_nothing_is_left_behind_when_it_is_given_up(local):
    outcomes = Engine(local).run(cells(30, "slow", payload=b"0.2", seconds=0.3), 30)
    next(outcomes)
    processes = [worker.process for worker in local._workers]
    assert all(process.poll() is None for process in processes)
    local.close()
    outcomes.close()
    assert all(process.poll() is not None for process in processes)


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_what_the_budget_does_not_reach_is_said_and_the_first_come_first(local):
    run(Engine(local), cells(4, seconds=1.0))  # its processes are there
    work = cells(40, "slow", payload=b"0.1", seconds=0.3)
    outcomes = {o.cell.id: o for o in Engine(local, budget=Budget(1.0)).run(work, len(work))}
    done = [c.id for c in work if outcomes[c.id].state is State.DONE]
    assert 0 < len(done) < 40
    assert {c.id for c in work[: len(done) + 2]} >= set(done)  # two at a time
    rest = Counter(o.why for o in outcomes.values() if o.state is State.UNREACHED)
    assert sum(rest.values()) == 40 - len(done)
    assert rest.pop("the budget of 1 s was spent before its turn")
    assert rest.keys() <= {"the budget of 1 s was spent while it ran"}


def test_a_budget_ends_what_runs(local):
    work = [cell(1, "slow", b"0.01"), *cells(2, "slow", payload=b"60", seconds=30.0), *cells(2, seconds=30.0)]
    start = time.monotonic()
    outcomes = list(Engine(local, budget=Budget(1.5)).run(work, len(work)))
    assert time.monotonic() - start < 40
    ended = [o.why for o in outcomes if o.state is State.UNREACHED]
    assert ended.count("the budget of 1.5 s was spent while it ran") in (1, 2, 3)
    assert len(ended) + sum(o.state is State.DONE for o in outcomes) == 5
    assert run(Engine(local), cells(5)) == told(InPlace().run(cells(5), 5))  # its workers are as good as new


def test_a_gpu_budget_binds_what_needs_a_gpu():
    with Local(jobs=1, gpus=("0",)) as executor:
        work = [*gpu_cells(10), *cells(5)]
        outcomes = list(Engine(executor, budget=Budget(gpu_seconds=0.12)).run(work, len(work)))
    by = Counter((bool(o.cell.needs.gpu), o.state.value) for o in outcomes)
    assert by[False, "done"] == 5
    assert 2 <= by[True, "done"] <= 8
    assert by[True, "done"] + by[True, "unreached"] == 10


def test_a_gpu_budget_ends_what_holds_a_gpu_and_nothing_else(monkeypatch):
    monkeypatch.setattr("validator.scale.budget._START", 0.0)
    long, short = (replace(c, payload=s) for c, s in zip(cells(2, "slow", seconds=9.0), (b"60", b"1.5"), strict=True))
    with Local(jobs=1, gpus=("0",), in_place=False) as executor:
        work = [replace(long, needs=Needs(gpu="any")), short]
        outcomes = {o.cell.id: o for o in Engine(executor, budget=Budget(gpu_seconds=1.0)).run(work, 2)}
    assert outcomes[long.id].why == "the GPU budget of 1 s was spent while it ran"
    assert outcomes[short.id].state is State.DONE


def test_durations():
    assert [parse_duration(t, "--budget") for t in ("90s", "20m", "1h30m", "2h")] == [90, 1200, 5400, 7200]
    for wrong in ("", "20", "m", "1.5h", "-3m", "20 m"):
        with pytest.raises(BudgetError):
            parse_duration(wrong, "--budget")
    assert [in_words(s) for s in (3.25, 20, 90, 1200, 5400)] == ["3.2 s", "20 s", "1 min 30 s", "20 min", "1 h 30 min"]


# -- shards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_cell_is_in_exactly_one_shard(count):
    work = cells(500)
    parts = [[c.id for c in work if Shard(n, count).has(c)] for n in range(1, count + 1)]
    assert sorted(id_ for part in parts for id_ in part) == [c.id for c in work]
    assert all(len(part) > 500 / count / 2 for part in parts)


def test_shards_together_say_what_one_run_says(local, tmp_path):
    work = cells(60)
    expected = run(Engine(local), work)
    stores = [Store(tmp_path / str(n)) for n in range(3)]
    for number, store in enumerate(stores, 1):
        part = list(Engine(local, keep_in=[store], shard=Shard(number, 3)).run(work, 60))
        assert Counter(o.state for o in part)[State.ELSEWHERE] == 60 - len(store)
    missing = "shard 2 of 3 is missing"
    assert run(Engine(local, stores, absent=lambda c: missing), work) == expected
    partly = list(Engine(local, [stores[0], stores[2]], absent=lambda c: missing).run(work, 60))
    assert Counter(o.why for o in partly if o.state is State.UNREACHED) == {missing: len(stores[1])}


def test_what_failed_by_itself_in_a_shard_fails_in_the_whole_for_the_same_reason(local, tmp_path):
    work = [*cells(3), cell(1, "refuse"), cell(2, "break_")]
    expected = {o.cell.id: (o.state, o.why) for o in Engine(local).run(work, 5)}
    with Store(tmp_path) as store:
        list(Engine(local, [store], [store], store, Shard(1, 1)).run(work, 5))
        whole = Engine(local, [store], absent=lambda c: "not there").run(work, 5)
        assert {o.cell.id: (o.state, o.why) for o in whole} == expected
        again = list(Engine(local, [store], [store], store, Shard(1, 1)).run(work, 5))
    assert [o.cell.id for o in again if not o.known] == ["test/refuse/00001", "test/break_/00002"]  # tried again


@pytest.mark.parametrize("wrong", ["", "0/4", "5/4", "1/0", "a/b", "1/2/3", "1"])
def test_what_is_no_shard(wrong):
    with pytest.raises(ShardError):
        Shard.parse(wrong)
    assert str(Shard.parse("2/4")) == "2/4"


# -- the engine's own bookkeeping, with an executor of this test -------------------------------------------------------


class Fake:
    """Loses every batch of more than one cell, and the first batches of one."""

    def __init__(self, losses, on="none"):
        self.on = on
        self.losses, self.batches, self.waiting = losses, [], []

    def place(self, name, path): ...

    def devices(self):
        return self.on

    def room(self, needs):
        return len(self.waiting) < 2

    def submit(self, batch: Batch):
        self.batches.append(batch)
        self.waiting.append(batch)

    @property
    def busy(self):
        return bool(self.waiting)

    def wait(self, seconds=None):
        batch = self.waiting.pop(0)
        if len(batch.cells) > 1 or self.losses > 0:
            self.losses -= len(batch.cells) == 1
            return [Finished(batch, None, "node went away")]
        return [Finished(batch, run_cells(batch.cells, None))]


def test_lost_batches_come_back_in_smaller_pieces_and_no_cell_is_lost_or_doubled():
    fake = Fake(losses=2)
    assert run(Engine(fake), cells(13)) == told(InPlace().run(cells(13), 13))
    assert max(b.tries for b in fake.batches) >= 1


def test_costs_of_past_runs_steer_the_batches(tmp_path):
    fake = Fake(0)
    with Store(tmp_path) as store:
        store.spent("test/echo", 10, 10.0)
        engine = Engine(fake, [store], [store])
        assert engine.seconds(cell(1)) == pytest.approx(1.0)
        run(engine, cells(3))
        assert [len(b.cells) for b in fake.batches] == [1, 1, 1]
        assert store.cost("test/echo") < 1.0
