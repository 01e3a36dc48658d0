"""What the engine costs on top of the candidate itself. Run by hand: `python tests/benchmarks/bench_diff.py`.

Overhead is what one judged call of the candidate costs beyond the candidate's own time: laying its arguments into the
worker's memory with poisons and guard zones, the round trip, looking at every byte that must not have changed, copying
the results out, and comparing every element. It is compared with a direct call on the same arrays in this process.
"Small" is a case of a few hundred elements; "large" is one whose direct call takes a tenth of a second or more. Shorter
calls on large arrays are shown too: where a call is a pass or two over memory, as a product of two arrays is, the
judgement itself reads more memory than that, and no share of such a call can be promised.

Peak memory is what the whole case needs at once (inputs, calls, reference, probes, plan, controls): arrays of the gate
as `tracemalloc` counts them, and the memory shared with the workers. It is given as a multiple of the case's own
buffers: every argument at its own type, and at float64, as the reference takes it.

Processor time of the gate stands beside the wall clock, which other work on the machine moves.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from validator.differential.cases import Case
from validator.differential.engine import run_case
from validator.differential.numbers import is_float
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

MODEL = """
import numpy as np

def scale(x, w, out):
    out[...] = x * w[0]

def gemm(x, w, out):
    np.matmul(x, w, out=out)

def softmax(x, w, out):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out[...] = e / e.sum(axis=-1, keepdims=True) * w[0]
"""
CASES = (
    ("scale", 16, 200),
    ("gemm", 16, 200),
    ("softmax", 16, 200),
    ("scale", 1024, 7),
    ("softmax", 2048, 5),
    ("gemm", 1024, 7),
    ("gemm", 2048, 3),
)
"""Callable, rows and columns, how often it is timed."""


def contract(name: str) -> KernelContract:
    """Three square arrays of float32."""
    args = [("x", "activation"), ("w", "weight"), ("out", "output")]
    return KernelContract.model_validate(
        {
            "match": name,
            "candidate": f"model:{name}",
            "reference": f"stock:{name}",
            "dims": ["N in 1..8192"],
            "args": [{"name": n, "role": role, "dtype": "float32", "shape": ["N", "N"]} for n, role in args],
        }
    )


def median(function: Callable[[], object], times: int) -> tuple[float, float]:
    """Milliseconds by the wall clock and of this process's processor time, medians."""
    taken = []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = np.median(np.asarray(taken), axis=0) * 1000
    return float(wall), float(cpu)


def peak(runner: Runner, case: Case) -> float:
    """Bytes at once, over the case's own buffers."""
    own = shared = 0
    for value in runner.build(case).values():
        if isinstance(value, np.ndarray):
            own += value.size * (value.itemsize + (8 if is_float(value.dtype) else value.itemsize))
            shared += value.size * (value.itemsize + 8)  # the candidate's buffers, and the reference's while it runs
    tracemalloc.start()
    run_case(runner, case)
    _, traced = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (traced + shared) / own


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for module in ("model", "stock"):
            Path(folder, f"{module}.py").write_text(MODEL)
        sys.path.insert(0, folder)
        import model  # type: ignore[import-not-found]

        columns = (
            "case",
            "direct ms",
            "judged call ms",
            "overhead ms",
            "share",
            "gate cpu ms",
            "whole case ms",
            "peak",
        )
        print("".join(f"{column:>15}" for column in columns))
        for name, size, times in CASES:
            with runner_for(contract(name), Trees(Path(folder), Path(folder)), Limits(wall=120)) as runner:
                report(runner, getattr(model, name), Case(name, (("N", size),), 1), times)


def report(runner: Runner, function: Callable[..., Any], case: Case, times: int) -> None:
    """One line of figures."""
    inputs = {n: np.array(v) for n, v in runner.build(case).items()}
    expected = runner.expect(case, inputs)
    runner.play(case, inputs, expected)
    direct, _ = median(lambda: function(**inputs), times)
    judged, cpu = median(lambda: runner.play(case, inputs, expected), times)
    whole, _ = median(lambda: run_case(runner, case), max(times // 10, 1))
    over = judged - direct
    name = f"{case.kernel} {case.dims[0][1]}"
    figures = (f"{direct:.3f}", f"{judged:.2f}", f"{over:.2f}", f"{over / direct:.0%}", f"{cpu:.2f}", f"{whole:.0f}")
    print("".join(f"{text:>15}" for text in (name, *figures, f"{peak(runner, case):.1f}x")), flush=True)


if __name__ == "__main__":
    main()
