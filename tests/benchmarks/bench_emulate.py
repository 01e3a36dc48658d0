"""How fast compiled PTX runs on a CPU: thread-instructions a second, beside numpy adding floats in the same process.

    python tests/benchmarks/bench_emulate.py [--repeat N]

Reports figures and never passes or fails. CPU seconds of one core, best of N; detectors and records are on, as always.
RMSNorm is 64 x 4096 bfloat16 as nvcc compiles it, the gated-delta step batch 4 with 8 and 32 heads (4,096 and 16,384
threads), `arithmetic` a loop without memory at 4,096 threads. `schedules`: cases over all cores, one process each.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from validator.emulate.adapter import Kernel
from validator.emulate.adversary import FRIENDLY
from validator.ordering.ptx import read_ptx

FILE = Path(__file__).parents[2] / "fixtures/emulate/kernels.sm_90a.ptx"
ARITHMETIC = b"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry arithmetic(.param .u64 p)
{
.reg .pred %p<2>; .reg .b32 %r<4>; .reg .f32 %f<4>;
mov.u32 %r1, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F7FFFFF;
L: fma.rn.f32 %f1, %f1, %f2, %f2; mul.f32 %f3, %f1, %f2; add.f32 %f1, %f3, %f2; xor.b32 %r2, %r1, 5;
add.u32 %r3, %r2, %r1; shl.b32 %r2, %r3, 1;
add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra L;
ret;
}
"""


def kernel(data: bytes, name: str, arguments: str, *, pdl: bool = False) -> Kernel:
    """`arguments`: `name:role[:dtype]` words."""
    program = next(p for p in read_ptx(data, name).programs if p.name == name)
    rows = []
    for number, word in enumerate(arguments.split()):
        said, role, *kind = word.split(":")
        rows.append(
            {
                "name": said,
                "parameter": number,
                "memory": role != "scalar",
                "role": role,
                "dtype": kind[0] if kind else None,
            }
        )
    return Kernel(program, data, rows, frozenset(), pdl=pdl, plan=FRIENDLY)


def shape(grid: tuple[int, int, int], block: int) -> dict[str, Any]:
    return {"grid": grid, "block": (block, 1, 1), "shared": 0, "cluster": None}


def rmsnorm() -> Callable[[], Kernel]:
    made = kernel(
        FILE.read_bytes(), "rmsnorm", "out:output x:activation w:weight d:scalar eps:scalar:float32", pdl=True
    )
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((64, 4096), 4096))

    def run() -> Kernel:
        made(np.zeros_like(x), x, w, 4096, 1e-6, launch=shape((64, 1, 1), 256))
        return made

    return run


def gated_delta(heads: int) -> Callable[[], Kernel]:
    names = "out:output state:state q:activation k:activation v:activation g:activation beta:activation slot:index"
    made = kernel(FILE.read_bytes(), "gated_delta", f"{names} heads:scalar", pdl=True)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((4, heads, 128)).astype(np.float32) for _ in range(3))
    g, beta = (rng.random((4, heads)).astype(np.float32) for _ in range(2))
    state = rng.standard_normal((4, heads, 128, 128)).astype(np.float32)

    def run() -> Kernel:
        slot = np.arange(4, dtype=np.int32)
        made(np.zeros_like(q), state, q, k / 12, v, -g, beta, slot, heads, launch=shape((heads, 4, 1), 128))
        return made

    return run


def arithmetic() -> Callable[[], Kernel]:
    made = kernel(ARITHMETIC, "arithmetic", "out:output")

    def run() -> Kernel:
        made(np.zeros(4, np.uint32), launch=shape((16, 1, 1), 256))
        return made

    return run


def measured(run: Callable[[], Kernel], repeat: int) -> tuple[float, int]:
    """(CPU seconds, thread-instructions)."""
    best, executed = float("inf"), 0
    for _ in range(repeat):
        begin = time.process_time()
        machine = run().last
        best = min(best, time.process_time() - begin)
        executed = machine.executed if machine is not None else 0
    return best, executed


def additions(repeat: int) -> float:
    """Float additions a second of numpy on 4,096 elements."""
    a = np.ones(4096, np.float32)
    out = np.empty_like(a)
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        for _ in range(2000):
            np.add(a, a, out=out)
        best = min(best, time.process_time() - begin)
    return 2000 * 4096 / best


def one_case(_: int) -> int:
    machine = rmsnorm()().last
    return 0 if machine is None else machine.executed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    adds = additions(repeat)
    for name, run in {
        "rmsnorm 64 x 4096": rmsnorm(),
        "gated delta, batch 4, 8 heads": gated_delta(8),
        "gated delta, batch 4, 32 heads": gated_delta(32),
        "arithmetic, 4,096 threads": arithmetic(),
    }.items():
        seconds, executed = measured(run, repeat)
        rate = executed / seconds
        beside = f"1/{adds / rate:.1f} of numpy's additions"
        print(f"{name:32} {seconds:7.3f} s CPU {rate / 1e6:8.1f} M thread-instructions/s = {beside}")
    print(f"largest resident set: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    cores = os.cpu_count() or 1
    begin = time.monotonic()
    with ProcessPoolExecutor(cores) as pool:
        total = sum(pool.map(one_case, range(4 * cores)))
    rate = total / (time.monotonic() - begin)
    print(f"{4 * cores} cases over {cores} processes: {rate / 1e6:.0f} M thread-instructions/s by the clock")


if __name__ == "__main__":
    main()
