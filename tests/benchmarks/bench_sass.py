"""How long the audit of a compiled library takes and how much memory, beside `cuobjdump -sass` of the same file.

    python tests/benchmarks/bench_sass.py [--file LIB.so | --wheel sgl-kernel] [--folder DIR] [--seconds 240]
    python tests/benchmarks/bench_sass.py [--file LIB.so | --wheel sgl-kernel] --drawn 250

Downloads a wheel of the package index by name (half a gigabyte, once, into the folder) unless a file is given. Measured
one after the other: the audit with an empty cache and with a full one; the audit of a quarter, a half and all of the
library's cubins, for what a kernel costs as they become more; and cuobjdump printing the library, for at most
`--seconds`. Memory is that of all processes together (proportional set sizes), sampled while they run.

With `--drawn N` instead N kernels of the library, the same ones each time, lowered whatever their opcodes say, as they
are under a contract: processor time of each step in one process, beside that of `nvdisasm` for as many instructions.

cuobjdump rarely comes to its end: then its instructions are counted as they are printed, and what is reported is a
bound (it took longer than that) and, named as such, an estimate from the share it printed. Run on a quiet machine;
figures are reported, nothing passes or fails.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from validator.binary.containers import Found, find_binaries
from validator.binary.elf import Cubin
from validator.binary.tools import Tools
from validator.manifest.contract import KernelContract, Launch
from validator.ordering.audit import audit_program
from validator.ordering.result import Skipped
from validator.ordering.sass.reader import Looked, Portion, lower, open_portion

AUDIT = """
import json, sys
from collections import Counter
from pathlib import Path
from validator.ordering.artifacts import Artifact, audit_artifacts
if __name__ == "__main__":
    path, jobs, cache = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None
    audit = audit_artifacts([Artifact(path.name, path=path)], (), jobs=jobs, cache=cache)
    print(json.dumps({
        "kernels": len(audit.kernels), "skipped": len(audit.skipped),
        "status": Counter(k.status.value for k in audit.kernels),
        "architectures": Counter(k.arch for k in audit.kernels),
        "unknown": sum(sum(k.unknown.values()) for k in audit.kernels),
    }))
"""
EVERY = 0.1
"""Seconds between two samples of memory."""


class Run(NamedTuple):
    """One run of the audit."""

    seconds: float
    memory: int
    """Bytes, the most that all of its processes held together."""
    said: dict[str, object]


class Printed(NamedTuple):
    """One run of cuobjdump."""

    seconds: float
    ended: bool
    instructions: int
    """That it printed."""


# -- what is measured ------------------------------------------------------------------------------------------------


def download(name: str, folder: Path) -> Path:
    """The newest wheel of that name in `folder`, fetched if there is none."""
    pattern = f"{name.replace('-', '_')}-*.whl"
    if not list(folder.glob(pattern)):
        flags = ["--no-deps", "--only-binary", ":all:", "-d", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", *flags, name], check=True, timeout=3600)
    return sorted(folder.glob(pattern))[-1]


def library(wheel: Path, pattern: str, folder: Path) -> Path:
    """The first shared library of the wheel that the pattern means."""
    with zipfile.ZipFile(wheel) as archive:
        member = next(m for m in sorted(archive.namelist()) if fnmatch.fnmatch(m, pattern))
        target = folder / member.replace("/", "_")
        if not target.exists():
            with archive.open(member) as source, target.open("wb") as sink:
                while chunk := source.read(1 << 20):
                    sink.write(chunk)
    return target


def parts(path: Path, folder: Path) -> tuple[list[Path], int]:
    """Archives of a quarter, a half and all of the library's cubins, and the instructions of all of them."""
    shares = {folder / f"{name}.zip": step for name, step in (("quarter", 4), ("half", 2), ("all", 1))}
    instructions = 0
    with contextlib.ExitStack() as stack:
        archives = {step: stack.enter_context(zipfile.ZipFile(out, "w")) for out, step in shares.items()}
        cubins = (p for p in find_binaries(path, "", Tools.find()) if isinstance(p, Found) and p.kind == "cubin")
        for number, piece in enumerate(cubins):
            instructions += sum(section.size // 16 for section in Cubin(piece.data, "cubin").code_sections)
            for step, archive in archives.items():
                if number % step == 0:
                    archive.writestr(f"{number}.{piece.arch}.cubin", piece.data)
    return list(shares), instructions


# -- runs ------------------------------------------------------------------------------------------------------------


def audit(path: Path, jobs: int, cache: Path | None = None) -> Run:
    arguments = [str(path), str(jobs), *([str(cache)] if cache else [])]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "audit.py"  # a file: fresh interpreters import what started them
        script.write_text(AUDIT)
        start = time.perf_counter()
        command = [sys.executable, str(script), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, watched(process.pid) as most:
            out, _ = process.communicate(timeout=3600)
        seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"the audit ended with {process.returncode}")
    return Run(seconds, most[0], json.loads(out))


@contextlib.contextmanager
def watched(pid: int) -> Iterator[list[int]]:
    """The most bytes that a process and all that it started held together, so far."""
    most = [0]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(EVERY):
            most[0] = max(most[0], sum(map(held, family(pid))))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def family(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def held(pid: int) -> int:
    """Bytes of a process; memory that several share is split among them."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def printed(path: Path, most: float) -> Printed:
    """cuobjdump prints every instruction with one semicolon, and nothing else with any."""
    tool = Tools.find().cuobjdump
    if tool is None:
        raise SystemExit("cuobjdump is not here: pip install 'validator[sass]'")
    start = time.perf_counter()
    instructions = 0
    # In a session of its own: it starts nvdisasm, which has to end with it.
    with subprocess.Popen(
        [str(tool), "-sass", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        assert process.stdout is not None
        stop = threading.Timer(most, os.killpg, (process.pid, signal.SIGKILL))
        stop.start()
        while chunk := process.stdout.read1(1 << 20):
            instructions += chunk.count(b";")
        ended = process.wait() == 0
        stop.cancel()
    return Printed(time.perf_counter() - start, ended, instructions)


class Drawn(NamedTuple):
    """Kernels of a library, lowered and audited one after the other."""

    kernels: int
    instructions: int
    seconds: dict[str, float]
    """Step → processor time, that of the disassembler included."""
    printing: float
    """Processor time of nvdisasm for as many instructions, from the cubins that the kernels are from."""


def drawn(path: Path, count: int, most: int = 4) -> Drawn:
    """`count` kernels of the library, the same ones each time; nvdisasm prints at most `most` of their cubins."""
    cubins = [p for p in find_binaries(path, path.name, Tools.find()) if isinstance(p, Found) and p.kind == "cubin"]
    places = [
        (number, place)
        for number, piece in enumerate(cubins)
        for place, kernel in enumerate(Cubin(piece.data, "cubin", piece.arch).kernels())
        if Cubin(piece.data, "cubin", piece.arch).sm >= 90 and kernel.code
    ]
    chosen = sorted(random.Random(0).sample(places, min(count, len(places))))
    looked: list[Looked] = []
    for number in sorted({n for n, _ in chosen}):
        piece, mine = cubins[number], tuple(p for n, p in chosen if n == number)
        looked += open_portion(Portion(piece.artifact, piece.data, piece.arch, mine))
    seconds = {"disassembling and lowering": 0.0, "analyses and rules": 0.0}
    contract = KernelContract(match="*", launch=Launch(pdl=True))
    start = spent()
    for item in lower(looked, Tools.find()):
        lowered = spent()
        seconds["disassembling and lowering"] += lowered - start
        if not isinstance(item, Skipped) and item.program is not None:
            audit_program(item.program, contract, artifact=item.artifact, demangled=item.demangled)
        start = spent()
        seconds["analyses and rules"] += start - lowered
    instructions = sum(item.scan.instructions for item in looked)
    return Drawn(len(looked), instructions, seconds, printing([cubins[n] for n, _ in chosen][:most]) * instructions)


def printing(cubins: Sequence[Found]) -> float:
    """Processor seconds that nvdisasm takes for one instruction of these cubins."""
    tool = Tools.find().nvdisasm
    if tool is None:
        raise SystemExit("nvdisasm is not here: pip install 'validator[sass]'")
    instructions, start, quiet = 0, spent(), subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder:
        for piece in cubins:
            file = Path(folder) / "one.cubin"
            file.write_bytes(piece.data)
            subprocess.run([str(tool), str(file)], stdout=quiet, stderr=quiet, check=True, timeout=600)
            instructions += sum(section.size // 16 for section in Cubin(piece.data, "cubin").code_sections)
    return (spent() - start) / instructions


def spent() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# -- report ----------------------------------------------------------------------------------------------------------


def report_audits(path: Path, jobs: int) -> Run:
    with tempfile.TemporaryDirectory() as results:
        cold, warm = (audit(path, jobs, Path(results)) for _ in range(2))
    said = cold.said
    print(f"  {said['kernels']} kernels, {said['skipped']} skipped, {said['unknown']} unknown opcodes")
    for what in ("status", "architectures"):
        print("  " + ", ".join(f"{n} {k}" for k, n in sorted(Counter(said[what]).items())))
    print(f"  audit, empty cache: {cold.seconds:.1f} s, {cold.memory / 1e9:.2f} GB in all processes")
    print(f"  audit, full cache:  {warm.seconds:.1f} s, 1/{cold.seconds / warm.seconds:.0f} of it")
    if warm.said["status"] != said["status"]:
        print("  the two runs differ")
    return cold


def report_sizes(archives: list[Path], jobs: int) -> None:
    for path in archives:
        run = audit(path, jobs)
        kernels = int(str(run.said["kernels"]))
        print(
            f"  {path.stem:>7} of the cubins: {kernels} kernels in {run.seconds:.1f} s, {kernels / run.seconds:.0f}/s"
        )


def report_printing(path: Path, seconds: float, instructions: int, cold: Run) -> None:
    done = printed(path, seconds)
    share = done.instructions / instructions if instructions else 0.0
    if done.ended:
        print(f"  cuobjdump -sass: {done.seconds:.0f} s; the audit takes 1/{done.seconds / cold.seconds:.1f} of it")
        return
    print(f"  cuobjdump -sass: stopped after {done.seconds:.0f} s, {share:.1%} of {instructions} instructions printed")
    print(f"  bound: the audit takes less than 1/{done.seconds / cold.seconds:.1f} of it")
    if share:
        whole = done.seconds / share
        print(f"  estimate, at the same speed to its end: {whole:.0f} s, the audit 1/{whole / cold.seconds:.0f} of it")


def report_drawn(path: Path, count: int) -> None:
    found = drawn(path, count)
    print(f"  {found.kernels} kernels drawn, {found.instructions} instructions, everything lowered, processor time:")
    for step, seconds in found.seconds.items():
        print(f"    {step}: {seconds:.1f} s, {seconds / found.kernels * 1000:.0f} ms a kernel")
    total = sum(found.seconds.values())
    print(
        f"    nvdisasm, as many instructions: {found.printing:.1f} s; the audit {total / found.printing:.1f} times that"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--wheel", default="sgl-kernel")
    parser.add_argument("--library", default="*/sm90/common_ops*.so", metavar="GLOB")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "validator-bench")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--drawn", type=int, default=0, metavar="N", help="kernels that are lowered; nothing else is run"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.file or library(download(options.wheel, options.folder), options.library, options.folder)
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {os.cpu_count()} cores, {options.jobs} processes")
    if options.drawn:
        report_drawn(path, options.drawn)
        return
    cold = report_audits(path, options.jobs)
    with tempfile.TemporaryDirectory() as folder:
        archives, instructions = parts(path, Path(folder))
        report_sizes(archives, options.jobs)
    report_printing(path, options.seconds, instructions, cold)


if __name__ == "__main__":
    main()
