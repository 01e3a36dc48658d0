"""The same cells on a real Ray cluster: the same outcomes, lost workers included."""

from __future__ import annotations

import sys
import time

import pytest

from tests.scale.tasks import cell, cells, gpu_cells
from tests.scale.test_engine import killed_while_it_runs
from validator.scale import cluster as module
from validator.scale import content
from validator.scale.batch import Batch
from validator.scale.budget import Budget
from validator.scale.cell import InPlace, Needs, State, digest_of
from validator.scale.cluster import Cluster, ClusterError
from validator.scale.content import ContentError
from validator.scale.engine import Engine
from validator.scale.store import Store
from validator.scale.surroundings import devices


def told(outcomes):
    return sorted((o.cell.id, o.state.value, o.data, o.why) for o in outcomes)


@pytest.fixture
def ray_cluster(ray_address):
    with Cluster(ray_address) as executor:
        yield executor


def test_a_cluster_says_what_this_process_says(ray_cluster, tmp_path):
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/x.py").write_text("x = 1")
    (tmp_path / "file").write_text("content")
    here, engine = InPlace(), Engine(ray_cluster)
    work = [*cells(600), cell(1, "refuse"), cell(2, "break_")]
    for path in (tmp_path / "tree", tmp_path / "file"):
        name = here.keep(path)
        assert engine.keep(path) == name
        work.append(cell(len(work), "read", name.encode(), content=(name,)))
    assert told(engine.run(work, len(work))) == told(here.run(work, len(work)))


def test_a_cell_that_kills_its_worker_costs_no_other_its_result(ray_cluster, tmp_path):
    flag = str(tmp_path / "flag").encode()
    work = [*cells(1, "sometimes_die"), cell(99, "sometimes_die", b"kill"), cell(1, "die", flag)]
    outcomes = {o.cell.id: o for o in Engine(ray_cluster).run(work, len(work))}
    lost = outcomes.pop("test/sometimes_die/00099")
    assert lost.state is State.LOST
    assert "Worker" in lost.why
    assert all(o.state is State.DONE for o in outcomes.values())
    assert outcomes["test/die/00001"].data == b"survived"


def test_a_worker_that_is_killed_costs_the_cell_it_had(ray_cluster, tmp_path):
    assert killed_while_it_runs(ray_cluster, tmp_path) == [1, 2, 1, 1]


def test_a_budget_ends_what_runs(ray_cluster):
    warm = cells(4, "slow", payload=b"1", seconds=30.0)
    assert len(list(Engine(ray_cluster).run(warm, 4))) == 4  # its workers are there
    work = [*cells(2, "slow", payload=b"60", seconds=30.0), *cells(2, seconds=30.0)]
    start = time.monotonic()
    outcomes = list(Engine(ray_cluster, budget=Budget(5.0)).run(work, len(work)))
    assert time.monotonic() - start < 50
    ended = [o.why for o in outcomes if o.cell.payload == b"60"]
    assert ended == ["the budget of 5 s was spent while it ran"] * 2
    assert told(Engine(ray_cluster).run(cells(3), 3)) == told(InPlace().run(cells(3), 3))


def test_what_a_cell_needs_is_asked_for_and_nothing_that_no_node_has(ray_cluster):
    ray_cluster.room(Needs())
    assert ray_cluster._asked(Needs()) == {"num_cpus": 1}
    assert ray_cluster._asked(Needs(gpu="any", memory=1 << 30)) == {"num_cpus": 1, "num_gpus": 1, "memory": 1 << 30}
    assert ray_cluster._asked(Needs(gpu="H200")) == {"num_cpus": 1}
    ray_cluster._nodes = [
        module._Node.of({"NodeID": "a", "Resources": {"CPU": 8.0, "memory": 2.0**40}}),
        module._Node.of({"NodeID": "b", "Resources": {"GPU": 2.0, "accelerator_type:H200": 1.0, "memory": 2.0**36}}),
    ]
    typed = {"num_cpus": 1, "num_gpus": 1, "accelerator_type": "H200"}
    assert ray_cluster._asked(Needs(gpu="H200")) == typed
    assert ray_cluster._asked(Needs(gpu="H200", memory=1 << 42)) == typed | {"memory": 1 << 36}
    assert ray_cluster._asked(Needs(memory=1 << 42)) == {"num_cpus": 1, "memory": 1 << 40}


def test_what_waits_for_a_gpu_that_went_away_is_run_without_one(ray_cluster, monkeypatch):
    """Its outcome is what it says itself then; to wait for ever is none."""
    monkeypatch.setattr(module, "_COUNTED", 1.0)
    ray_cluster.room(Needs())
    gone = module._Node("gone", 8, 1, frozenset({"B200"}), 1 << 40)
    ray_cluster._nodes, ray_cluster._counted = [gone], time.monotonic()
    (outcome,) = Engine(ray_cluster).run([cell(1, "visible", needs=Needs(gpu="B200"))], 1)
    assert (outcome.state, outcome.data) in ((State.DONE, b""), (State.DONE, b"none"))


def test_a_gpu_is_given_to_one_cell_at_a_time_and_its_results_rest_on_it(ray_cluster, tmp_path):
    work = [*gpu_cells(3), cell(9, "visible")]
    with Store(tmp_path) as store:
        outcomes = {o.cell.id: o for o in Engine(ray_cluster, [store], [store]).run(work, 4)}
        assert [outcomes[c.id].data for c in work[:3]] == [b"0"] * 3  # the one that Ray gave it
        assert ray_cluster.devices() == devices()  # the same machine
        known = [o.known for o in Engine(ray_cluster, [store]).run(work, 4)]
        other = [o.known for o in Engine(ray_cluster, [store], devices=["another driver"]).run(work, 4)]
    assert known == [True] * 4
    assert sorted(other) == [False] * 3 + [True]


def test_a_node_that_runs_another_version_is_no_part_of_a_check(ray_cluster, monkeypatch):
    here = dict(module.software())
    monkeypatch.setattr(module, "software", lambda: here | {"validator": "0123456789ab"})
    with pytest.raises(ClusterError, match=r"a node has validator [0-9a-f]{12} where here is 0123456789ab"):
        list(Engine(ray_cluster).run(cells(2), 2))


def test_a_wrong_result_is_never_retried(ray_cluster, tmp_path):
    counter = tmp_path / "count"
    work = [cell(1, "count", str(counter).encode()), cell(1, "refuse")]
    list(Engine(ray_cluster).run(work, 2))
    assert counter.read_text() == "x"


def test_what_ray_tells_is_no_part_of_the_report(ray_address, capsys):
    from ray._private.worker import print_to_stdstream

    with Cluster(ray_address) as executor:
        list(Engine(executor).run(cells(1), 1))
        print_to_stdstream({"lines": ["a node has been marked dead"], "pid": "raylet", "is_err": False}, False)
    print("the report")
    said = capsys.readouterr()
    assert said.out == "the report\n"
    assert "marked dead" in said.err


def test_a_cluster_that_is_not_there_is_an_error(capsys):
    with Cluster("127.0.0.1:1") as executor, pytest.raises(ClusterError, match="cannot be reached"):
        executor.submit(Batch((cell(1),)))
    print("the report")
    assert capsys.readouterr().out == "the report\n"


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"validator\[scale\]"):
        Cluster()


def test_content_of_a_node_is_this_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(content.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = content.node_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(ContentError, match="own folder"):
        content.node_folder()


def test_content_is_fetched_once_a_job_and_never_taken_from_another(tmp_path, monkeypatch):
    monkeypatch.setattr(content.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "tree/__pycache__").mkdir(parents=True)
    (tmp_path / "tree/x.py").write_text("x = 1")
    (tmp_path / "tree/__pycache__/x.pyc").write_text("left by an interpreter")
    name, fetched = digest_of(tmp_path / "tree"), []

    def fetch() -> bytes:
        fetched.append(1)
        return content.packed(tmp_path / "tree")

    place = content.unpacked("job1", name, fetch)
    assert content.unpacked("job1", name, fetch) == place
    assert len(fetched) == 1
    (place / "x.py").write_text("x = 2")  # as a candidate could where nothing confines it
    other = content.unpacked("job2", name, fetch)
    assert [(p.name, p.read_text()) for p in other.rglob("*")] == [("x.py", "x = 1")]
