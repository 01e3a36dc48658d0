"""PTX that ships: what the driver will make of it is open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from validator.ordering.ahead import SHIP_MACHINE_CODE, compiled_later
from validator.ordering.program import Isa
from validator.ordering.result import KernelAudit
from validator.verdict.model import Status

PTX = KernelAudit("k", "k", "lib.so!1.sm_90.ptx", Isa.PTX, "sm_90", Status.PROVEN, (), wait_count=1)
CODE = replace(PTX, artifact="lib.so!1.sm_90.cubin", isa=Isa.SASS)


def own(arch, artifact="lib.so!1.ptx"):
    return replace(PTX, arch=arch, artifact=artifact)


@pytest.mark.parametrize(
    ("kernels", "open_"),
    [
        ((PTX,), True),
        ((PTX, CODE), True),  # hardware that follows gets its code from the PTX
        ((own("sm_90a"), replace(CODE, arch="sm_90a")), False),  # runs nowhere else, and its code is there
        ((own("sm_90a"), replace(CODE, arch="sm_100a")), True),
        ((own("sm_90a"), replace(CODE, arch="sm_90a", name="other")), True),
        ((own("sm_90a"), replace(CODE, arch="sm_90a", artifact="other.so!1.cubin")), True),
        ((own("sm_90", "build/k.ptx"),), False),  # named on its own: what is asked for is the PTX
        ((replace(PTX, wait_count=0),), False),  # nothing to move across
        ((replace(PTX, status=Status.REFUTED),), False),  # worse is known
    ],
)
def test_ptx_without_machine_code_for_all_that_may_run_it(kernels, open_):
    found = list(compiled_later(kernels))
    assert [s.fix for s in found] == ([SHIP_MACHINE_CODE] if open_ else [])


def test_one_entry_a_file_and_architecture_with_the_true_number():
    kernels = [replace(PTX, name=f"k{n}", arch=arch) for n in range(3) for arch in ("sm_90", "sm_100")]
    found = list(compiled_later(kernels))
    assert [s.artifact for s in found] == ["lib.so", "lib.so"]
    assert ["sm_100 of 3 kernels" in found[0].reason, "sm_90 of 3 kernels" in found[1].reason] == [True, True]
