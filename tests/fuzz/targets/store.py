"""Stores of results: an index that somebody else wrote, as a database and as rows, gives values or misses."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.targets.common import joined, parts
from validator.scale.store import Store

MODULES = ("validator.scale.store",)
_ROWS, _DATABASE = b"rows", b"database"
_KEY = b"k" * 32


def seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="validator-fuzz-") as scratch:
        for name, key in (("plain", None), ("sealed", _KEY)):
            folder = Path(scratch, name)
            with Store(folder, key=key) as store:
                store.put("k", b"value")
                store.put("large", bytes(range(256)) * 64)
                store.spent("kind", 3, 0.5)
            db = sqlite3.connect(folder / "index.db")
            db.execute("PRAGMA journal_mode = DELETE")
            rows = [[_told(v) for v in row] for row in db.execute("SELECT * FROM entries")]
            db.close()
            (file,) = [*(folder / "objects").rglob("*.z")][:1] or [None]
            yield joined(_DATABASE, (folder / "index.db").read_bytes(), file.read_bytes() if file else b"")
            yield joined(_ROWS, json.dumps(rows).encode(), b"z")
    yield joined(_ROWS, b'[["k", "text", 1e308, 9e999, "seal", "text"], ["k2", null, 1e308, -1, 3, 4.5]]', b"rx")
    value = b"r" + b"v"
    digest = hashlib.sha256(value).hexdigest()
    yield joined(_ROWS, json.dumps([["k", {"hex": digest}, 2, 1, None, {"hex": value.hex()}]]).encode(), b"")


def one(data: bytes) -> None:
    """How the index is made, the index, and the one file beside it."""
    kind, index, file = parts(data, 3)
    with tempfile.TemporaryDirectory(prefix="validator-fuzz-") as scratch:
        folder = Path(scratch, "s")
        if kind == _DATABASE:
            folder.mkdir(mode=0o700)
            (folder / "index.db").write_bytes(index)
        elif not _filled(folder, index):
            return
        path = folder / Store._name("large")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
        for key, shared in ((None, False), (_KEY, True), (_KEY, False)):
            with Store(folder, key=key, shared=shared, limit=64) as store:
                _use(store)


def _use(store: Store) -> None:
    for name in ("k", "large", "k2"):
        assert isinstance(store.get(name), bytes | None)
    assert isinstance(store.cost("kind"), float | None)
    assert len(store) >= 0
    store.spent("kind", 1, 0.5)
    if store.put("new", b"x" * 99):
        assert store.get("new") in (b"x" * 99, None)


def _filled(folder: Path, rows: bytes) -> bool:
    """An index of rows whose values may be of any type."""
    Store(folder).close()
    try:
        found = json.loads(rows)
    except (ValueError, RecursionError):
        return False
    db = sqlite3.connect(folder / "index.db")
    with db:
        for row in found[:20] if isinstance(found, list) else []:
            values = [_value(v) for v in row[:6]] if isinstance(row, list) else []
            try:
                db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", values)
                db.execute("INSERT OR REPLACE INTO costs VALUES ('kind', ?, ?)", values[2:4])
            except (sqlite3.Error, OverflowError, UnicodeEncodeError):
                continue
    db.close()
    return True


def _told(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _value(told: Any) -> Any:
    if isinstance(told, dict):
        try:
            return bytes.fromhex(str(told.get("hex")))
        except ValueError:
            return b""
    return told if isinstance(told, str | int | float | None) else None
