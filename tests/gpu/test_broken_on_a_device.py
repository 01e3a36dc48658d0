"""A kernel that a device does not survive (illegal address, trap, assertion, endless loop) costs its own case alone."""

from __future__ import annotations

import pytest

from fixtures.gpu.differential import FOLDER
from validator.differential.cases import Case
from validator.differential.device import Device
from validator.differential.errors import DifferentialError
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.manifest.load import load_contract
from validator.run.sandbox import Limits

pytestmark = pytest.mark.gpu

CONTRACT = """
schema = "validator/manifest/1"
[[kernels]]
match = "double"
reference = "stock:double"
trusted = "torch"
HOW
dims = ["N in 1..2000000"]
args = [
    { name = "x", role = "activation", dtype = "float32", shape = ["N"] },
    { name = "out", role = "output", dtype = "float32", shape = ["N"] },
MORE]
"""
COMPILED = """compiled = { artifact = "kernels/breaks.cu", kernel = "NAME" }
launch = { grid = ["ceil_div(N, 128)"], block = [128] }"""
NUMBER = '    { name = "n", role = "scalar", dtype = "int32", value = "N", model = false },\n'
SIZES = (40, 45, 45, 48, 53, 64)
"""Each with so many elements more: small, and so large that the gate shares the memory."""
SAID = dict.fromkeys(("writes_far", "traps", "asserts"), "device-error") | {"spins": "hang", "refused": "error"}
KERNELS = ("right", "writes_far", "traps", "spins")
FUNCTIONS = ("right", "asserts", "spins", "refused")
RUNS = [("compiled", name) for name in KERNELS] + [("torch", name) for name in FUNCTIONS]


@pytest.mark.parametrize("more", [0, 1 << 20], ids=["small", "large"])
@pytest.mark.parametrize(("how", "name"), RUNS)
def test_what_breaks_a_device_fails_by_itself(how: str, name: str, more: int):
    table = COMPILED.replace("NAME", name) if how == "compiled" else f'torch = "breaks:{name}"'
    text = CONTRACT.replace("HOW", table).replace("MORE", NUMBER if how == "compiled" else "")
    (contract,), _ = load_contract(text.encode(), "contract.toml")
    trees = Trees(FOLDER / "head", FOLDER / "base")
    try:
        with runner_for(contract, trees, Limits(wall=4), device=Device.CUDA) as runner:
            cases = [Case("double", (("N", more + size),), seed) for seed, size in enumerate(SIZES)]
            results = [run_case(runner, case).result for case in cases]
            usable = runner.candidate.elsewhere is not None and runner.candidate.elsewhere.usable
    except DifferentialError as error:
        pytest.skip(str(error))
    due = ["failed" if name != "right" and size % 8 == 5 else "passed" for size in SIZES]
    assert [r.status for r in results] == due, [f.message for r in results for f in r.faults]
    faults = [fault for result in results for fault in result.faults]
    assert {str(fault.figures["outcome"]) for fault in faults} == ({SAID[name]} if name in SAID else set())
    if name in ("writes_far", "traps", "asserts"):
        assert all(fault.message.startswith("the candidate failed on the device: ") for fault in faults)
    assert usable, "what breaks a worker's use of the device does not break the gate's"
