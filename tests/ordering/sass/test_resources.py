"""Registers, stack and shared memory of a kernel are what NVIDIA's own tool says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from validator.binary.elf import Cubin
from validator.binary.tools import Tools

FIXTURES = Path(__file__).parents[3] / "fixtures"
CUBINS = sorted((FIXTURES / "demo").rglob("*.cubin")) + sorted((FIXTURES / "ordering").rglob("*.cubin"))[:12]
_USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")


@pytest.mark.sass
@pytest.mark.parametrize("path", CUBINS, ids=lambda p: p.name)
def test_what_a_kernel_takes(path: Path) -> None:
    tool = Tools.find().cuobjdump
    if tool is None:
        pytest.skip("no cuobjdump: install the [sass] extra")
    done = subprocess.run([tool, "-res-usage", path], capture_output=True, text=True, check=True, timeout=60)
    cubin = Cubin(path.read_bytes(), path.name)
    said = {m[1]: tuple(map(int, m.groups()[1:])) for m in _USAGE.finditer(done.stdout)}
    assert said
    for kernel, figures in said.items():
        known = cubin.resources(kernel)
        assert (known["registers"], known["stack bytes"], known["shared bytes"]) == figures


def test_a_kernel_that_is_not_there_takes_nothing() -> None:
    assert CUBINS
    assert Cubin(CUBINS[0].read_bytes(), "k").resources("nobody") == {"shared bytes": 0}
