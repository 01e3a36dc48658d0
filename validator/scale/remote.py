"""A store that somebody keeps in an object store: `s3://`, `gs://`, `https://` and whatever else fsspec reads.

What is there is a store's folder as it lies on disk, put there by whatever copies files (`aws s3 sync`, `rclone`). Its
index is fetched once, whole; values beside the index when they are asked for. It is only read, and only with the trust
key: what the network gives is held against digest and seal like every other entry. One that is slow or away costs time
once and is a miss ever after.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from validator.errors import Problem
from validator.scale.store import Store, StoreError

__all__ = ["Remote", "is_remote"]

_INDEX = 1 << 30
"""Bytes of an index, at most."""
_PIECE = 1 << 20
_INDEX_SECONDS, _VALUE_SECONDS = 120.0, 20.0
Result = TypeVar("Result")


def is_remote(place: str) -> bool:
    return "://" in place


class Remote:
    """A shared store at a URL. `why` says what keeps it from being read; empty: nothing."""

    def __init__(self, url: str, key: bytes | None) -> None:
        """Raises `StoreError`: there is no key, or nothing here reads such a URL."""
        self.why, self.ready = "", False
        self._url = url.rstrip("/")
        self._folder = tempfile.TemporaryDirectory(prefix="validator-shared-")
        try:
            self._files = _file_system(url)
            index = Path(self._folder.name) / "index.db"
            self._within(_INDEX_SECONDS, lambda: self._copy("index.db", index))
            self.ready = not self.why
            self.store = Store(index.parent, key=key, shared=True, fetch=self._fetch)
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self._folder.cleanup()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _fetch(self, name: str, size: int) -> bytes:
        """A value's file, as far as its index says it goes. Raises `OSError`."""
        found = self._within(_VALUE_SECONDS, lambda: self._read(name, size + 1)) if not self.why else None
        if found is None:
            raise OSError(self.why)
        return found

    def _read(self, name: str, most: int) -> bytes:
        with self._files.open(f"{self._url}/{name}", "rb") as stream:
            return bytes(stream.read(most))

    def _copy(self, name: str, target: Path) -> None:
        partly = target.with_suffix(".part")
        with self._files.open(f"{self._url}/{name}", "rb") as stream, partly.open("wb") as out:
            while piece := stream.read(_PIECE):
                out.write(piece)
                if out.tell() > _INDEX:
                    raise OSError(f"its index is larger than {_INDEX:,} bytes")
        partly.rename(target)

    def _within(self, seconds: float, work: Callable[[], Result]) -> Result | None:
        """What it gives, if it does so in time: a library of somebody else's waits on a network of somebody else's."""
        done: list[Result] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                done.append(work())
            except Exception as error:  # whatever a file system's library raises
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            self.why = f"no answer within {seconds:g} s"
        # One value less is a miss; S3 says that it may not be read where it does not say that there is none.
        elif failed and not (isinstance(failed[0], FileNotFoundError | PermissionError) and self.ready):
            self.why = f"{type(failed[0]).__name__}: {failed[0]}"[:300]
        return done[0] if done and not self.why else None


def _file_system(url: str) -> Any:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        hint = "pip install 'validator[scale]', or mount it and name the folder"
        raise StoreError(Problem("needs fsspec, which is not installed", url, hint)) from None
    try:
        files, _ = url_to_fs(url)
    except (ValueError, ImportError) as error:
        hint = "install what fsspec needs for it (s3fs, gcsfs, adlfs …), or mount it and name the folder"
        raise StoreError(Problem(f"cannot be read: {error}", url, hint)) from None
    return files
