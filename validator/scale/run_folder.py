"""What a run leaves beside its bundle while it is not complete: what is asked for, what is done, how far it is.

    run.json        base, head, seed and the rest of what was asked; shard, when it is a part
    progress.json   counts of every stage, for `validator status`
    results/        a store: everything that is done

A run that was killed is taken up from here. A part of a run (`--shard`) *is* such a folder: parts are put together.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from validator.errors import Problem, ValidatorError
from validator.locks import is_taken, let_go, take
from validator.own_source import own_source
from validator.scale.board import Board
from validator.scale.shard import Shard, ShardError
from validator.scale.store import Store

__all__ = ["Asked", "RunFolder", "RunFolderError", "beside", "is_held", "load_asked", "load_board", "same_run"]

SCHEMA = "validator/run/1"
_EVERY = 0.5
"""Seconds between two notes of progress."""


class RunFolderError(ValidatorError):
    """The folder is another run's, or is not one of a run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is about: with the same of all of it, two runs have the same cells."""

    base: str
    """Commit id, as is `head`."""
    head: str
    rfc: str | None
    policies: str | None
    seed: int
    shard: Shard | None = None
    refs: tuple[str, str] = ("", "")
    """What a person called base and head: shown, and no part of what the run is."""

    def same(self, other: Asked) -> bool:
        return replace(self, refs=other.refs) == other

    def document(self) -> dict[str, Any]:
        facts = {"base": self.base, "head": self.head, "rfc": self.rfc, "policies": self.policies, "seed": self.seed}
        shard = str(self.shard) if self.shard is not None else None
        return {"schema": SCHEMA, **facts, "shard": shard, "refs": list(self.refs), "source": own_source()}


def beside(bundle: Path) -> Path:
    """Where a run that will be this bundle keeps what it did."""
    return bundle.with_name(f"{bundle.name}.run")


class RunFolder:
    """One run's folder, held by one process."""

    def __init__(self, path: Path, asked: Asked, *, resume: bool, key: bytes | None = None) -> None:
        """`resume`: take up what is there, if it is the same run's; else begin anew.

        Raises:
            RunFolderError: another process holds it, or it was begun for something else.
        """
        self.path = path
        self._noted = 0.0
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = take(path / "lock")
        except BlockingIOError:
            fix = "wait for it, or name another bundle"
            raise RunFolderError(Problem("is in use by another run", str(path), fix)) from None
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            _take_up(path, asked) if resume else _clear(path)
            _write(path / "run.json", asked.document())
            self.results = Store(path / "results", key=key)
        except BaseException:
            let_go(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def note(self, board: Board, *, now: bool = False) -> None:
        """Write down how far it is, not more often than a person looks."""
        if now or time.monotonic() - self._noted >= _EVERY:
            self._noted = time.monotonic()
            _write(self.path / "progress.json", board.document())

    def close(self) -> None:
        """Let go of it; everything stays for a later run."""
        if self._lock >= 0:
            self.results.close()
            let_go(self._lock)
            self._lock = -1

    def remove(self) -> None:
        """The bundle is there: nothing of this is needed any more."""
        self.results.close()
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()


def load_asked(path: Path) -> Asked:
    """What a run's folder is about. Raises `RunFolderError` when it is none."""
    document = _read(path / "run.json", path)
    try:
        shard = document["shard"]
        base, head, rfc, policies, seed = (document[name] for name in ("base", "head", "rfc", "policies", "seed"))
        named = isinstance(base, str) and isinstance(head, str) and isinstance(seed, int)
        if document["schema"] != SCHEMA or not named or not all(isinstance(w, str | None) for w in (rfc, policies)):
            raise ValueError
        part = Shard.parse(shard) if shard is not None else None
        base_ref, head_ref = document["refs"]
        return Asked(base, head, rfc, policies, seed, part, (str(base_ref), str(head_ref)))
    except (KeyError, TypeError, ValueError, ShardError):
        raise RunFolderError(Problem("is not what a run wrote", str(path / "run.json"))) from None


def load_board(path: Path) -> Board:
    """How far a run is; nothing done when it noted nothing yet. Raises `RunFolderError`."""
    if not (path / "progress.json").exists():
        return Board()
    try:
        return Board.of(_read(path / "progress.json", path))
    except (TypeError, ValueError, AttributeError):
        raise RunFolderError(Problem("is not what a run wrote", str(path / "progress.json"))) from None


def is_held(path: Path) -> bool:
    """Whether a process works in it now."""
    return is_taken(path / "lock")


def same_run(parts: Sequence[Path]) -> tuple[Asked, dict[int, Path]]:
    """What parts are about, and each by its number. Raises `ShardError` with everything that does not fit."""
    if not parts:
        raise ShardError(Problem("no part is named", "merge", "name the folders that `check --shard i/n` wrote"))
    asked = {path: load_asked(path) for path in parts}
    first = asked[parts[0]]
    problems: list[Problem] = []
    by_number: dict[int, Path] = {}
    for path, one in asked.items():
        where = str(path)
        source = _read(path / "run.json", path).get("source")
        if one.shard is None or first.shard is None:
            problems.append(Problem("is a whole run, not a part of one", where))
            continue
        if source != own_source():
            problems.append(
                Problem("was written by another version of validator", where, "run all parts with this one")
            )
        for name in ("base", "head", "rfc", "policies", "seed"):
            if getattr(one, name) != getattr(first, name):
                said = f"has {name} {getattr(one, name)}, {parts[0]} has {getattr(first, name)}"
                problems.append(Problem(said, where, "put together parts of one run"))
        if one.shard.count != first.shard.count:
            problems.append(Problem(f"is one of {one.shard.count} parts, {parts[0]} one of {first.shard.count}", where))
        if one.shard.number in by_number:
            problems.append(Problem(f"is part {one.shard}, as {by_number[one.shard.number]} is", where))
        by_number[one.shard.number] = path
    if problems:
        raise ShardError(*problems)
    return first, by_number


def _take_up(path: Path, asked: Asked) -> None:
    if not (path / "run.json").exists():
        return
    before = load_asked(path)
    if not before.same(asked):
        names = [
            n for n in ("base", "head", "rfc", "policies", "seed", "shard") if getattr(before, n) != getattr(asked, n)
        ]
        said = ", ".join(f"{n} {getattr(before, n)}" for n in names)
        fix = "ask for the same, or begin anew without --resume"
        raise RunFolderError(Problem(f"was begun for another run ({said})", str(path), fix))


def _clear(path: Path) -> None:
    """Begin anew: only what a run writes is removed."""
    shutil.rmtree(path / "results", ignore_errors=True)
    for name in ("run.json", "progress.json"):
        (path / name).unlink(missing_ok=True)


def _read(file: Path, folder: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        fix = "name a folder that `check --shard` wrote, or a bundle whose run is not over"
        raise RunFolderError(Problem("is no folder of a run", str(folder), fix)) from None
    if not isinstance(document, dict):
        raise RunFolderError(Problem("is not what a run wrote", str(file)))
    return document


def _write(file: Path, document: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".")
        with open(handle, "w") as out:
            json.dump(document, out)
        os.replace(name, file)
    except OSError as error:
        raise _unusable(file, error) from None


def _unusable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(Problem(f"cannot be written ({error.strerror})", str(path), "name another bundle"))
