"""The worker with a watchdog: hangs, deaths and refusals cost one answer."""

from __future__ import annotations

import os
import sys

import pytest

from validator.gpu.watched import Watched

WORKER = """
import os, time
from validator.errors import ValidatorError
from validator.gpu.watched import serve

def answer(asked):
    if asked == "hang":
        time.sleep(60)
    if asked == "die":
        os._exit(7)
    if asked == "fault":
        raise ValidatorError("an illegal access")
    return {"said": asked, "pid": os.getpid()}

serve(answer)
"""


@pytest.fixture
def watched():
    with Watched([sys.executable, "-c", WORKER], seconds=3) as worker:
        yield worker


def test_one_worker_answers_many_times(watched):
    first, second = watched.ask("a"), watched.ask("b" * 100_000)
    assert (first["said"], second["said"]) == ("a", "b" * 100_000)
    assert first["pid"] == second["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("hang", "no answer within 3 s: the worker was ended"),
        ("die", "the worker ended with status 7"),
        ("fault", "an illegal access"),
    ],
)
def test_what_went_wrong_is_the_answer_and_the_next_case_gets_a_new_worker(watched, asked: str, why: str):
    before = watched.ask("a")["pid"]
    assert watched.ask(asked) == {"failed": why}
    assert watched.ask("b")["pid"] != before


def test_a_command_that_does_not_start_is_an_answer_too():
    with Watched([sys.executable, "-c", "raise SystemExit(3)"], seconds=10) as worker:
        assert worker.ask("a") == {"failed": "the worker ended with status 3"}
