"""A file that one process has to itself, until it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from validator.locks import is_taken, let_go, take

HOLDER = """
import os, sys, time
from pathlib import Path
from validator.locks import take
take(Path(sys.argv[1]))
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


def test_nobody_takes_what_is_taken_and_asking_does_not_free_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_taken(path)
    file = take(path)
    other = f"from pathlib import Path; from validator.locks import is_taken; print(is_taken(Path({str(path)!r})))"
    for _ in range(2):
        assert is_taken(path)
        with pytest.raises(BlockingIOError):
            take(path)
        assert subprocess.check_output([sys.executable, "-c", other], text=True) == "True\n"
    let_go(file)
    assert not is_taken(path)
    let_go(take(path))


def test_a_killed_process_has_nothing_though_a_child_of_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert is_taken(path)
        with pytest.raises(BlockingIOError):
            take(path)
        holder.kill()
        holder.wait()
        os.kill(child, 0)  # it lives, with the file open
        assert not is_taken(path)
        let_go(take(path))
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()
