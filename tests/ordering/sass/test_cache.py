"""Results of unchanged files."""

from __future__ import annotations

import sqlite3

import pytest

from validator.manifest.contract import KernelContract
from validator.ordering import artifacts
from validator.ordering.artifacts import audit_artifacts
from validator.ordering.sass import cache as module
from validator.ordering.sass.cache import ResultCache, Stored

from .conftest import LABELLED

pytestmark = pytest.mark.sass
FILE = LABELLED / "h01_bad/sm_90a.cubin"
CONTRACT = KernelContract.model_validate(
    {"match": "*", "launch": {"pdl": True}, "args": [{"name": n, "role": "activation"} for n in ("out", "act", "w")]}
)


def audit(folder, contracts=(CONTRACT,), data=None):
    return audit_artifacts([("a.cubin", data or FILE.read_bytes())], contracts, cache=folder)


def test_the_second_run_says_the_same_and_reads_nothing(tools, tmp_path, monkeypatch):
    first = audit(tmp_path)
    assert first.kernels[0].findings
    monkeypatch.setattr(artifacts, "audit_batch", lambda batch: pytest.fail("read again"))
    assert audit(tmp_path) == first


def test_whatever_a_result_rests_on_is_in_its_key(tools, tmp_path, monkeypatch):
    results = ResultCache(tmp_path, {"nvdisasm": "13.5"})
    data = FILE.read_bytes()
    keys = {
        results.key(data, "a"),
        results.key(data + b"\0", "a"),
        results.key(data, "b"),
        results.key(data, "a", (CONTRACT,)),
        results.key(data, "a", (), ("glob",)),
        ResultCache(tmp_path, {"nvdisasm": "13.6"}).key(data, "a"),
    }
    monkeypatch.setattr(module, "own_source", lambda *packages: "another version")
    keys.add(results.key(data, "a"))
    assert len(keys) == 7
    monkeypatch.undo()
    assert results.key(FILE, "a") == results.key(data, "a")


@pytest.mark.parametrize("damage", [b"", b"no zlib", None])
def test_an_entry_that_does_not_read_is_a_miss(tools, tmp_path, damage):
    first = audit(tmp_path)
    with sqlite3.connect(tmp_path / "index.db") as index:
        ((data,),) = index.execute("SELECT data FROM entries").fetchall()
        index.execute("UPDATE entries SET data = ?", (data[:-9] if damage is None else damage,))
    assert audit(tmp_path) == first
    with sqlite3.connect(tmp_path / "index.db") as index:
        assert index.execute("SELECT data FROM entries").fetchall() == [(data,)]


def test_an_entry_that_is_none_is_a_miss(tmp_path):
    results = ResultCache(tmp_path, {})
    results.put("ab" * 32, Stored())
    assert results.get("ab" * 32) == Stored()
    for text in (b"{", b"[]", b'{"kernels": 3}'):
        results._store.put(f"ordering/file/{'ab' * 32}", text)
        assert results.get("ab" * 32) is None


def test_what_was_skipped_is_tried_again(tools, tmp_path):
    assert audit(tmp_path, data=b"\x7fELF" + bytes(100)).skipped
    assert not len(ResultCache(tmp_path, {})._store)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    ResultCache(tmp_path / "file", {}).put("ab" * 32, Stored())
