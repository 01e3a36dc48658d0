"""What the isolation of a case costs. Run by hand: `python tests/benchmarks/bench_worker.py [CALLS]`.

The same callable, on the same small arrays: called in this process, in an ordinary child over a pipe (pickle), and in a
confined worker. Starting a worker is paid once for all cases of a kernel; it is spread over those of an ordinary run.
Wall clock and processor time (of all processes); beside other work on the machine, look at the processor time.

2026-11-29, two cores under a load of 10: 0.88 ms of processor time a case (4.5 ms wall), 130 ms for a start.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from validator.differential.buffers import place
from validator.run.sandbox import Outcome, Worker

CASES = 300
"""Cases of an ordinary run of one kernel (`differential.min_cases` is 100; those by construction come on top)."""
MODEL = "def scale(x, w, out):\n    out[...] = x * w\n"


def spent() -> float:
    """Processor seconds of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """(wall, processor) in seconds."""
    wall, processor = time.perf_counter(), spent()
    work()
    return time.perf_counter() - wall, spent() - processor


def child(pipe: Connection) -> None:
    while (arrays := pipe.recv()) is not None:
        x, w, out = arrays
        out[...] = x * w
        pipe.send(out)


def over_a_pipe(arrays: list[Any], calls: int) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    for _ in range(calls):
        ours.send(arrays)
        ours.recv()
    ours.send(None)
    process.join()


def confined(tree: Path, inputs: dict[str, Any], calls: int, each: list[float]) -> None:
    with Worker("model:scale", tree) as worker:
        begun = time.perf_counter()
        assert worker.start().outcome is Outcome.OK
        each.append(time.perf_counter() - begun)
        for _ in range(calls):
            placed = place(worker, inputs)
            assert worker.call(placed.call()).outcome is Outcome.OK
            placed.view("out").copy()


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 64)).astype(np.float32), rng.standard_normal(64).astype(np.float32)
    inputs = {"x": x, "w": w, "out": np.zeros_like(x)}
    direct = timed(lambda: [np.multiply(x, w, out=inputs["out"]) for _ in range(calls)])
    piped = timed(lambda: over_a_pipe(list(inputs.values()), calls))
    starts: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.py").write_text(MODEL)
        started = timed(lambda: confined(Path(folder), inputs, 0, starts))
        worked = timed(lambda: confined(Path(folder), inputs, calls, starts))
    print(f"{calls} calls on 4x64 float32; wall / processor time")
    rows = (
        ("in this process", direct),
        ("a child over a pipe, its start included", piped),
        ("a confined worker", worked),
    )
    for name, (wall, processor) in rows:
        print(f"  {name:42}{1e6 * wall / calls:10.1f} / {1e6 * processor / calls:8.1f} us a call")
    wall, processor = ((a - b) / calls for a, b in zip(worked, started, strict=True))
    print(f"  starting and ending a worker              {1e3 * started[0]:10.1f} / {1e3 * started[1]:8.1f} ms once")
    amortised = [1e3 * (one + start / CASES) for one, start in zip((wall, processor), started, strict=True)]
    print(f"  a case of {CASES}, its share of the start in it  {amortised[0]:10.3f} / {amortised[1]:8.3f} ms a case")


if __name__ == "__main__":
    main()
