"""How long each format of a very large result takes, how large it is, and the peak memory of rendering it alone.

    python tests/benchmarks/bench_report.py [--kernels 200] [--cases 10000] [--findings 1000]

Each format in a process of its own that reads the result from a bundle, as `validator report` does. The page has limits
(5 s, 500 MB, 3 MB), which `tests/report/test_page_size.py` holds; the other figures are for comparison.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from validator.report.formats import FORMATS

_CODE = """
import resource, sys, time
from pathlib import Path
from validator.report.formats import render
from validator.report.reading import read_result
start = time.perf_counter()
result = read_result(Path(sys.argv[1]))
read = time.perf_counter()
text = render(result, sys.argv[2])
end = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"{read - start:.2f} {end - read:.2f} {len(text.encode()) / 1e6:.2f} {peak}")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("kernels", 200), ("cases", 10_000), ("findings", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=count)
    asked = parser.parse_args()
    from tests.report.large import large_result
    from validator.report.bundle import save_bundle

    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder, "bundle")
        start = time.perf_counter()
        save_bundle(large_result(asked.kernels, asked.cases, asked.findings), bundle)
        print(f"bundle written in {time.perf_counter() - start:.2f} s")
        print(f"{'format':<10}{'read s':>8}{'render s':>10}{'MB':>8}{'peak MB':>9}")
        for kind in FORMATS:
            done = subprocess.run(
                [sys.executable, "-c", _CODE, str(bundle), kind], capture_output=True, text=True, check=True
            )
            read, render, size, peak = done.stdout.split()
            print(f"{kind:<10}{read:>8}{render:>10}{size:>8}{peak:>9}")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
