"""Parts of a run, as `merge`, `status` and `--resume` take them up: what is no part is refused, what cannot be read of
its results is missing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.targets.common import joined, parts, told
from validator.build import cells as builds
from validator.differential import cells as runs
from validator.differential.cases import Case
from validator.differential.results import CaseResult, KernelResult
from validator.errors import ValidatorError
from validator.ordering import cells as audits
from validator.own_source import own_source
from validator.scale.board import Board
from validator.scale.cell import Cell, Outcome, State
from validator.scale.run_folder import Asked, RunFolder, load_asked, load_board, same_run
from validator.scale.shard import Shard

MODULES = (
    "validator.scale.run_folder",
    "validator.scale.board",
    "validator.scale.shard",
    "validator.differential.cells",
    "validator.ordering.cells",
    "validator.build.cells",
)
_SOURCE = b"this version"
"""Stands for the digest of this program's source."""
_CASE = Case("scale", (("B", 1), ("D", 4)), 7, plan="flip", origin="ordinary values", input_class="plain")


def seeds() -> Iterator[bytes]:
    first, second = (_run_of(Shard(n, 2)) for n in (1, 2))
    board = Board()
    board.expect("differential", 3)
    board.ended(Outcome(_cell("differential/a/0"), State.DONE, seconds=1.0))
    board.ended(Outcome(_cell("differential/a/1"), State.RAISED))
    noted = json.dumps(board.document()).encode()
    ran = runs._ran().dump_json(runs._Ran(KernelResult((_CASE,), [CaseResult(_CASE, unusable="x", error=1.0)])))
    audited = audits._audited().dump_json(audits._Audited())
    made = builds._made().dump_json(builds.Made(builds.Result.BUILT, "", {"k.ptx": b"\xff"}, {"disk": "yes"}))
    yield joined(first, second, noted, ran, audited, made)
    yield joined(first, first, b'{"s": {"total": 3, "done": 1, "last": 1e308}}', b"{}", b"[]", b"null")
    yield joined(first, b"", b"", b"", b"", b"")


def _run_of(shard: Shard) -> bytes:
    document = Asked("a" * 40, "b" * 40, "kda", None, 7, shard, ("main", "topic")).document()
    return json.dumps(document).encode().replace(own_source().encode(), _SOURCE)


def _cell(name: str) -> Cell:
    return Cell(name, "validator.scale.cell:none", json.dumps({"name": name}).encode())


def one(data: bytes) -> None:
    """What two parts say of themselves, how far one is, and what is kept of a run, an audit and a build."""
    first, second, noted, ran, audited, made = parts(data, 6)
    with tempfile.TemporaryDirectory(prefix="validator-fuzz-") as scratch:
        folders = [Path(scratch, name) for name in "ab"]
        for folder, text in zip(folders, (first, second), strict=True):
            folder.mkdir()
            (folder / "run.json").write_bytes(text.replace(_SOURCE, own_source().encode()))
        (folders[0] / "progress.json").write_bytes(noted)
        _taken_up(folders)
    wanted = (_CASE,)
    whole = runs.put_together(wanted, [Outcome(_cell("differential/a/0"), State.DONE, ran)])
    assert whole.planned == wanted
    assert whole.results or whole.missing
    audits.put_together([Outcome(_cell("ordering/a/audit"), State.DONE, audited)], ())
    assert isinstance(builds.read_result(made), builds.Made)


def _taken_up(folders: list[Path]) -> None:
    try:
        for name, words in load_board(folders[0]).lines():
            assert isinstance(name, str)
            assert words
    except ValidatorError as error:
        told(error)
    try:
        asked, by_number = same_run(folders)
        assert len(by_number) == len(folders)
        assert asked.shard is not None
        RunFolder(folders[0], asked, resume=True).close()
        assert load_asked(folders[0]).same(asked)
    except ValidatorError as error:
        told(error)
