"""What changes in a shared file is shown line by line, as git sees it, whatever the file is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from tests.report.conftest import BASE, EmptyTree, manifest
from validator.change.model import ChangeStatus, FileChange, Hunk, MissingFile
from validator.errors import Problem
from validator.isolation.shared_lines import shared_lines
from validator.manifest.model import Manifest
from validator.policy.model import Policy
from validator.stage import StageContext


@dataclass(frozen=True)
class Files(EmptyTree):
    held: Mapping[str, bytes]

    def read(self, path: str, limit: int = 0) -> bytes:
        if path not in self.held:
            raise MissingFile(Problem("no such file", path))
        return self.held[path]


def context_of(
    old: Mapping[str, bytes], new: Mapping[str, bytes], *files: FileChange, declared: Manifest | None = None
) -> StageContext:
    change = replace(BASE.change, files=files, base_tree=Files(old), merge_base_tree=Files(old), head_tree=Files(new))
    return StageContext(
        change=change,
        policy=Policy.model_validate(
            {"schema": "validator/policy/1", "name": "p", "isolation": {"roots": ["fast/**"]}}
        ),
        manifest=declared or manifest(),
        today=date(2026, 11, 29),
        seed=0,
        workdir=Path("/nowhere"),
        progress=lambda line: None,
        manifest_path="rfcs/kda-decode.toml",
    )


def shown(old: Mapping[str, bytes], new: Mapping[str, bytes], *files: FileChange) -> list[str]:
    return [row["text"] for row in shared_lines(context_of(old, new, *files))]


def changed(path: str, *hunks: Hunk, **more: object) -> FileChange:
    return FileChange(path, ChangeStatus.MODIFIED, hunks=hunks, **more)  # type: ignore[arg-type]


def test_a_replaced_line_stands_between_its_neighbours() -> None:
    old, new = b"a\nb\nc\nd\ne\nf\n", b"a\nb\nc\nX\nY\ne\nf\n"
    assert shown({"s.py": old}, {"s.py": new}, changed("s.py", Hunk(4, 1, 4, 2))) == [
        "@@ -4,1 +4,2 @@\n  b\n  c\n- d\n+ X\n+ Y\n  e\n  f"
    ]


@pytest.mark.parametrize(
    ("old", "new", "hunk", "text"),
    [
        (b"a\nb\nc\n", b"a\nb\nN\nc\n", Hunk(2, 0, 3, 1), "@@ -2,0 +3,1 @@\n  a\n  b\n+ N\n  c\n  "),
        (b"a\nb\nc\n", b"a\nc\n", Hunk(2, 1, 1, 0), "@@ -2,1 +1,0 @@\n  a\n- b\n  c\n  "),
        (b"a", b"", Hunk(1, 1, 0, 0), "@@ -1,1 +0,0 @@\n- a\n  "),
    ],
)
def test_an_empty_side_starts_after_the_line_that_git_names(old: bytes, new: bytes, hunk: Hunk, text: str) -> None:
    assert shown({"s.py": old}, {"s.py": new}, changed("s.py", hunk)) == [text]


def test_what_cannot_be_shown_says_so() -> None:
    long = b"\n".join(b"%d" % n for n in range(1000))
    assert shown({}, {}, changed("s.bin", binary=True)) == ["binary, or larger than 1 MiB: not shown"]
    assert shown({}, {}, changed("s.py", size=1 << 21)) == ["binary, or larger than 1 MiB: not shown"]
    assert shown({}, {}, changed("s.py")) == ["no line"]
    (cut,) = shown({}, {"s.py": long}, changed("s.py", Hunk(0, 0, 1, 1000)))
    assert cut.endswith("\nand 801 more lines")
    assert shown({"s.py": b"\xff\r\n"}, {"s.py": b""}, changed("s.py", Hunk(1, 1, 0, 0)))[0].count("�") == 1


def test_the_changes_own_files_are_not_shown() -> None:
    assert shown({}, {"fast/kda/k.py": b"x"}, changed("fast/kda/k.py", Hunk(0, 0, 1, 1))) == []
