"""A store in an object store: read with the key, checked like any other, and no reason to wait or to fail."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.scale.tasks import cells
from tests.scale.test_engine import run
from validator.cli.scale import opened_shared
from validator.scale import remote as module
from validator.scale.engine import Engine
from validator.scale.local import Local
from validator.scale.remote import Remote
from validator.scale.store import Store, StoreError, trust_key

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
LARGE = os.urandom(64 << 10)


@pytest.fixture
def key(tmp_path) -> bytes:
    (tmp_path / "key").write_text("a key that only trusted runs know")
    return trust_key(tmp_path / "key")


@pytest.fixture
def published(tmp_path, key) -> Path:
    """A trusted run's folder, as it is copied somewhere."""
    with Store(tmp_path / "store", key=key) as store:
        store.put("small", b"small")
        store.put("large", LARGE)
    return tmp_path / "store"


@pytest.fixture
def bucket(published) -> Iterator[str]:
    files = fsspec.filesystem("memory")
    files.put(str(published), "/bucket/results", recursive=True)
    yield "memory://bucket/results"
    files.rm("/bucket", recursive=True)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(published) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=published)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.mark.parametrize("where", ["bucket", "server"])
def test_what_a_trusted_run_published_is_read(where, key, request):
    with Remote(request.getfixturevalue(where), key) as remote:
        assert not remote.why
        assert remote.store.get("small") == b"small"
        assert remote.store.get("large") == LARGE
        assert remote.store.get("other") is None
        assert not remote.store.put("mine", b"x")
    assert not Path(remote._folder.name).exists()


@pytest.mark.parametrize("damage", [b"", b"poison", LARGE * 4, None])
def test_a_poisoned_or_missing_value_is_a_miss_and_the_others_are_read(bucket, key, published, damage):
    files = fsspec.filesystem("memory")
    (name,) = (path for path in files.find("/bucket/results/objects"))
    files.rm(name) if damage is None else files.pipe(name, damage)
    with Remote(bucket, key) as remote:
        assert remote.store.get("large") is None
        assert remote.store.get("small") == b"small"
        assert not remote.why


def test_without_the_key_or_with_another_nothing_counts(bucket, key, tmp_path):
    with pytest.raises(StoreError, match="VALIDATOR_TRUST_KEY"):
        Remote(bucket, None)
    (tmp_path / "other").write_text("a key somebody else made up")
    with Remote(bucket, trust_key(tmp_path / "other")) as remote:
        assert remote.store.get("small") is None
        assert remote.store.get("large") is None


def test_an_index_that_is_none_or_too_large_is_said_and_is_a_miss(bucket, key, monkeypatch):
    fsspec.filesystem("memory").pipe("/bucket/results/index.db", b"no database" * 1000)
    with Remote(bucket, key) as remote:
        assert remote.store.get("small") is None
    monkeypatch.setattr(module, "_INDEX", 100)
    with Remote(bucket, key) as remote:
        assert "larger than 100 bytes" in remote.why
        assert remote.store.get("small") is None


@pytest.mark.parametrize("url", ["memory://nothing/here", "http://127.0.0.1:1/x"])
def test_a_place_that_is_away_is_said_and_is_a_miss(url, key):
    with Remote(url, key) as remote:
        assert remote.why
        assert remote.store.get("small") is None


@pytest.mark.parametrize("url", ["nonsense://x/y", "s3://bucket/results"])
def test_a_place_that_nothing_reads_is_an_error(url, key):
    if url.startswith("s3") and find_spec("s3fs"):
        pytest.skip("s3fs is installed")
    with pytest.raises(StoreError, match="cannot be read"):
        Remote(url, key)


@pytest.mark.parametrize(("error", "away"), [(PermissionError("403"), False), (ConnectionError("reset"), True)])
def test_a_value_that_may_not_be_read_is_a_miss_and_a_lost_connection_is_the_end(bucket, key, monkeypatch, error, away):
    with Remote(bucket, key) as remote:

        def read(name: str, most: int) -> bytes:
            raise error

        monkeypatch.setattr(remote, "_read", read)
        assert remote.store.get("large") is None
        assert bool(remote.why) is away


def test_one_that_does_not_answer_costs_its_time_once(bucket, key, monkeypatch):
    monkeypatch.setattr(module, "_VALUE_SECONDS", 0.2)
    with Remote(bucket, key) as remote:
        monkeypatch.setattr(remote, "_read", lambda name, most: time.sleep(5))
        start = time.monotonic()
        assert remote.store.get("large") is None
        assert remote.why == "no answer within 0.2 s"
        assert [remote.store.get("large") for _ in range(200)] == [None] * 200
        assert time.monotonic() - start < 30  # of 40
        assert remote.store.get("small") == b"small"  # the index is here


def test_an_engine_takes_what_is_published_and_keeps_it_here(tmp_path, key):
    work = cells(20, payload=LARGE.hex().encode())
    with Local(jobs=1, gpus=()) as local, Store(tmp_path / "there", key=key) as there:
        expected = run(Engine(local, keep_in=[there]), work)
    files = fsspec.filesystem("memory")
    files.put(str(tmp_path / "there"), "/engine", recursive=True)
    with (
        Local(jobs=1, gpus=()) as local,
        Remote("memory://engine", key) as remote,
        Store(tmp_path / "h", key=key) as here,
    ):
        outcomes = list(Engine(local, [here, remote.store], [here]).run(work, 20))
        assert all(o.known for o in outcomes)
        assert {o.cell.id: ("done", o.data) for o in outcomes} == expected
        assert len(here) == 1  # the same work under twenty ids
    files.rm("/engine", recursive=True)


def test_the_environment_names_it(bucket, key, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VALIDATOR_TRUST_KEY", str(tmp_path / "key"))
    monkeypatch.setenv("VALIDATOR_SHARED_CACHE", bucket)
    with opened_shared() as store:
        assert store is not None
        assert store.get("large") == LARGE
    monkeypatch.setenv("VALIDATOR_SHARED_CACHE", "memory://nothing/here")
    with opened_shared() as store:
        assert store is not None
        assert store.get("large") is None
    assert "memory://nothing/here: cannot be read, going on without it" in capsys.readouterr().err
    assert json.dumps(sorted(p.name for p in tmp_path.iterdir())) == '["key", "store"]'
