"""What the engine costs on top of the candidate itself. Run by hand: `python tests/benchmarks/bench_diff.py`.

Counted is everything of a case once its inputs and what is right for them exist: laying the arguments into the
candidate's memory with poisons and guard zones, every call of the case (two, and those of its plan), the round trips,
looking at what must not have changed, copying and comparing results, and the controls. Overhead is the wall time of all
that less as many direct calls, on the same values in this process, each with one thread and with the C library's memory
kept as the candidate's process keeps it. Both are the least of several turns, taken one after the other, so that other
work on the machine hits both and decides neither.

Drawing the inputs (where the candidate reads them) and asking the reference is not counted: a case does that once for
each set of values, mostly in other processes. `drawing` and `reference` say what that takes, for one set. The reference
is asked in every turn: what a second thread does meanwhile is counted as far as a case waits for it afterwards.

`per call` is the overhead over the calls of the case. Cases are large from direct calls of 10 ms on: there a fifth is
more than the two milliseconds that a small case may cost. The candidates whose names end in `_other` give other bits
than what they are compared with, so that each of their results has to be judged.

`least` is what filling a result with poison and knowing it again take by themselves, one pass over memory each, as a
share of a direct call: what no overlap saves where one process alone uses all the memory that the machine can move.

Processor time of the gate (without what is spent as the reference is asked) stands beside it, and what share it is of
the direct calls' own: the wall clock is less where the gate works while the candidate does.

Memory is what a whole case takes, reference and probes included, over the bytes of its arguments and outputs at their
own types: arrays of the gate as `tracemalloc` counts them, and what is shared with the candidate. What lies on disk
(the reference's buffers, the gate's arrays in float64) stands beside it: the system takes that memory back when it is
short of it.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import numpy as np

from validator.differential import plans
from validator.differential.cases import Case, Inputs, copied
from validator.differential.changes import rearranged, scattered_changes, single_changes
from validator.differential.digests import is_known
from validator.differential.expected import Expected
from validator.differential.numbers import poured
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract
from validator.run.pool import Pool
from validator.run.sandbox import Limits
from validator.run.worker import keep_freed

MODEL = """
import numpy as np

def add(x, w, out):
    np.add(x, w, out=out)

def matmul(x, w, out):
    np.matmul(x, w, out=out)

def softmax(x, w, out):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out[...] = e / e.sum(axis=-1, keepdims=True) * w[0]

def rmsnorm(x, w, out):
    np.multiply(x, 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6), out=out)
    out *= w[0]

def softmax_other(x, w, out):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    e *= w[0]
    np.multiply(e, 1 / np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True), out=out)

def rmsnorm_other(x, w, out):
    np.divide(x, np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + 1e-6), out=out)
    out *= w[0]
"""
SQUARE, VECTOR = ["N", "N"], [1, "N"]
SHAPES = {"add": SQUARE, "matmul": SQUARE, "softmax": VECTOR, "rmsnorm": VECTOR}
CASES = (
    ("add", 16, 50),
    ("matmul", 16, 50),
    ("softmax", 16, 50),
    ("matmul", 1024, 7),
    ("matmul", 2048, 3),
    ("softmax", 2048, 7),
    ("softmax_other", 2048, 7),
    ("rmsnorm", 4096, 5),
    ("rmsnorm_other", 4096, 5),
    ("add", 4096, 5),
)
"""Callable, rows and columns, how often each plan is timed."""
CHANGES = (rearranged, single_changes, scattered_changes)
PLANS = ("repeat", "same-buffer", "flip", "recheck", "a-b-a")


def contract(name: str) -> KernelContract:
    """Arrays of float32."""
    stock = name.removesuffix("_other")
    args = [("x", "activation", SQUARE), ("w", "weight", SHAPES[stock]), ("out", "output", SQUARE)]
    return KernelContract.model_validate(
        {
            "match": name,
            "candidate": f"model:{name}",
            "reference": f"stock:{stock}",
            "dims": ["N in 1..8192"],
            "args": [{"name": n, "role": role, "dtype": "float32", "shape": shape} for n, role, shape in args],
        }
    )


@dataclass
class Prepared:
    """The runner's inputs, made once, later copies; and what is right, asked for each time. Neither costs anything."""

    runner: Runner
    built: dict[str, Inputs] = field(default_factory=dict)
    right: dict[str, Expected] = field(default_factory=dict)
    """The largest results that were asked for."""
    spent: float = 0.0
    """Seconds in here, by the clock."""
    busy: float = 0.0
    """Seconds in here, of this process's processor time."""
    drawing: float = 0.0
    asking: float = 0.0
    """Seconds that drawing a new set of values took, and asking the reference about it; the most."""

    def __post_init__(self) -> None:
        self.make, self.ask = self.runner.build, self.runner.expect
        self.runner.build = self.build  # type: ignore[method-assign]
        self.runner.expect = self.expect  # type: ignore[method-assign]

    def build(self, case: Case) -> Inputs:
        started, busy = time.perf_counter(), time.process_time()
        if case.id not in self.built:
            self.built[case.id] = copied(self.make(case))
            self.drawing = max(self.drawing, time.perf_counter() - started)
        copies = {n: v if n == "out" else self.drawn(v) for n, v in self.built[case.id].items()}
        self.spent += time.perf_counter() - started
        self.busy += time.process_time() - busy
        return copies

    def counted(self, changes: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Changing inputs of a plan is drawing them, too."""

        def of(*args: Any) -> Iterator[Any]:
            several = changes(*args)
            while True:
                started, busy = time.perf_counter(), time.process_time()
                changed = next(several, None)
                self.spent += time.perf_counter() - started
                self.busy += time.process_time() - busy
                if changed is None:
                    return
                yield changed

        return of

    def drawn(self, value: Any) -> Any:
        """The same values, where the runner would draw them."""
        there = self.runner._book.home(self.runner.candidate, value.shape, value.dtype)
        there[...] = value
        return there

    def expect(self, case: Case, inputs: Inputs) -> dict[str, Expected]:
        started, busy = time.perf_counter(), time.process_time()
        right = self.ask(case, inputs)
        if not self.right or right["out"].native.size > self.right["out"].native.size:
            self.right = right
        took = time.perf_counter() - started
        self.asking, self.spent = max(self.asking, took), self.spent + took
        self.busy += time.process_time() - busy
        return right


def report(name: str, size: int, times: int, folder: Path, function: Callable[..., Any]) -> None:
    """One line of figures."""
    with runner_for(contract(name), Trees(folder, folder), Limits(wall=120)) as runner:
        whole = memory(runner, [Case(name, (("N", size),), 1, plan) for plan in PLANS])
        ready = Prepared(runner)
        for changes in CHANGES:
            setattr(plans, changes.__name__, ready.counted(changes))
        spent = calls = cpu = direct = direct_cpu = 0.0
        for plan in PLANS:
            case = Case(name, (("N", size),), 1, plan)
            run_case(runner, case)
            arrays = {n: np.array(v) for n, v in ready.built[case.id].items()}
            turns, plain, made = [], [], 0
            for _ in range(times):
                before = runner.calls
                turns.append(timed(partial(run_case, runner, case), 1, ready))
                made = runner.calls - before - (plan == "a-b-a")  # the call in between is a tiny one
                plain.append(timed(partial(function, **arrays), made))
            calls += made
            spent, cpu = spent + min(t for t, _ in turns), cpu + min(c for _, c in turns)
            direct, direct_cpu = direct + min(t for t, _ in plain), direct_cpu + min(c for _, c in plain)
    over, cases = spent - direct, len(PLANS)
    figures = (
        f"{1e3 * direct / calls:.3f}", f"{1e3 * over / calls:.2f}", f"{1e3 * over / cases:.2f}", f"{over / direct:.0%}",
        f"{least(ready, times) / (direct / calls):.0%}",
        f"{1e3 * cpu / cases:.2f}", f"{cpu / direct_cpu:.0%}", *(f"{share:.1f}x" for share in whole),
        f"{1e3 * ready.drawing:.1f}", f"{1e3 * ready.asking:.0f}",
    )  # fmt: skip
    line(f"{name} {size}", *figures)


def least(ready: Prepared, times: int) -> float:
    """Seconds."""
    right = ready.right["out"].native.reshape(-1)
    there, poison = np.array(right), np.broadcast_to(right[:1] + 1, right.shape)
    both = []
    for _ in range(times):
        there[...] = right
        known, _ = timed(partial(is_known, there, right), 1)
        laid, _ = timed(partial(poured, there, poison), 1)
        both.append(known + laid)
    return min(both)


def line(*cells: str) -> None:
    """Of the table."""
    print("".join(f"{text:>{width}}" for text, width in zip(cells, WIDTHS, strict=True)), flush=True)


def timed(call: Callable[[], Any], times: int, ready: Prepared | None = None) -> tuple[float, float]:
    """(seconds, processor seconds of this process) of so many calls, what is prepared for them not counted."""
    if ready is not None:
        ready.spent = ready.busy = 0.0
    start, busy = time.perf_counter(), time.process_time()
    for _ in range(times):
        call()
    took, busy = time.perf_counter() - start, time.process_time() - busy
    return (took - ready.spent, busy - ready.busy) if ready is not None else (took, busy)


class Mapped(mmap.mmap):
    """Counts the bytes of arrays that the gate keeps on disk."""

    now = most = 0

    def __new__(cls, descriptor: int, size: int) -> Self:
        made = super().__new__(cls, descriptor, size)
        cls.now += size
        cls.most = max(cls.most, cls.now)
        weakref.finalize(made, cls._gone, size)
        return made

    @classmethod
    def _gone(cls, size: int) -> None:
        cls.now -= size


def memory(runner: Runner, cases: list[Case]) -> tuple[float, float]:
    """(bytes at once, bytes of the reference's buffers on disk), of the most costly case, over the case's own."""
    own = sum(v.nbytes for v in runner.build(cases[0]).values())
    most, disk = 0, 0
    for case in cases:
        tracemalloc.start()
        with patch("validator.differential.spill.mmap", SimpleNamespace(mmap=Mapped)):
            Mapped.most = Mapped.now
            run_case(runner, case)
        _, traced = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pools, trusted = runner.candidate._pools or (), runner.reference.worker._pools or ()
        most = max(most, traced + sum(map(used, pools)))
        disk = max(disk, sum(map(used, trusted)) + Mapped.most)
    return most / own, disk / own


def used(pool: Pool) -> int:
    """Bytes that are lent."""
    return sum(dict(pool._slots.values()).values())


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""As the candidate's process has it."""


COLUMNS = (
    "case", "direct ms", "per call ms", "per case ms", "share", "least", "gate cpu ms", "cpu share", "memory", "disk",
    "drawing ms", "reference ms",
)  # fmt: skip
WIDTHS = (19, *(max(len(column) + 2, 9) for column in COLUMNS[1:]))


def main() -> None:
    if not ONE_THREAD.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    keep_freed()
    line(*COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for module in ("model", "stock"):
            Path(folder, f"{module}.py").write_text(MODEL)
        sys.path.insert(0, folder)
        import model  # type: ignore[import-not-found]

        chosen = sys.argv[1:]
        for name, size, times in CASES:
            if not chosen or f"{name}:{size}" in chosen:
                report(name, size, times, Path(folder), getattr(model, name))


if __name__ == "__main__":
    main()
