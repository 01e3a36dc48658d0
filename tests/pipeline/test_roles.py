"""Roles over recorded steps, on torch's CPU tensors: what is fixed, what changes, what is another step."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validator.cli import command_line as command
from validator.manifest.contract import KernelContract, Step, StepLaunch
from validator.manifest.load import load_contract
from validator.pipeline import roles
from validator.pipeline.roles import NotRecorded, difference, record
from validator.run.sandbox import Outcome
from validator.verdict.model import Status

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

CONTRACTS = """
schema = "validator/manifest/1"
[[kernels]]
match = "norm"
torch = "kernels:norm"
reference = "kernels:norm"
trusted = "torch"
launch = { pdl = true }
dims = ["D in 1..64"]
args = [
    { name = "x", role = "activation", dtype = "bfloat16", shape = ["D"] },
    { name = "w", role = "weight", dtype = "bfloat16", shape = ["D"] },
    { name = "h", role = "output", dtype = "bfloat16", shape = ["D"] },
]
[[kernels]]
match = "mix"
torch = "kernels:mix"
reference = "kernels:mix"
trusted = "torch"
dims = ["D in 1..64"]
args = [
    { name = "h", role = "activation", dtype = "bfloat16", shape = ["D"] },
    { name = "bias", role = "stable", justification = "made once", dtype = "bfloat16", shape = ["D"] },
    { name = "y", role = "output", dtype = "bfloat16", shape = ["D"] },
]
"""
KERNELS = """
def norm(x, w, h):
    h.copy_(x * w)
def mix(h, bias, y):
    y.copy_(h + bias)
"""
CALLER = """
import torch
from kernels import mix, norm
def values(n): return torch.full((16,), float(n), dtype=torch.bfloat16)
x, w, h, y, bias = map(values, range(5))
count = 0
def step():
    x.add_(1)
    norm(x, w=w, h=h)
    mix(h, bias, y)
def wrong():
    x.add_(1)
    norm(x, w, h)
    mix(bias.clone(), h, y)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in (("kernels.py", KERNELS), ("caller.py", CALLER), ("contracts.toml", CONTRACTS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def contracts() -> tuple[KernelContract, ...]:
    return load_contract(CONTRACTS.encode(), "contracts.toml")[0]


DECLARED = Step(
    name="decode",
    run="caller:step",
    launches=(
        StepLaunch(kernel="norm", args={"x": "x", "w": "w", "h": "h"}),
        StepLaunch(kernel="mix", args={"h": "h", "bias": "bias", "y": "y"}),
    ),
)


def settled(tree: Path, step: Step) -> Any:
    (obligation,) = (result := roles._settled(contracts(), step, tree, "cpu")).obligations
    return obligation, result.findings


@needs_torch
def test_a_step_is_recorded_and_its_table_says_which_buffer_is_which(tree: Path, capfd: pytest.CaptureFixture[str]):
    words = ["record", "--manifest", str(tree / "contracts.toml"), "--tree", str(tree), "--device", "cpu"]
    assert command([*words, "--run", "caller:step"]) == 0
    told, table = capfd.readouterr().out.split("\n\n")
    assert told == "PROVEN 2 fixed buffers stayed"
    (step,) = load_contract(f'schema = "validator/manifest/1"\n{table}'.encode(), "step")[1]
    assert [launch.kernel for launch in step.launches] == ["norm", "mix"]
    assert step.launches[0].args["h"] == step.launches[1].args["h"] == "h"
    assert step.launches[0].pdl is True
    assert difference(DECLARED, step) == ""


@needs_torch
def test_what_is_not_fixed_is_refuted_with_the_launch(tree: Path):
    """`bias` of mix is what norm writes: its contents change, in the same memory."""
    obligation, (finding,) = settled(tree, DECLARED.model_copy(update={"run": "caller:wrong"}))
    assert obligation.status is Status.REFUTED
    assert "bias of mix is declared `stable`, and launch 1 of step 2 (norm) changed its contents" in obligation.reason
    assert (finding.rule, finding.where.path) == ("gpu/changing-role", "caller.py")


FOREIGN = (
    b'{"launches": [{"kernel": "norm", "step": 0, "number": 0, "pdl": true, "arguments": [["q", "weight", 0, 8]], '
    b'"digests": []}], "first": []}'
)


class Answers:
    """A worker that gives what it was told to."""

    def __init__(self, outcome: Outcome, data: bytes = b"", detail: str = "") -> None:
        result = SimpleNamespace(data=(data,)) if outcome is Outcome.OK else None
        self.reply = SimpleNamespace(outcome=outcome, result=result, detail=detail)

    def __call__(self, *args: Any, **keys: Any) -> Any:
        return nullcontext(SimpleNamespace(call=lambda call: self.reply))


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        (Answers(Outcome.OK, b'{"launches": [], "first": []}'), "called none of kernels:norm, kernels:mix"),
        (Answers(Outcome.OK, b'{"launches": [{}], "first": []}'), "no recording"),
        (Answers(Outcome.OK, FOREIGN), "kernels or arguments that nobody declared"),
        (Answers(Outcome.OK, b"\xff["), "caller:step: "),
        (Answers(Outcome.ERROR, detail="ValueError: no model here"), "no model here"),
        (Answers(Outcome.ABSENT, detail="torch finds no CUDA device"), "not run here: torch finds no CUDA device"),
        (Answers(Outcome.HANG, detail="no answer within 300 s"), "no answer within 300 s"),
    ],
)
def test_no_recording_is_no_pass(tree: Path, monkeypatch: pytest.MonkeyPatch, worker: Answers, words: str):
    monkeypatch.setattr(roles, "Worker", worker)
    monkeypatch.setattr(roles, "ADAPTERS", {"steps": SimpleNamespace(lacking=lambda: "")})
    obligation, _ = settled(tree, DECLARED)
    assert obligation.status is Status.UNPROVEN
    assert words in obligation.reason


def test_another_step_than_the_declared_one_is_named():
    first, second = DECLARED.launches
    assert difference(DECLARED, DECLARED) == ""
    assert "1 launches, 2 are declared" in difference(DECLARED, Step(name="s", launches=(first,)))
    assert "launch 1 is mix, norm is declared" in difference(DECLARED, Step(name="s", launches=(second, first)))
    apart = second.model_copy(update={"args": {**second.args, "h": "other"}})
    assert "h of launch 2 (mix) is another buffer" in difference(DECLARED, Step(name="s", launches=(first, apart)))
    joined = second.model_copy(update={"args": {**second.args, "y": "h"}})
    assert difference(DECLARED, Step(name="s", launches=(first, joined)))


def test_without_torch_or_without_a_watched_kernel_nothing_is_claimed(tree: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NotRecorded, match="nothing to watch"):
        record((KernelContract(match="k"),), tree, "caller:step", "cpu")
    monkeypatch.setattr(roles, "ADAPTERS", {"steps": SimpleNamespace(lacking=lambda: "torch is not installed")})
    with pytest.raises(NotRecorded, match="not run here: torch is not installed"):
        record(contracts(), tree, "caller:step", "cpu")
