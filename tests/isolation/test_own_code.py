"""What a change brings is handed to the summary: its source, and neither its manifest nor what is compiled."""

from __future__ import annotations

from collections.abc import Mapping

import validator.isolation.own_code as module
from tests.isolation.test_shared_lines import context_of
from tests.report.conftest import manifest
from validator.change.model import ChangeStatus, FileChange


def brought(files: Mapping[str, bytes], **more: object) -> list[dict[str, object]]:
    changes = [
        FileChange(path, ChangeStatus.ADDED, new_mode=0o100644, size=len(data), binary=b"\0" in data)
        for path, data in files.items()
    ]
    return module.own_code(context_of({}, files, *changes, declared=manifest(**more)))


def test_source_is_shown_and_what_is_no_source_is_not() -> None:
    files = {
        "fast/kda/k.cu": b"one\r\n\ttwo\n\xff\n",
        "fast/kda/k.ptx": b".version 9.0\n",
        "fast/kda/k.bin": b"text that a manifest calls compiled\n",
        "fast/kda/k.o": b"\x7fELF\0",
        "fast/kda/empty.py": b"",
        "rfcs/kda-decode.toml": b"schema = 1\n",
        "dispatch.py": b"shared = 1\n",
    }
    assert brought(files, artifacts=[{"path": "fast/kda/*.bin"}]) == [
        {"path": "fast/kda/empty.py", "text": "", "more": 0},
        {"path": "fast/kda/k.cu", "text": "one\n\ttwo\n\ufffd", "more": 0},
    ]


def test_there_is_room_for_so_many_lines_and_the_rest_is_counted() -> None:
    def lines(count: int) -> bytes:
        return b"x\n" * count

    files = {f"fast/kda/{n}.py": lines(1500) for n in range(5)} | {"fast/kda/5.py": b"y" * 5000}
    rows = brought(files)
    assert [str(row["text"]).count("x") for row in rows] == [1000, 1000, 1000, 1000, 0, 0]
    assert [row["more"] for row in rows] == [500, 500, 500, 500, 0, 0]
    assert brought({"fast/kda/5.py": b"y" * 5000})[0]["text"] == "y" * 400
