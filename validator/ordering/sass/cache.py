"""Audits of unchanged files, kept by what they were made from.

A key covers everything an audit depends on: the file's bytes, what it is called, the contracts, the disassembler's
versions and this program's own source. Entries are JSON in a `validator.scale.store`: checked when they are read, never
unpickled; one that does not read is a miss.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from validator.manifest.contract import KernelContract
from validator.ordering.result import KernelAudit
from validator.ordering.sass.settlement import Scan, Surveyed
from validator.scale.store import Store

__all__ = ["ResultCache", "Stored"]

_CHUNK = 4 << 20
_THREADS = 8
_KIND = "ordering/file"
"""What its keys are told apart by in a store that others use too."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was learnt of one file, all of it."""

    kernels: tuple[KernelAudit, ...] = ()
    settled: list[Surveyed] = field(default_factory=list)
    """Kernels that were not lowered: their audits follow from these, and thousands of them take a third of the time."""
    tools: dict[str, str] = field(default_factory=dict)


_Place = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class _Entry:
    """`Stored` as it is written: kernels share most of their words and many of their scans, which stand here once."""

    kernels: tuple[KernelAudit, ...]
    words: list[str]
    scans: list[Scan]
    settled: list[tuple[_Place, _Place, _Place, _Place, _Place, _Place]]
    """Places of artifact, name, readable name, architecture and digest among the words, and of the scan."""
    tools: dict[str, str]

    @classmethod
    def of(cls, stored: Stored) -> _Entry:
        words: dict[str, int] = {}
        scans: dict[Scan, int] = {}

        def word(text: str) -> int:
            return words.setdefault(text, len(words))

        settled = [
            (word(k.artifact), word(k.name), word(k.demangled), word(k.arch), word(k.digest),
             scans.setdefault(k.scan, len(scans)))
            for k in stored.settled
        ]  # fmt: skip
        return cls(stored.kernels, list(words), list(scans), settled, stored.tools)

    def stored(self) -> Stored:
        """Raises IndexError where a place is none."""
        words, scans = self.words, self.scans
        settled = [
            Surveyed(words[artifact], words[name], words[readable], words[arch], words[digest], scans[scan])
            for artifact, name, readable, arch, digest, scan in self.settled
        ]
        return Stored(self.kernels, settled, self.tools)


@cache
def _adapter() -> TypeAdapter[_Entry]:
    return TypeAdapter(_Entry)


@cache
def _own_source() -> str:
    """sha256 over this package's source: a rule that changed makes every entry stale."""
    root = Path(__file__).resolve().parents[2]
    total = hashlib.sha256()
    for top in ("ordering", "manifest", "verdict"):
        for path in sorted((root / top).rglob("*.py")):
            total.update(path.relative_to(root).as_posix().encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def _digest(source: bytes | Path, start: int) -> bytes:
    """sha256 of one chunk, which frees the interpreter for the others meanwhile."""
    if isinstance(source, bytes):
        return hashlib.sha256(memoryview(source)[start : start + _CHUNK]).digest()
    with source.open("rb") as file:
        file.seek(start)
        return hashlib.sha256(file.read(_CHUNK)).digest()


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
            _own_source(),
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
            for digest in pool.map(lambda start: _digest(source, start), starts):
                total.update(digest)
        return total.hexdigest()

    def get(self, key: str) -> Stored | None:
        """None when there is no entry, or none that reads."""
        raw = self._store.get(f"{_KIND}/{key}")
        if raw is None:
            return None
        try:
            return _adapter().validate_json(raw).stored()
        except (ValidationError, ValueError, IndexError):
            return None

    def put(self, key: str, stored: Stored) -> None:
        """Keeps a result. A folder that cannot be written to costs the next run time and nothing else."""
        self._store.put(f"{_KIND}/{key}", _adapter().dump_json(_Entry.of(stored), exclude_defaults=True))

    def close(self) -> None:
        self._store.close()
