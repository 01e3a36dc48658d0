"""On a real GPU: early reads show, hangs and illegal accesses cost one case. Elsewhere skipped, with the reason."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from validator.gpu.watched import Watched

WORKER = """
import tomllib
from fixtures.gpu.labelled import ARCH, CORPUS, run_case
from fixtures.ordering.labels import contract_of
from validator.gpu.driver import NotHere, open_device
from validator.gpu.launch import plan_launch
from validator.gpu.neighbour import observe
from validator.gpu.watched import serve
from validator.manifest.contract import Domain, Role
from validator.binary.elf import Cubin

device = open_device()

def answer(asked):
    if isinstance(device, NotHere):
        return {"not_here": str(device)}
    name, argument, value = asked
    if argument is None:
        return run_case(device, CORPUS / name)
    # The same kernel under a contract that lies about one argument's values.
    contract = contract_of(tomllib.loads((CORPUS / name / "case.toml").read_text()))
    args = tuple(
        a.model_copy(update={"role": Role.INDEX, "domain": Domain(values=(value,))}) if a.name == argument else a
        for a in contract.args
    )
    image = (CORPUS / name / f"{ARCH}.cubin").read_bytes()
    (kernel,) = Cubin(image, name).kernels()
    plan = plan_launch(contract.model_copy(update={"args": args}), kernel.parameters, block_size=kernel.block_size)
    observe(device, device.function(image, kernel.name), plan, launches=20)
    return {"survived": True}

serve(answer)
"""

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def worker():
    with Watched([sys.executable, "-c", WORKER], seconds=20) as watched:
        said = watched.ask(["h01_ok", None, None])
        if "not_here" in said:
            pytest.skip(said["not_here"])
        yield watched


def ask(worker: Watched, name: str, argument: str | None = None, value: float | None = None) -> Any:
    return worker.ask([name, argument, value])


def test_a_load_that_ptxas_moved_is_shown_and_its_fixed_twin_is_not(worker):
    bad, fixed = ask(worker, "h07_bad"), ask(worker, "h07_ok")
    assert (bad["shown"], bad["arguments"]) == (True, ["act"])
    assert bad["ordinary"] == 0
    assert not fixed["shown"]
    assert fixed["blind"] == []


def test_a_kernel_that_spins_for_ever_costs_one_case(worker):
    assert ask(worker, "h15_bad", "flag", 0) == {"failed": "no answer within 20 s: the worker was ended"}
    assert not ask(worker, "h01_ok")["shown"]


def test_an_illegal_access_costs_one_case(worker):
    said = ask(worker, "h23_ok", "ctr", 1 << 24)
    assert "CUDA_ERROR_" in said.get("failed", ""), said
    assert not ask(worker, "h01_ok")["shown"]
