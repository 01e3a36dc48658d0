"""What planning, running, keeping and spreading cells costs, beside the same work done bare in the same run.

    python tests/benchmarks/bench_scale.py [--cells 10000] [--no-ray] [--no-check]

Ends with every figure that must hold beside its bound. Reports and never passes or fails: times depend on the machine
and on what else runs there. CPU time is this process's; the bare loops run right before what they are compared with.
Takes two minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from validator.scale.cell import Cell  # noqa: E402
from validator.scale.covering import Constraint, cover  # noqa: E402
from validator.scale.engine import Engine  # noqa: E402
from validator.scale.local import Local  # noqa: E402
from validator.scale.store import Store  # noqa: E402

HELD: list[tuple[str, str, str, bool]] = []
"""(what, measured, bound, whether it holds here and now)."""


def must_hold(what: str, measured: float, bound: float, unit: str, *, least: bool = False) -> None:
    """Note a figure; `least`: it may not be lower than its bound, else not higher."""
    holds = measured >= bound if least else measured <= bound
    sign = "≥" if least else "<"
    HELD.append((what, f"{measured:,.3g}{unit}", f"{sign} {bound:,g}{unit}", holds))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(wall, CPU of this process) seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def trivial(count: int) -> Iterator[Cell]:
    """Cells that do nothing, made as they are asked for."""
    return (Cell(f"bench/trivial/{n:08}", "tests.scale.tasks:echo", b"%d" % n, seconds=0.001) for n in range(count))


def planning() -> None:
    sizes = {
        "architecture": 4,
        "toolchain": 4,
        "dtype": 3,
        "layout": 4,
        "batch": 8,
        "length": 12,
        "heads": 6,
        "seed": 12,
    }
    factors = {name: list(range(size)) for name, size in sizes.items()}
    bound = [
        Constraint(("architecture", "dtype"), lambda r: r["architecture"] > 0 or r["dtype"] < 2),
        Constraint(("batch", "length", "heads"), lambda r: r["batch"] * r["length"] * r["heads"] < 300),
    ]
    made = []
    wall, cpu = timed(lambda: made.append(cover(factors, 3, bound)))
    rows = made[0]
    print(
        f"planning   {rows.raw:,} raw cells, {rows.combinations:,} triples ({rows.impossible:,} impossible): "
        f"{len(rows):,} rows in {wall:.2f} s ({cpu:.2f} s CPU)"
    )
    must_hold("10^6 raw cells into a 3-wise plan", wall, 10, " s")


def overhead(count: int) -> None:
    from tests.scale.tasks import echo

    bare, _ = timed(lambda: [echo(b"%d" % n, None) for n in range(count)])  # type: ignore[arg-type]
    with (
        tempfile.TemporaryDirectory() as folder,
        Local(jobs=2, in_place=False) as executor,
        Store(Path(folder) / "s") as store,
    ):
        list(Engine(executor).run(trivial(100), 100))  # processes are up
        plain, cpu = timed(lambda: sum(1 for _ in Engine(executor).run(trivial(count), count)))
        print(
            f"trivial    {count:,} cells, local, 2 processes: {plain / count * 1e3:.3f} ms a cell "
            f"({cpu / count * 1e3:.3f} ms CPU here; the bare loop {bare / count * 1e3:.4f} ms)"
        )
        must_hold("a trivial cell, local", plain / count * 1e3, 10, " ms")
        cold, _ = timed(lambda: sum(1 for _ in Engine(executor, [store], [store]).run(trivial(count), count)))
        warm, cpu = timed(lambda: sum(1 for _ in Engine(executor, [store], [store]).run(trivial(count), count)))
        print(
            f"cached     {count:,} cells: {warm / count * 1e3:.3f} ms a cell ({cpu / count * 1e3:.3f} ms CPU); "
            f"kept while they run: {cold / count * 1e3:.3f} ms a cell"
        )
        must_hold("a cached cell", warm / count * 1e3, 1, " ms")


def memory() -> None:
    """Peak of a process that runs ten times as many cells."""
    script = (
        "import sys, resource; sys.path.insert(0, {root!r})\n"
        "from tests.benchmarks.bench_scale import trivial\n"
        "from validator.scale.engine import Engine\nfrom validator.scale.local import Local\n"
        "with Local(jobs=2, in_place=False) as x:\n"
        "    done = sum(1 for _ in Engine(x).run(trivial({n}), {n}))\n"
        "print(done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for count in (10_000, 100_000):
        command = [sys.executable, "-c", script.format(root=str(ROOT), n=count)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
        peaks.append(int(said[1]) / 1024)
    print(f"memory     {peaks[0]:.1f} MB for 10,000 cells, {peaks[1]:.1f} MB for 100,000")
    must_hold("memory, ten times the cells", peaks[1] / peaks[0], 1.1, " x")


CASES = 400
"""Of each of the two kernels, as many as a real kernel's classes and edges come to."""


def cold_and_warm() -> None:
    """A whole check of a small change with two kernels, twice."""
    from tests.scale.small import build

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # As installed: modules are compiled once, not in each of the runs that are compared.
    subprocess.run([sys.executable, "-m", "compileall", "-q", "validator"], check=True, cwd=ROOT, env=environment)
    with tempfile.TemporaryDirectory() as folder:
        repo = build(Path(folder) / "repo", cases=CASES)
        stages = []
        for name in ("cold", "warm"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            script = (
                f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
                "from pathlib import Path\nfrom validator.pipeline import Options, check\n"
                "from validator.pipeline.stages import STAGES\nfrom validator.scale.engine import Engine\n"
                "from validator.scale.local import Local\nfrom validator.scale.store import Store\n"
                f"store = Store(Path({folder!r}) / 'cache')\n"
                "with Local(jobs=2) as x:\n"
                "    work = Engine(x, [store], [store])\n    start = time.perf_counter(); spent = [0.0]\n"
                "    inner = work.run\n"
                "    def run(cells, total):\n"
                "        begin = time.perf_counter(); out = list(inner(cells, total))\n"
                "        spent[0] += time.perf_counter() - begin; return iter(out)\n"
                "    work.run = run\n"
                f"    check(Options(Path({str(repo)!r}), 'main', 'change', seed=5), work=work, store=store)\n"
                "    print(time.perf_counter() - start, spent[0])\nstore.close()\n"
            )
            command = [sys.executable, "-c", script]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
            whole, cells = done.stdout.split()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            stages.append((float(whole), float(cells), after.ru_utime - before.ru_utime))
            print(f"{name:10} check: {float(whole):.2f} s, its cells {float(cells):.4f} s ({stages[-1][2]:.2f} s CPU)")
        cold, warm = stages
        print(
            f"           cells: cold / warm = {cold[1] / warm[1]:,.0f}; whole check: {cold[0] / warm[0]:.1f} by wall, "
            f"{cold[2] / warm[2]:.1f} by CPU"
        )
        must_hold("cold / warm cache, what is cached", cold[1] / warm[1], 20, " x", least=True)
        must_hold("cold / warm cache, the whole check", cold[0] / warm[0], 20, " x", least=True)


def ray_loop(count: int) -> None:
    import ray

    from validator.scale.cluster import Cluster

    os.environ["PYTHONPATH"] = str(ROOT)
    with Cluster(cpus=2, object_store=100 << 20) as executor:
        list(Engine(executor).run(trivial(512), 512))  # workers are up

        @ray.remote
        def bare(n: int) -> bytes:
            return b"did %d" % n

        ray.get([bare.remote(n) for n in range(64)])
        loop, _ = timed(lambda: ray.get([bare.remote(n) for n in range(count)]))
        ours, _ = timed(lambda: sum(1 for _ in Engine(executor).run(trivial(count), count)))
        print(
            f"ray        {count:,} trivial cells, 2 workers: {count / ours:,.0f}/s; a bare loop of tasks "
            f"{count / loop:,.0f}/s: {loop / ours * 100:.0f} %"
        )
        must_hold("10,000 trivial cells on Ray, of a bare loop", loop / ours * 100, 80, " %", least=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    options = parser.parse_args()
    planning()
    overhead(options.cells)
    memory()
    if not options.no_check:
        cold_and_warm()
    if not options.no_ray:
        ray_loop(options.cells)
    print("\nmust hold")
    for what, measured, bound, holds in HELD:
        print(f"  {'holds ' if holds else 'MISSED'}  {what:44} {measured:>12}  {bound}")


if __name__ == "__main__":
    main()
