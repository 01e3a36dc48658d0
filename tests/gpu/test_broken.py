"""A device that fails under a candidate costs the call that did it; one that fails under the gate costs no case at all.

Played here: an adapter whose "kernel" breaks its process for good, as a fault of a kernel does a CUDA context. The real
thing is in `test_broken_on_a_device.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validator.differential.engine import run_cases, run_kernel
from validator.differential.faults import FaultKind
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.errors import Problem
from validator.gpu.driver import DeviceError
from validator.manifest.load import load_contract
from validator.run.adapters import ADAPTERS
from validator.run.outcome import Outcome
from validator.run.sandbox import Worker
from validator.run.worker import _sibling

PLAYED = """
import importlib


class DeviceBroken(Exception):
    pass


def load(target, tree, options):
    module, _, name = target.partition(":")
    function, broken = getattr(importlib.import_module(module), name), []

    def called(*args):
        if broken or function(*args) == "falls":
            broken.append(True)
            raise DeviceBroken("CUDA error: an illegal memory access was encountered")
        return None

    return called
"""
CALLED = """
def double(x, out):
    out[...] = 2 * x

def falls(x, out):
    out[...] = 2 * x
    return "falls" if len(x) % 8 == 5 else None

def raises(x, out):
    out[...] = 2 * x
    if len(x) % 8 == 5:
        raise RuntimeError("too much shared memory")
"""
CONTRACT = """
schema = "validator/manifest/1"
[[kernels]]
match = "double"
reference = "called:double"
candidate = "called:double"
dims = ["N in 1..60"]
args = [
    { name = "x", role = "activation", dtype = "float32", shape = ["N"] },
    { name = "out", role = "output", dtype = "float32", shape = ["N"] },
]
"""


@contextmanager
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> Iterator[Runner]:
    """A runner whose candidate is called by the played adapter."""
    (tmp_path / "packages/played_device").mkdir(parents=True)
    (tmp_path / "packages/played_device/__init__.py").write_text("")
    (tmp_path / "packages/played_device/adapter.py").write_text(PLAYED)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/called.py").write_text(CALLED)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    numpy = ADAPTERS["numpy"]
    adapter = replace(numpy, module="played_device.adapter", libraries=(*numpy.libraries, "played_device"))
    (contract,), _ = load_contract(CONTRACT.encode(), "contract.toml")
    trees = Trees(tmp_path / "tree", tmp_path / "tree")
    with (
        runner_for(contract, trees) as runner,
        Worker(f"called:{function}", trees.head, runner.candidate.limits, adapter=adapter) as worker,
    ):
        yield replace(runner, candidate=worker)


def test_the_case_that_broke_it_fails_and_the_others_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with running(tmp_path, monkeypatch, "falls") as runner:
        result = run_kernel(runner, 7, 24)
    failed, passed = result.of("failed"), result.of("passed")
    assert failed
    assert {dict(r.case.dims)["N"] % 8 for r in failed} == {5}
    assert 5 not in {dict(r.case.dims)["N"] % 8 for r in passed}
    assert len(passed) > len(failed)
    assert {fault.kind for r in failed for fault in r.faults} == {FaultKind.WORKER}
    (fault,) = failed[0].faults
    assert fault.message == "the candidate failed on the device: CUDA error: an illegal memory access was encountered"
    assert fault.figures["outcome"] == Outcome.DEVICE
    assert {dict(r.case.dims)["N"] for r in result.shrunk.values()} == {5}, "the smallest that breaks it by itself"


def test_what_only_raises_is_asked_again_in_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with running(tmp_path, monkeypatch, "raises") as runner:
        planned = [c for c in run_kernel(runner, 7, 24).planned if dict(c.dims)["N"] % 8 == 5]
        before = runner.candidate.starts
        result = run_cases(runner, tuple(planned))
        assert {f.figures["outcome"] for r in result.of("failed") for f in r.faults} == {Outcome.ERROR}
        assert runner.candidate.starts <= before + 1


class FailingShelf:
    """A device that fails the gate itself when it is first asked for a buffer."""

    least, usable, asked, closed, held = 0, True, 0, 0, 0

    def region(self, slot: int, length: int, beside: int | None = None) -> Any:
        self.asked += 1
        raise DeviceError(Problem("cuMemCreate failed with CUDA_ERROR_ILLEGAL_ADDRESS"))

    def probe(self) -> Any:
        return self.region(0, 0)

    def news(self, *, everything: bool) -> list[Any]:
        return []

    def expect(self, *parts: Any, once: bool) -> None:
        pass

    def knows(self, result: Any) -> None:
        pass

    def refuse(self, why: str) -> None:
        self.usable, self.why = False, why

    def doubt(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("function", "status"), [("double", {"passed"}), ("falls", {"passed", "failed"})])
def test_what_fails_under_the_gate_is_given_up_and_no_case_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, status: set[str]
):
    with running(tmp_path, monkeypatch, function) as runner:
        shelf: Any = FailingShelf()
        runner.candidate.elsewhere = shelf
        result = run_kernel(runner, 7, 24)
    assert (shelf.asked, shelf.usable, shelf.closed) == (1, False, 1)
    assert shelf.why == "cuMemCreate failed with CUDA_ERROR_ILLEGAL_ADDRESS"
    assert len(result.results) == len(result.planned)
    assert status <= {r.status for r in result.results} <= {*status, "void", "degenerate"}
    assert not [r for r in result.results if r.unusable]


@pytest.mark.parametrize("broken", [True, False])
def test_an_error_of_torch_breaks_the_process_where_the_device_keeps_it(monkeypatch: pytest.MonkeyPatch, broken: bool):
    torch = pytest.importorskip("torch")
    module: Any = _sibling("torch", "adapters")

    def synchronize() -> None:
        if broken:
            raise RuntimeError("CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert'")

    on_cpu = SimpleNamespace(**vars(torch))
    on_cpu.cuda = SimpleNamespace(Stream=object, synchronize=synchronize, mem_get_info=lambda: (0, 4000))
    monkeypatch.setitem(vars(module), "torch", on_cpu)
    monkeypatch.setattr(module, "_CUDA", on_cpu.cuda)
    function = module._OnDevice(lambda: None, timed=False)
    monkeypatch.setattr(function, "_made", lambda given, before: (_ for _ in ()).throw(ValueError("of its own")))
    if broken:
        with pytest.raises(module.DeviceBroken, match=r"^CUDA error: device-side assert triggered$"):
            function()
    else:
        with pytest.raises(ValueError, match="of its own"):
            function()
