"""A worker that was forked for a test is what one that was started is: to its callable, and to the gate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest

from tests.support.warm_workers import WarmWorkers
from validator.run.channel import Call
from validator.run.sandbox import Limits, Outcome, Worker

SEEN = """
import os, resource, stat, sys, threading, time

def _kind(descriptor):
    try:
        return stat.S_IFMT(os.fstat(descriptor).st_mode)
    except OSError:
        return None

def seen():
    kinds = sorted(filter(None, map(_kind, range(256))))
    limits = [resource.getrlimit(number) for number in range(16)]
    here = [value.replace(os.getcwd(), "HOME") for value in os.environ.values()]
    group = os.getsid(0) == os.getpgid(0) == os.getpid()
    loaded = {"json", "pytest", "validator"} & set(sys.modules) | {"numpy.random", "torch"} & set(sys.modules)
    raise ValueError(repr((
        sys.argv, sys.flags, sorted(zip(os.environ, here)), kinds, limits, group, loaded, len(sys.path), time.tzname,
        threading.active_count(), os.umask(0o77),
    )))

def ends():
    os._exit(7)

def exits():
    raise SystemExit(3)

def crashes():
    os.kill(os.getpid(), 11)

def hangs():
    while True:
        pass

def floods():
    while True:
        print("x" * 4096, flush=True)
"""


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmWorkers]:
    workers = WarmWorkers()
    yield workers
    workers.close()


@pytest.mark.parametrize("function", ["seen", "ends", "exits", "crashes", "hangs", "floods", "absent"])
def test_a_warm_worker_is_like_one_that_was_started(function: str, warm: WarmWorkers, tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text(SEEN)
    limits = Limits(wall=0.3 if function == "hangs" else 30)

    def run(how: AbstractContextManager[None]) -> tuple[Outcome, str, dict[str, str]]:
        with how, Worker(f"target:{function}", tmp_path, limits) as worker:
            reply = worker.call(Call((), ()))
            return reply.outcome, reply.detail, worker.enforced

    found = run(nullcontext())
    assert run(warm.used()) == found
    assert function != "seen" or found[1].startswith("ValueError: ([''], sys.flags(")


def test_several_live_beside_one_another(warm: WarmWorkers, tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text("import os, numpy\n\ndef number():\n    return numpy.int64(os.getpid())\n")
    with warm.used(), Worker("target:number", tmp_path) as one, Worker("target:number", tmp_path) as other:
        replies = [worker.call(Call((), ())) for worker in (one, other, one)]
    first, second, third = (int(np.frombuffer(r.result.data[0], np.int64)[0]) for r in replies if r.result is not None)
    assert first == third != second
