"""The store: what it hands out is what was put there by somebody who may; everything else is a miss."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from validator.scale import store as module
from validator.scale.store import Store, StoreError, trust_key

SMALL, LARGE = b"small", os.urandom(64 << 10)


def key_file(path: Path, text: str = "a key that only trusted runs know") -> bytes:
    path.write_text(text)
    return trust_key(path)


def test_small_and_large_values_come_back_in_this_run_and_the_next(tmp_path):
    with Store(tmp_path) as store:
        assert store.get("a") is None
        assert store.put("a", SMALL)
        assert store.put("b", LARGE)
        assert (store.get("a"), store.get("b"), len(store)) == (SMALL, LARGE, 2)
        assert store.put("a", b"other")
    with Store(tmp_path) as store:
        assert (store.get("a"), store.get("b"), len(store)) == (b"other", LARGE, 2)


@pytest.mark.parametrize("damage", [b"", b"no such thing", None, "cut", "flip"])
def test_a_truncated_or_altered_file_is_a_miss_and_can_be_put_again(tmp_path, damage):
    with Store(tmp_path) as store:
        store.put("b", LARGE)
        (file,) = tmp_path.glob("objects/*/*.z")
        data = file.read_bytes()
        wrong = {"cut": data[:-9], "flip": data[:99] + bytes([data[99] ^ 1]) + data[100:]}.get(damage, damage)
        file.unlink() if wrong is None else file.write_bytes(wrong)
        assert store.get("b") is None
        store.put("b", LARGE)
        assert store.get("b") == LARGE


def test_an_altered_row_is_a_miss(tmp_path):
    with Store(tmp_path) as store:
        store.put("a", SMALL)
    with sqlite3.connect(tmp_path / "index.db") as db:
        db.execute("UPDATE entries SET data = ?", (b"rpoison",))
    with Store(tmp_path) as store:
        assert store.get("a") is None


def test_a_value_under_another_key_is_a_miss_where_there_is_a_trust_key(tmp_path):
    key = key_file(tmp_path / "key")
    with Store(tmp_path / "s", key=key) as store:
        store.put("passed", b"yes")
    with sqlite3.connect(tmp_path / "s/index.db") as db:
        db.execute("UPDATE entries SET key = 'failed'")
    with Store(tmp_path / "s", key=key) as store:
        assert store.get("failed") is None


@pytest.mark.parametrize("garbage", [b"", b"no database" * 1000])
def test_an_index_that_is_none_any_more_starts_anew(tmp_path, garbage):
    with Store(tmp_path) as store:
        store.put("a", SMALL)
        store.put("b", LARGE)
    (tmp_path / "index.db").write_bytes(garbage)
    with Store(tmp_path) as store:
        assert store.get("a") is None
        # Left without an index, a value would take its room for ever.
        assert bool(garbage) is not any(tmp_path.glob("objects/*/*.z"))
        assert store.put("a", SMALL)
        assert store.get("a") == SMALL


ENDLESS = """
CREATE VIEW entries AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
SELECT 'k' AS key, x'00' AS digest, i AS size, i AS used, NULL AS seal, NULL AS data FROM n WHERE i < 0
"""


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "made",
    [
        ENDLESS,
        "CREATE TABLE entries (key TEXT)",
        f"{module._SCHEMA}; CREATE TRIGGER t AFTER UPDATE ON entries BEGIN DELETE FROM entries; END",
    ],
)
def test_an_index_with_other_tables_than_a_stores_answers_nothing(tmp_path, made, shared):
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    with closing(sqlite3.connect(folder / "index.db")) as db:
        db.executescript(made)
    with Store(folder, key=b"k" * 32, shared=shared) as store:
        assert store.get("k") is None
        assert len(store) == 0
        assert store.put("k", b"v") is not shared
        assert store.get("k") == (None if shared else b"v")


@pytest.mark.parametrize("column", ["digest", "size", "used", "seal", "data"])
@pytest.mark.parametrize("value", ["text", 1e308, 9e999, -1, None, b"\xff"])
def test_a_column_of_any_type_is_a_miss_or_the_value(tmp_path, column, value):
    with Store(tmp_path / "s", key=b"k" * 32) as store:
        store.put("k", b"v")
    with closing(sqlite3.connect(tmp_path / "s/index.db")) as db, db, suppress(sqlite3.IntegrityError):
        db.execute(f"UPDATE entries SET {column} = ?", (value,))
    with Store(tmp_path / "s", key=b"k" * 32, limit=8) as store:
        assert store.get("k") in (None, b"v")
        store.put("other", b"x" * 64)
        assert store.get("other") in (None, b"x" * 64)


def test_a_bomb_is_a_miss(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        store.put("a", bytes(1 << 20))
        monkeypatch.setattr(module, "_LARGEST", 1 << 10)
        assert store.get("a") is None


def test_only_what_a_trusted_run_sealed_counts_for_a_trusted_run(tmp_path):
    key, other = key_file(tmp_path / "k1"), key_file(tmp_path / "k2", "a key somebody else made up")
    with Store(tmp_path / "s") as untrusted:
        untrusted.put("a", b"pass, says a pull request")
    with Store(tmp_path / "s", key=other) as untrusted:
        untrusted.put("b", b"pass, says somebody")
    with Store(tmp_path / "s", key=key) as trusted:
        assert trusted.get("a") is None
        assert trusted.get("b") is None
        trusted.put("a", b"fail")
    with Store(tmp_path / "s", key=key) as trusted:
        assert trusted.get("a") == b"fail"
    with Store(tmp_path / "s") as untrusted:  # reading is free: what it says decides nothing elsewhere
        assert untrusted.get("a") == b"fail"


def test_a_shared_store_is_read_only_and_wants_the_key(tmp_path):
    key = key_file(tmp_path / "key")
    with Store(tmp_path / "s", key=key) as store:
        store.put("a", SMALL)
        store.put("b", LARGE)
    with pytest.raises(StoreError, match="VALIDATOR_TRUST_KEY"):
        Store(tmp_path / "s", shared=True)
    before = {p: p.read_bytes() for p in (tmp_path / "s").rglob("*") if p.is_file()}
    for path in [*(tmp_path / "s").rglob("*"), tmp_path / "s"]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    with Store(tmp_path / "s", key=key, shared=True) as shared:
        assert (shared.get("a"), shared.get("b")) == (SMALL, LARGE)
        assert not shared.put("c", b"x")
    with Store(tmp_path / "missing", key=key, shared=True) as shared:
        assert shared.get("a") is None
    assert {p: p.read_bytes() for p in before} == before


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(StoreError, match="chmod go-w"):
        Store(tmp_path / "s")


def test_a_key_that_is_none_is_refused(tmp_path):
    (tmp_path / "key").write_text("short\n")
    for path in (tmp_path / "key", tmp_path / "none"):
        with pytest.raises(StoreError):
            trust_key(path)


def test_what_was_used_longest_ago_makes_room(tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(module.time, "time", lambda: next(clock))
    with Store(tmp_path, limit=8 * len(LARGE)) as store:
        for n in range(6):
            store.put(f"{n}", os.urandom(len(LARGE)))
        assert store.get("0") is not None  # used now: 1 is the oldest
        for n in range(6, 9):
            store.put(f"{n}", os.urandom(len(LARGE)))
        assert store.get("0") is not None
        assert store.get("1") is None
        assert store.get("8") is not None
    assert sum(p.stat().st_size for p in tmp_path.glob("objects/*/*.z")) <= 8 * len(LARGE)


def test_a_folder_that_cannot_be_written_costs_time_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("")
    with Store(tmp_path / "file/below") as store:
        assert not store.put("a", SMALL)
        assert store.get("a") is None


def test_two_processes_at_once_lose_nothing(tmp_path):
    script = """
import sys
from pathlib import Path
from validator.scale.store import Store
with Store(Path(sys.argv[1])) as store:
    for n in range(200):
        assert store.put(f"{sys.argv[2]}-{n}", sys.argv[2].encode() * 3000), n
        store.get(f"{'ab'[sys.argv[2] == 'a']}-{n}")
"""
    both = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in "ab"]
    assert [p.wait(120) for p in both] == [0, 0]
    with Store(tmp_path) as store:
        assert all(store.get(f"{name}-{n}") == name.encode() * 3000 for name in "ab" for n in range(200))


def test_killed_while_it_writes_every_entry_is_whole_or_absent(tmp_path):
    script = """
import sys, os
from pathlib import Path
from validator.scale.store import Store
store = Store(Path(sys.argv[1]))
n = 0
while True:
    store.put(str(n), str(n).encode() * 5000)
    n += 1
    if n == 20:
        print("going", flush=True)
"""
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"going\n"
        process.kill()
        process.wait()
        with Store(tmp_path) as store:
            found = [n for n in range(20) if store.get(str(n)) == str(n).encode() * 5000]
            assert found == list(range(20))


def test_costs_are_remembered(tmp_path):
    with Store(tmp_path) as store:
        assert store.cost("kind") is None
        store.spent("kind", 10, 5.0)
        store.spent("kind", 10, 15.0)
    with Store(tmp_path) as store:
        assert store.cost("kind") == pytest.approx(1.0)


def test_values_are_compressed(tmp_path):
    with Store(tmp_path) as store:
        store.put("a", bytes(1 << 20))
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) < 1 << 18
