"""What the engine costs on top of the candidate itself. Run by hand: `python tests/benchmarks/bench_diff.py`.

Prints, for a small and a large case: milliseconds of a direct call in this process, of one confined call with guard
zones, poisons and the comparison of every byte, and of a whole case (two calls, a plan, the reference, its probes and
the controls); and the milliseconds of a worker's start.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from validator.differential.cases import Case
from validator.differential.engine import run_case
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

MODEL = "def scale(x, w, out):\n    out[...] = x * w\n"


def median(function: Callable[[], object], times: int) -> float:
    """Milliseconds, median."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begun)
    return 1000 * float(np.median(taken))


def main() -> None:
    contract = KernelContract.model_validate(
        {
            "match": "scale",
            "candidate": "model:scale",
            "reference": "model:scale",
            "dims": ["B in 1..4096", "D in 1..4096"],
            "args": [
                {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
                {"name": "w", "role": "weight", "dtype": "float32", "shape": ["D"]},
                {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
            ],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.py").write_text(MODEL)
        sys.path.insert(0, folder)
        import model  # type: ignore[import-not-found]

        with runner_for(contract, Trees(Path(folder), Path(folder)), Limits(wall=120)) as runner:
            start = median(lambda: (runner.candidate.close(), runner.candidate.start()), 5)
            print(f"{'start of a worker':<22} {start:9.2f} ms")
            for rows, columns, times in ((4, 64, 50), (1024, 1024, 3)):
                report(runner, model.scale, Case("scale", (("B", rows), ("D", columns)), 1), times)


def report(runner: Runner, function: Callable[..., None], case: Case, times: int) -> None:
    """One line of figures."""
    inputs = runner.build(case)
    expected = runner.expect(case, inputs)
    direct = median(lambda: function(inputs["x"], inputs["w"], inputs["out"]), times)
    call = median(lambda: runner.play(case, inputs, expected), times)
    whole = median(lambda: run_case(runner, case), max(times // 5, 1))
    name = " x ".join(str(value) for _, value in case.dims)
    print(f"{name:<22} {direct:9.3f} ms direct {call:9.2f} ms confined and judged {whole:9.1f} ms whole case")


if __name__ == "__main__":
    main()
