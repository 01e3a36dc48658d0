"""The page of a very large change stays small and quick, and has everything in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.large import large_result
from validator.report.bundle import save_bundle

_CODE = """
import resource, sys, time
from pathlib import Path
from validator.cli import command_line
start = time.process_time()
code = command_line(["report", sys.argv[1], "--format", "html"])
seconds = time.process_time() - start
print(code, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""


@pytest.mark.slow
def test_200_kernels_10000_cases_and_1000_findings(tmp_path: Path) -> None:
    """Limits: 5 s of one processor (whatever else runs on the machine), 500 MB, 3 MB."""
    save_bundle(large_result(), tmp_path / "b")
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(tmp_path / "b")], capture_output=True, check=True, timeout=120
    )
    code, seconds, peak = done.stderr.decode().split()
    page = done.stdout.decode()
    assert code == "0"
    assert float(seconds) < 5
    assert int(peak) < 500
    assert len(done.stdout) < 3_000_000
    assert page.count("<summary>Cases (50)</summary>") == 200
    assert page.count("<tr><td>") >= 10_000
    assert all(f"fused_decode_{k}</code>" in page for k in range(200))
    assert page.count('<code class="quiet">') == 1_000
