"""Results kept by what they were made from: an index in SQLite, large values in files beside it.

    index.db             key → digest, size, last use, seal, and the value itself where it is small
    objects/ab/cd….z     the others

The key is the caller's and covers everything that can change a value. What a store hands out was checked against its
digest; what is truncated, altered or half written is a miss. Whoever can write to a folder can write results, so:

* an own store lies in a folder that nobody else may write to;
* with a trust key, every entry is sealed with it, and only entries that carry the seal count. A run that lacks the key
  (a pull request's) can neither read as trusted nor write what a trusted run would believe;
* a shared store is only read, and only with the trust key.

A store is a convenience: one that cannot be written costs the next run time and nothing else, and says so (`trouble`).
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from validator.errors import Problem, ValidatorError

__all__ = ["MOST_BYTES", "Store", "StoreError", "trust_key"]

MOST_BYTES = 4 << 30
"""Bytes on disk after which a store drops what was used longest ago."""
_LARGEST = 512 << 20
"""Bytes a value may unpack to."""
_SMALL = 4 << 10
"""Bytes up to which a value lies in the index itself."""
_COMPRESSED = 512
"""Bytes from which compression pays."""
_KEPT = 0.8
"""Share of the bound that is left when room is made: making room each time would be slow."""
_TOUCHED = 512
"""Uses that are noted together."""
_BUSY = 30.0
"""Seconds to wait for another process."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
  key TEXT PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL, seal BLOB, data BLOB
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON entries (used);
CREATE TABLE IF NOT EXISTS costs (kind TEXT PRIMARY KEY, runs INTEGER NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID;
"""


_TABLES = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"


@cache
def _expected() -> tuple[tuple[str, str, str], ...]:
    """The tables of a store, as SQLite says them."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA)
        return tuple(db.execute(_TABLES))


def _check_tables(db: sqlite3.Connection) -> None:
    """Nothing but a store's own tables: a view or a trigger of somebody else's would run with every query.

    Raises:
        sqlite3.DatabaseError: it is no store's database.
    """
    found = tuple(db.execute(_TABLES))
    if found not in ((), _expected()):
        raise sqlite3.DatabaseError("not the tables of a store")


class StoreError(ValidatorError):
    """A folder that may not be believed."""


def trust_key(path: Path) -> bytes:
    """The key of a file that only trusted runs can read. Raises `StoreError` for one that is no secret."""
    try:
        data = path.read_bytes().strip()
    except OSError as error:
        raise StoreError(Problem(f"cannot be read ({error.strerror})", str(path))) from None
    if len(data) < 16:
        raise StoreError(Problem("is too short for a key", str(path), "make one: head -c 32 /dev/urandom | base64"))
    return hashlib.sha256(b"validator/store/1\0" + data).digest()


class Store:
    """A folder of results. Not for several threads; any number of processes may use the folder at once."""

    def __init__(
        self,
        folder: Path,
        *,
        key: bytes | None = None,
        limit: int = MOST_BYTES,
        shared: bool = False,
        fetch: Callable[[str, int], bytes] | None = None,
    ) -> None:
        """`key`: seals and demands seals. `shared`: a folder of somebody else's that is only read.

        `fetch`: gives a file of the folder by its name, and by how long it should be, where only the index lies here.

        Raises:
            StoreError: others can write to the folder, or it is shared and there is no key.
        """
        self._folder, self._key, self._limit, self._shared = folder, key, limit, shared
        self._fetch = fetch or self._file
        self._used: dict[str, int] = {}
        self.trouble = ""
        """Why nothing, or not everything, is kept here: the first thing that went wrong; empty: nothing did."""
        if shared and key is None:
            raise StoreError(
                Problem(
                    "is shared, and nothing shows which of it a trusted run wrote",
                    str(folder),
                    "name the key of your trusted runs (VALIDATOR_TRUST_KEY), or leave the folder out",
                )
            )
        self._db = self._opened()
        self._total = self._size() if not shared else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Note what was used and let go of the folder."""
        if self._db is not None:
            self._touch()
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def get(self, key: str) -> bytes | None:
        """The value; None when there is none that can be believed."""
        if self._db is None:
            return None
        try:
            row = self._db.execute("SELECT digest, size, seal, data FROM entries WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error:
            return None
        if row is None:
            return None
        value = self._checked(key, *row)
        if value is None:
            self._drop(key)
        elif not self._shared:
            self._used[key] = int(time.time())
            if len(self._used) >= _TOUCHED:
                self._touch()
        return value

    def put(self, key: str, value: bytes) -> bool:
        """Keep a value; whether it is kept now."""
        if self._db is None or self._shared or len(value) > _LARGEST:
            return False
        packed = b"z" + zlib.compress(value, 3) if len(value) >= _COMPRESSED else b"r" + value
        digest = hashlib.sha256(packed).digest()
        inline = packed if len(packed) <= _SMALL else None
        try:
            if inline is None:
                self._write(key, packed)
            with self._db:
                row = (key, digest, len(packed), int(time.time()), self._seal(key, digest), inline)
                self._db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)
        except (OSError, sqlite3.Error) as error:
            self._note(error)
            return False
        self._total += len(packed)
        if self._total > self._limit:
            self._make_room()
        return True

    def __len__(self) -> int:
        return int(self._one("SELECT count(*) FROM entries"))

    # -- what things cost --------------------------------------------------------------------------------------------

    def cost(self, kind: str) -> float | None:
        """Mean seconds of one piece of work of this kind in past runs; None: there was none."""
        found = self._one("SELECT seconds / runs FROM costs WHERE kind = ?", kind)
        return found if isinstance(found, float) and 0 < found < math.inf else None

    def spent(self, kind: str, runs: int, seconds: float) -> None:
        """Note what work of a kind took. Halved when it grows old, so that the newest count most."""
        if self._db is None or self._shared or not runs:
            return
        with suppress(sqlite3.Error), self._db:
            self._db.execute(
                "INSERT INTO costs VALUES (?, ?, ?) ON CONFLICT (kind) DO UPDATE SET "
                "runs = CASE WHEN runs > 1000 THEN runs / 2 ELSE runs END + excluded.runs, "
                "seconds = CASE WHEN runs > 1000 THEN seconds / 2 ELSE seconds END + excluded.seconds",
                (kind, runs, seconds),
            )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection | None:
        if self._shared:
            return self._read_only()
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = self._folder.stat()
        except OSError as error:
            self._note(error)
            return None
        if status.st_mode & 0o022 or status.st_uid not in (os.geteuid(), 0):
            raise StoreError(
                Problem(
                    "can be written by others, who could put results there",
                    str(self._folder),
                    f"chmod go-w {self._folder}, or name another folder",
                )
            )
        for again in (False, True):
            try:
                return self._connected()
            except sqlite3.DatabaseError as error:
                if again or isinstance(error, sqlite3.OperationalError):
                    self._note(error)
                    return None
                for name in ("index.db", "index.db-wal", "index.db-shm"):  # no database any more: start anew
                    (self._folder / name).unlink(missing_ok=True)
                # Nothing says what its values are of, and what no index counts would never make room.
                shutil.rmtree(self._folder / "objects", ignore_errors=True)
        return None

    def _note(self, error: OSError | sqlite3.Error) -> None:
        self.trouble = self.trouble or (isinstance(error, OSError) and error.strerror) or str(error)

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._folder / "index.db", timeout=_BUSY, isolation_level="IMMEDIATE")
        try:
            _check_tables(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            with db:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
            return db
        except BaseException:
            db.close()
            raise

    def _read_only(self) -> sqlite3.Connection | None:
        """A mounted folder may not even allow the lock files of WAL; then it is read as it lies there."""
        path = (self._folder / "index.db").absolute().as_uri()
        for how in ("mode=ro", "mode=ro&immutable=1"):
            with suppress(sqlite3.Error):
                db = sqlite3.connect(f"{path}?{how}", uri=True, timeout=1.0)
                try:
                    db.execute("PRAGMA trusted_schema = OFF")  # the file is somebody else's
                    _check_tables(db)
                    db.execute("SELECT count(*) FROM entries WHERE key = ''").fetchone()
                    return db
                except BaseException:
                    db.close()
                    raise
        return None

    def _seal(self, key: str, digest: bytes) -> bytes | None:
        return hmac.digest(self._key, key.encode() + digest, "sha256") if self._key is not None else None

    def _checked(self, key: str, digest: Any, size: Any, seal: Any, data: Any) -> bytes | None:
        """What an entry holds, if it is what was put there by somebody who may. A column may hold any type."""
        if not isinstance(digest, bytes) or not isinstance(seal, bytes | None) or not isinstance(data, bytes | None):
            return None
        wanted = self._seal(key, digest)
        if wanted is not None and not hmac.compare_digest(wanted, seal or b""):
            return None
        try:
            packed = self._fetch(self._name(key), max(0, min(size, _LARGEST))) if data is None else data
            if len(packed) != size or hashlib.sha256(packed).digest() != digest:
                return None
            if packed[:1] == b"r":
                return packed[1:]
            unpacker = zlib.decompressobj()
            value = unpacker.decompress(memoryview(packed)[1:], _LARGEST)
        except (OSError, zlib.error):
            return None
        return None if unpacker.unconsumed_tail or not unpacker.eof else value

    @staticmethod
    def _name(key: str) -> str:
        name = hashlib.sha256(key.encode()).hexdigest()
        return f"objects/{name[:2]}/{name[2:]}.z"

    def _file(self, name: str, size: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            return file.read(size + 1)

    def _write(self, key: str, packed: bytes) -> None:
        path = self._folder / self._name(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with open(handle, "wb") as out:
                out.write(packed)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _drop(self, key: str) -> None:
        """An entry that cannot be believed makes room. (Not what another run sealed: it counts for that run.)"""
        if self._db is not None and not self._shared and self._key is None:
            with suppress(sqlite3.Error), self._db:
                self._db.execute("DELETE FROM entries WHERE key = ?", (key,))

    def _touch(self) -> None:
        used, self._used = self._used, {}
        if used and self._db is not None:
            with suppress(sqlite3.Error), self._db:
                self._db.executemany("UPDATE entries SET used = ? WHERE key = ?", [(t, k) for k, t in used.items()])

    def _size(self) -> int:
        return int(self._one("SELECT sum(CAST(size AS INTEGER)) FROM entries"))

    def _one(self, query: str, *values: str) -> float:
        if self._db is None:
            return 0
        try:
            row = self._db.execute(query, values).fetchone()
        except sqlite3.Error:
            return 0
        return row[0] or 0 if row else 0

    def _make_room(self) -> None:
        """Drop what was used longest ago."""
        self._touch()
        assert self._db is not None
        with suppress(sqlite3.Error):
            self._total = self._size()  # other processes put and drop too
            for key, size in self._oldest():
                if self._total <= self._limit * _KEPT:
                    return
                with self._db:
                    self._db.execute("DELETE FROM entries WHERE key = ?", (key,))
                (self._folder / self._name(key)).unlink(missing_ok=True)
                self._total -= size

    def _oldest(self) -> Iterator[tuple[str, int]]:
        assert self._db is not None
        oldest = "FROM entries WHERE typeof(key) = 'text' ORDER BY used, key LIMIT 256"
        while rows := self._db.execute(f"SELECT key, CAST(size AS INTEGER) {oldest}").fetchall():
            yield from rows
