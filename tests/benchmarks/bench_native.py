"""What is compiled, on each generation of processors that this one can stand for. Run by hand:
`python tests/benchmarks/bench_native.py`.

For each function: nanoseconds an element on the newest generation, and how many times as long each older one takes.
Wider vectors are worth two to four at most; more than that, and the compiler has taken them apart element by element.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.machines import Calls, library_for, machines

SIZE, TURNS = 1 << 18, 30
"""Elements: they stay in the caches, so that it is not memory that is measured."""


def least(call: Callable[[], Any]) -> float:
    """Seconds, of several turns."""
    took = []
    for _ in range(TURNS):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    calls, names = Calls(SIZE), machines()
    with tempfile.TemporaryDirectory() as folder:
        several = [calls(library_for(name, Path(folder))) for name in names]
        print(f"{'':16}{f'{names[0]}, ns':>16}", *(f"{name:>12}" for name in names[1:]))
        for turn in zip(*several, strict=True):
            first, *others = (least(call) for _, call in turn)
            print(f"{turn[0][0]:16}{1e9 * first / SIZE:16.2f}", *(f"{one / first:11.1f}x" for one in others))


if __name__ == "__main__":
    main()
