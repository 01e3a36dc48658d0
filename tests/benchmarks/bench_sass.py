"""How long the audit of a compiled library takes and how much memory, beside `cuobjdump -sass` of the same file.

    python tests/benchmarks/bench_sass.py [--wheel sgl-kernel] [--cache DIR] [--library GLOB] [--seconds 1200]

Downloads a wheel of the package index by name (half a gigabyte, once, into the cache folder), audits one of its shared
libraries with an empty cache and again with a full one, then lets cuobjdump print the same library, for at most
`--seconds`. Reports figures and never passes or fails: times depend on the machine and on what else runs there, so the
ratios are the figures to compare. cuobjdump runs last and alone; a run that was cut off is a lower bound.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

AUDIT = """
import json, resource, sys
from collections import Counter
from pathlib import Path
from validator.ordering.artifacts import Artifact, audit_artifacts
path, cache = Path(sys.argv[1]), Path(sys.argv[2])
audit = audit_artifacts([Artifact(path.name, path=path)], (), cache=cache)
most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({
    "kernels": len(audit.kernels), "skipped": len(audit.skipped), "memory": most * 1024,
    "status": Counter(k.status.value for k in audit.kernels), "architectures": Counter(k.arch for k in audit.kernels),
    "unknown": sum(sum(k.unknown.values()) for k in audit.kernels),
}))
"""


class Run(NamedTuple):
    """One run of the audit."""

    seconds: float
    said: dict[str, object]


def download(name: str, folder: Path) -> Path:
    """The newest wheel of that name in `folder`, fetched if there is none."""
    found = sorted(folder.glob(f"{name.replace('-', '_')}-*.whl"))
    if not found:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
            str(folder),
            name,
        ]
        subprocess.run(command, check=True, timeout=3600)
        found = sorted(folder.glob(f"{name.replace('-', '_')}-*.whl"))
    return found[-1]


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


def audit(path: Path, cache: Path) -> Run:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", AUDIT, str(path), str(cache)], check=True, capture_output=True, text=True, timeout=3600
    )
    return Run(time.perf_counter() - start, json.loads(done.stdout))


def printed(path: Path, most: float) -> tuple[float, bool, int]:
    """Seconds that cuobjdump took, whether it came to its end, and the bytes it printed."""
    from validator.ordering.sass import Tools

    tool = Tools.find().cuobjdump
    if tool is None:
        raise SystemExit("cuobjdump is not here: pip install 'validator[sass]'")
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([str(tool), "-sass", str(path)], stdout=subprocess.PIPE)
        counter = subprocess.Popen(["wc", "-c"], stdin=process.stdout, stdout=out)
        try:
            process.wait(most)
            ended = True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended = False
        counter.wait()
        out.seek(0)
        size = int(out.read())
    return time.perf_counter() - start, ended, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", default="sgl-kernel")
    parser.add_argument("--library", default="*/sm90/common_ops*.so")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "validator-bench")
    parser.add_argument("--seconds", type=float, default=1200.0)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    path = library(download(options.wheel, options.cache), options.library, options.cache)
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as results:
        cold, warm = (audit(path, Path(results)) for _ in range(2))
    said = cold.said
    print(f"  {said['kernels']} kernels, {said['skipped']} skipped, {said['unknown']} unknown opcodes")
    for what in ("status", "architectures"):
        print("  " + ", ".join(f"{n} {k}" for k, n in sorted(Counter(said[what]).items())))
    print(f"  audit, empty cache: {cold.seconds:.1f} s, {int(str(said['memory'])) / 1e9:.2f} GB")
    print(f"  audit, full cache:  {warm.seconds:.1f} s, 1/{cold.seconds / warm.seconds:.0f} of it")
    if warm.said["status"] != said["status"]:
        print("  the two runs differ")
    seconds, ended, size = printed(path, options.seconds)
    more = "" if ended else " and was cut off"
    least = "" if ended else "less than "
    print(f"  cuobjdump -sass: {seconds:.0f} s{more}, {size / 1e6:.0f} MB of text")
    print(f"  the audit takes {least}1/{seconds / cold.seconds:.1f} of it")


if __name__ == "__main__":
    main()
