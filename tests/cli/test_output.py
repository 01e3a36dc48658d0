"""Reports are written whole or not at all; progress never drowns a log."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from validator.cli.output import Output, OutputError, Progress, parse_outputs, write_outputs


def test_all_problems_at_once(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        parse_outputs(["json", "yaml=x", f"json={tmp_path}", f"text={tmp_path}/no/x"], ["json", "text"])
    assert len(caught.value.problems) == 4


def test_one_file_by_two_names_is_named_twice(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    for other in ("a/../a/x", "b/x"):
        with pytest.raises(OutputError, match="is named twice"):
            parse_outputs([f"json={tmp_path}/a/x", f"text={tmp_path}/{other}"], ["json", "text"])


def test_nothing_is_written_when_one_format_fails(tmp_path: Path) -> None:
    def render(kind: str) -> str:
        if kind == "text":
            raise ZeroDivisionError
        return "{}"

    outputs = [Output("json", tmp_path / "a"), Output("text", tmp_path / "b")]
    with pytest.raises(ZeroDivisionError):
        write_outputs(outputs, render)
    assert list(tmp_path.iterdir()) == []


def test_pieces_are_written_as_they_come_and_taken_back_when_one_fails(tmp_path: Path) -> None:
    seen: list[int] = []

    def pieces(last: bool) -> Iterator[str]:
        for _ in range(3):
            yield "x" * (1 << 20)
            seen.append(sum(p.stat().st_size for p in tmp_path.iterdir()))
        if last:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_outputs([Output("json", tmp_path / "a")], lambda kind: pieces(True))
    assert seen[0] >= 1 << 20
    assert list(tmp_path.iterdir()) == []
    write_outputs([Output("json", tmp_path / "a")], lambda kind: pieces(False))
    assert (tmp_path / "a").stat().st_size == 3 << 20


def test_files_are_replaced_and_devices_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    write_outputs([Output("text", tmp_path / "a"), Output("text", Path("/dev/null"))], lambda kind: "é\n")
    assert (tmp_path / "a").read_bytes() == "é\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert Path("/dev/null").is_char_device()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line_that_goes_away() -> None:
    stream = Terminal()
    progress = Progress(stream=stream)
    progress("reading \x1b[2J")
    progress.close()
    progress.close()
    assert stream.getvalue() == "\r\x1b[Kreading \\x1b[2J\r\x1b[K"


def test_progress_elsewhere_is_a_line_every_thirty_seconds() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream=stream, clock=lambda: now[0])
    for second in range(0, 95, 5):
        now[0] = float(second)
        progress(f"at {second}")
    progress.close()
    assert stream.getvalue() == "at 30\nat 60\nat 90\n"


def test_quiet_says_nothing() -> None:
    stream = Terminal()
    progress = Progress(quiet=True, stream=stream)
    progress("x")
    progress.close()
    assert stream.getvalue() == ""
