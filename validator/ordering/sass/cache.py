"""Audits of unchanged files, kept by what they were made from.

A key covers everything an audit depends on: the file's bytes, what it is called, the contracts, the disassembler's
versions and this program's own source. Entries are JSON in a `validator.scale.store`: checked when they are read, never
unpickled; one that does not read is a miss.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from validator.ordering.acyclic import no_cycle_search
from validator.ordering.result import KernelAudit
from validator.own_source import own_source
from validator.scale.store import Store

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract

__all__ = ["ResultCache", "Stored"]

_CHUNK = 4 << 20
_THREADS = 8
_RESTS_ON = ("binary", "manifest", "ordering", "verdict")
"""Packages whose change makes every entry stale."""
_KIND = "ordering/file"
"""What its keys are told apart by in a store that others use too."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was learnt of one file, all of it."""

    kernels: tuple[KernelAudit, ...] = ()
    tools: dict[str, str] = field(default_factory=dict)


@cache
def _decoder() -> msgspec.json.Decoder[Stored]:
    """Checks types while it reads: a library's 15,000 audits in the time that pydantic takes to be imported."""
    return msgspec.json.Decoder(Stored)


class _Chunks:
    """Digests of a file's (or its bytes') chunks, for several threads: hashing frees the interpreter for the others."""

    def __init__(self, source: bytes | Path) -> None:
        self._source = source
        self._own = threading.local()
        """Of each thread one buffer: the pages of a fresh one for every chunk cost as much as half of the hashing."""

    def digest(self, start: int) -> bytes:
        """sha256 of the chunk that starts there."""
        if isinstance(self._source, bytes):
            return hashlib.sha256(memoryview(self._source)[start : start + _CHUNK]).digest()
        if not hasattr(self._own, "buffer"):
            self._own.buffer = memoryview(bytearray(_CHUNK))
        with self._source.open("rb", buffering=0) as file:
            file.seek(start)
            length = file.readinto(self._own.buffer)
        return hashlib.sha256(self._own.buffer[:length]).digest()


class ResultCache:
    """A folder of results."""

    def __init__(self, folder: Path, tools: dict[str, str]) -> None:
        """`tools`: tool → version, as far as results depend on them. Raises `StoreError` where others can write."""
        self._store = Store(folder)
        self._tools = tools

    def key(
        self, source: bytes | Path, name: str, contracts: Iterable[KernelContract] = (), extra: Iterable[str] = ()
    ) -> str:
        """Name of the entry for a file (or its bytes) under these contracts.

        Raises:
            OSError: the file cannot be read.
        """
        total = hashlib.sha256()
        parts = [
            own_source(*_RESTS_ON),
            name,
            *(f"{tool}={version}" for tool, version in sorted(self._tools.items())),
            *(c.model_dump_json() for c in contracts),
            *extra,
        ]
        for part in parts:
            raw = part.encode("utf-8", "surrogateescape")
            total.update(len(raw).to_bytes(8, "little"))
            total.update(raw)
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        starts = range(0, size, _CHUNK)
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
            for digest in pool.map(_Chunks(source).digest, starts):
                total.update(digest)
        return total.hexdigest()

    def get(self, key: str) -> Stored | None:
        """None when there is no entry, or none that reads."""
        raw = self._store.get(f"{_KIND}/{key}")
        if raw is None:
            return None
        try:
            with no_cycle_search():
                return _decoder().decode(raw)
        except ValueError:  # msgspec.ValidationError is one, and so is text that is not UTF-8
            return None

    def put(self, key: str, stored: Stored) -> None:
        """Keeps a result. A folder that cannot be written to costs the next run time and nothing else."""
        self._store.put(f"{_KIND}/{key}", msgspec.json.encode(stored))

    def close(self) -> None:
        self._store.close()
