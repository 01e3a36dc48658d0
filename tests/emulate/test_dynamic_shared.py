"""Dynamic shared memory of which the contract says no bytes: what leaves a made-up size settles nothing."""

from __future__ import annotations

import tomllib

import pytest

from tests.emulate.support import source
from validator.emulate.hazard import HazardKind
from validator.emulate.launch import Prepared, prepare
from validator.emulate.play import play
from validator.emulate.run import compile_kernel
from validator.manifest.contract import KernelContract
from validator.ordering.ptx import read_ptx

DYNAMIC = ".extern .shared .align 16 .b8 pool[];\n"
STATIC = ".shared .align 16 .b8 pool[256];\n"
BODY = "mov.u32 %r5, pool;\nmov.u32 %r6, 7;\nst.shared.u32 [%r5+{at}], %r6;\nld.shared.u32 %r7, [%r5+{at}];"


@pytest.mark.parametrize(
    ("pool", "launch", "at", "verdict"),
    [
        (DYNAMIC, "", 100_000, "quiet"),  # room is ample where nobody said how much there is
        (DYNAMIC, "", 230_000, "open"),
        (DYNAMIC, "shared = 4096", 4092, "quiet"),
        (DYNAMIC, "shared = 4096", 4096, "refuted"),
        (STATIC, "", 256, "refuted"),
    ],
)
def test_what_lies_beyond_shared_memory(pool: str, launch: str, at: int, verdict: str) -> None:
    data = source(BODY.format(at=at), ["u64"], before=pool)
    (program,) = read_ptx(data, "k.ptx").programs
    text = f'match = "k"\nlaunch = {{ pdl = false, grid = [1], block = [1]{launch and ", " + launch} }}\n'
    text += 'args = [{ name = "out", role = "output", dtype = "float32", shape = [4] }]'
    prepared = prepare(program, KernelContract.model_validate(tomllib.loads(text)))
    assert isinstance(prepared, Prepared)
    report = play(compile_kernel(program, data), prepared, 1, 1)
    found = [h for h in report.hazards if h.kind is HazardKind.OUT_OF_BOUNDS]
    assert bool(found) is (verdict != "quiet")
    assert report.refuted is (verdict == "refuted")
    assert all("gives no `shared`" in h.assumed for h in found) or verdict == "refuted"
