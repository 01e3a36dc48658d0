"""How far a run is: on a terminal, in CI, with --quiet, and from another terminal."""

from __future__ import annotations

import io

import pytest

from tests.scale.tasks import cell
from validator.cli.display import Display
from validator.cli.output import Progress
from validator.scale.board import Board
from validator.scale.cell import Outcome, State
from validator.scale.run_folder import Asked, RunFolder, RunFolderError, is_held, load_asked, load_board


def board(**more) -> Board:
    """40 cells of a stage: 12 done in 6 s, 3 of them known, 1 failed, 2 left out."""
    clock = iter([0.0, 0.0, *(i * 0.4 for i in range(1, 16))])
    made = Board(clock=lambda: next(clock), **more)
    made.expect("test", 40)
    states = [State.DONE] * 12 + [State.RAISED] + [State.UNREACHED, State.ELSEWHERE]
    for number, state in enumerate(states):
        made.ended(Outcome(cell(number), state, known=number < 3))
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_counts_rate_and_time_left():
    (line,) = board().lines()
    assert line == ("test", "15 of 40 cells (3 known, 1 failed, 2 left out, 1.7/s, 15 s left)")
    done = Board()
    done.expect("test", 1)
    done.ended(Outcome(cell(1), State.DONE, known=True))
    assert list(done.lines()) == [("test", "1 of 1 cells (1 known)")]


def test_a_terminal_shows_a_table_and_makes_way_for_the_report():
    stream = Terminal()
    with Display(stream=stream) as display:
        display("reading the change")
        board(changed=display.show)
        display._draw(board())
    shown = stream.getvalue()
    for words in ("stage", "left out", "test", "12", "40", "1.7/s", "15 s left"):
        assert words in shown
    assert shown.endswith(("\x1b[2K", "\x1b[?25h", "\r", "\x1b[1A\x1b[2K"))  # nothing of it is left on the screen


def test_ci_gets_a_plain_line_now_and_then(monkeypatch):
    stream, now = io.StringIO(), [0.0]
    display = Display(stream=stream)
    display._progress = Progress(stream=stream, clock=lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        display.show(board())
    lines = stream.getvalue().splitlines()
    assert lines == ["test: 15 of 40 cells (3 known, 1 failed, 2 left out, 1.7/s, 15 s left)"] * 3
    assert "\x1b" not in stream.getvalue()


def test_quiet_says_nothing():
    for stream in (io.StringIO(), Terminal()):
        with Display(quiet=True, stream=stream) as display:
            display("line")
            board(changed=display.show)
        assert stream.getvalue() == ""


ASKED = Asked("a" * 40, "b" * 40, None, None, 7, refs=("main", "change"))


def test_another_terminal_reads_how_far_it_is(tmp_path):
    with RunFolder(tmp_path / "r", ASKED, resume=False) as folder:
        folder.note(board(), now=True)
        assert is_held(tmp_path / "r")
        assert load_asked(tmp_path / "r") == ASKED
        assert list(load_board(tmp_path / "r").lines()) == list(board().lines())
        with pytest.raises(RunFolderError, match="in use"):
            RunFolder(tmp_path / "r", ASKED, resume=True)
    assert not is_held(tmp_path / "r")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"test": 3}', '{"test": {"total": "x"}}', '{"test": {"other": 1}}'])
def test_a_note_that_is_none_is_an_error(tmp_path, text):
    RunFolder(tmp_path, ASKED, resume=False).close()
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(RunFolderError):
        load_board(tmp_path)


def test_what_is_done_is_taken_up_and_a_new_run_begins_anew(tmp_path):
    with RunFolder(tmp_path, ASKED, resume=False) as folder:
        folder.results.put("a", b"done")
    with RunFolder(tmp_path, ASKED, resume=True) as folder:
        assert folder.results.get("a") == b"done"
    with RunFolder(tmp_path, ASKED, resume=False) as folder:
        assert folder.results.get("a") is None
        folder.remove()
    assert not tmp_path.exists()
