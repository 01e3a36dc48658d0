"""How long the static part of `check` takes and how much memory, beside git and an empty Python in the same run.

    python tests/benchmarks/bench_check.py [--files 6000] [--history 200] [--rounds 5]

Builds a repository of 6,000 files and a change of 49 files and 12,700 lines, without kernels. Then twice the change,
and ten times the history, to show what the time grows with. Reports figures and never passes or fails: times depend on
the machine and on what else runs there, so the ratios are the figures to compare. Best of the rounds; commands
take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

POLICY = """\
schema = "validator/policy/1"
obligations = ["gate", "isolation", "scope"]
[isolation]
roots = ["fastpath/**", "tests/test_fast_*.py"]
[ordering]
required = false
[differential]
required = false
"""
MANIFEST = """\
schema = "validator/manifest/1"
id = "fast"
title = "A change of the size of a real one"
owners = ["@bench"]
created = 2026-11-01
expires = 2027-03-01
summary = "Generated."
[isolation]
paths = ["fastpath/**", "tests/test_fast_*.py"]
shared = ["package_0/module_0.py", "package_0/module_1.py"]
[switch]
kind = "env"
name = "FAST"
value = "1"
default = "0"
[scope]
models = ["m"]
architectures = ["sm_100a"]
dtypes = ["bfloat16"]
batch = { max = 8 }
"""


@dataclass(frozen=True)
class Cost:
    """Best of several runs."""

    seconds: float
    """Wall."""
    cpu: float
    """Seconds of processor, children included."""
    megabytes: float


def source(name: str, lines: int) -> str:
    """A file of that many lines, different for every name."""
    return "".join(f"{name.replace('/', '_').replace('.', '_')}_{i} = {i} * {i + 1}\n" for i in range(lines))


def base_files(count: int) -> Iterator[tuple[str, str]]:
    yield "policies/fast-track.toml", POLICY
    for number in range(count - 1):
        path = f"package_{number // 60}/module_{number % 60}.py"
        yield path, source(path, 60)


def changed_files(factor: int) -> Iterator[tuple[str, str]]:
    """49 files and 12,700 lines for factor 1: the manifest, two shared files with a few lines, four tests, the rest."""
    yield "rfcs/fast.toml", MANIFEST
    for number in range(2):
        path = f"package_0/module_{number}.py"
        yield path, source(path, 60) + "switched = 1\n" * 5
    for number in range(4 * factor):
        yield f"tests/test_fast_{number}.py", source(f"t{number}", 200)
    for number in range(42 * factor):
        yield f"fastpath/kernel_{number}.py", source(f"k{number}", 283)


def import_stream(files: int, factor: int, history: int) -> Iterator[bytes]:
    """`git fast-import` input: the files, a history of one-line edits on `main`, and the change on `change`."""

    def commit(ref: str, mark: int, parent: int, contents: Sequence[tuple[str, str]]) -> Iterator[bytes]:
        yield f"commit refs/heads/{ref}\nmark :{mark}\n".encode()
        yield f"committer b <b@example.org> {1_700_000_000 + mark} +0000\n".encode()
        yield b"data 1\nc\n"
        yield f"from :{parent}\n".encode() if parent else b""
        for path, text in contents:
            data = text.encode()
            yield b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data)

    yield from commit("main", 1, 0, list(base_files(files)))
    for number in range(history):
        path = f"package_1/module_{number % 60}.py"
        yield from commit("main", number + 2, number + 1, [(path, source(path, 60) + f"edit = {number}\n")])
    yield from commit("change", history + 2, history + 1, list(changed_files(factor)))


def build(folder: Path, files: int, factor: int, history: int) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True)
    # Piece by piece: a child starts with the memory of its parent, and that would count as the child's peak.
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=folder, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.writelines(import_stream(files, factor, history))
        process.stdin.close()
    if process.returncode:
        sys.exit("git fast-import failed")
    return folder


def measure(command: Sequence[str], folder: Path) -> Cost:
    """Wall time, and the largest resident set of the command and its children."""
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(
            f"{' '.join(command)} exited with {process.returncode}\n"
            + (folder / "stdout").read_text()[-2000:]
            + (folder / "stderr").read_text()[-2000:]
        )
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def best(costs: Sequence[Cost]) -> Cost:
    return Cost(
        min(cost.seconds for cost in costs), min(cost.cpu for cost in costs), max(cost.megabytes for cost in costs)
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=6000)
    options.add_argument("--history", type=int, default=200)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    check = [sys.executable, "-m", "validator", "check", "--base", "main", "--head", "change", "--seed", "1", "--quiet"]
    numstat = ["git", "diff", "--numstat", "-M", "main", "change"]
    folder = Path(tempfile.mkdtemp(prefix="bench-check-"))
    try:
        plain = build(folder / "plain", asked.files, 1, asked.history)
        twice = build(folder / "twice", asked.files, 2, asked.history)
        long = build(folder / "long", asked.files, 1, 10 * asked.history)
        runs: dict[str, tuple[Sequence[str], Path]] = {
            "python -c pass": ([sys.executable, "-c", "pass"], plain),
            "validator --version": ([sys.executable, "-m", "validator", "--version"], plain),
            "git diff --numstat": (numstat, plain),
            "check": (check, plain),
            "check, twice the change": (check, twice),
            "check, ten times the history": (check, long),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in runs}
        for _ in range(asked.rounds):
            for name, (command, place) in runs.items():
                costs[name].append(measure(command, place))
        python, git = best(costs["python -c pass"]), best(costs["git diff --numstat"])
        lines = sum(text.count("\n") for _, text in changed_files(1)) - 120
        print(f"{asked.files} files, change of {sum(1 for _ in changed_files(1))} files and {lines} lines")
        print(f"{'':30} {'wall ms':>8} {'cpu ms':>8} {'peak MB':>8} {'× python':>9} {'× git':>7}")
        for name, found in costs.items():
            cost = best(found)
            ratios = f"{cost.seconds / python.seconds:9.1f} {cost.seconds / git.seconds:7.1f}"
            print(f"{name:30} {cost.seconds * 1000:8.0f} {cost.cpu * 1000:8.0f} {cost.megabytes:8.1f} {ratios}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
