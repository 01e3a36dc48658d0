"""The adversarial neighbour, played out without a GPU: who is named, and who is left in peace."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from validator.gpu import neighbour
from validator.gpu.driver import Function, Parameters
from validator.gpu.launch import Launchable, Recipe, plan_launch
from validator.gpu.neighbour import DELAYS_US, Observation, Trial, observe
from validator.manifest.contract import Argument, KernelContract, Launch

EVERY = len(DELAYS_US)

RECIPE = Recipe(size=256, window=64)
ARGUMENTS = ("out", "x", "w", "flag")
ROLES = ("output", "activation", "weight", "flag")


@dataclass(frozen=True)
class At:
    offset: int
    size: int = 8


@pytest.fixture
def seen(device, played) -> Callable[..., Observation]:
    """Runs a kernel `out = x ^ w` whose memory accesses happen where the test says."""

    def run(early: Any = None, late: Any = None, pdl: bool = True, flag: bool = False) -> Observation:
        count = 4 if flag else 3
        args = [{"name": n, "role": r} for n, r in zip(ARGUMENTS[:count], ROLES[:count], strict=True)]
        if flag:
            args[1]["guarded_by"] = "flag"
        contract = KernelContract(match="k", args=tuple(Argument(**a) for a in args), launch=Launch(pdl=pdl))
        plan = plan_launch(contract, [At(8 * i) for i in range(count)], RECIPE)
        assert isinstance(plan, Launchable)
        steps = {"early": early, "late": late}
        device.kernels["k"] = played(**{k: step for k, step in steps.items() if step is not None})
        return observe(device, Function("k", "k"), plan, launches=30)

    return run


class Work:
    """The halves of one kernel; what the first half loaded is kept in registers."""

    def load(self, *names: str) -> Callable[..., None]:
        def step(device: Any, parameters: Parameters) -> None:
            for name in names:
                setattr(self, name, device.read(self._address(parameters, name), 32))

        return step

    def store(self, device: Any, parameters: Parameters) -> None:
        mixed = bytes(a ^ b for a, b in zip(self.x, self.w, strict=True))  # type: ignore[attr-defined]
        device.write(self._address(parameters, "out"), mixed)

    @staticmethod
    def _address(parameters: Parameters, name: str) -> int:
        address: int = struct.unpack_from("<Q", parameters.block, 8 * ARGUMENTS.index(name))[0]
        return address


def both(*steps: Callable[..., None]) -> Callable[..., None]:
    def step(device: Any, parameters: Parameters) -> None:
        for one in steps:
            one(device, parameters)

    return step


def test_a_kernel_that_waits_is_left_in_peace(seen, device):
    work = Work()
    result = seen(early=work.load("w"), late=both(work.load("x"), work.store))
    assert not result.shown
    assert result.repeatable
    assert result.arguments == ()
    assert result.blind == ()
    assert [t.wrong for t in (*result.late_producer, *result.late_reader)] == [0] * 2 * EVERY
    assert result.chain is not None
    assert (result.chain.wrong, result.chain.overlapped) == (0, 0)
    assert device.gates == 2 * (1 + EVERY + 2 + EVERY + 1)


def test_an_early_read_is_shown_and_named(seen):
    work = Work()
    result = seen(early=work.load("w", "x"), late=work.store)
    assert result.shown
    assert result.arguments == ("x",)
    assert [t.wrong for t in result.late_producer] == [30] * EVERY
    assert result.late_producer[0].buffers == {"out": 30}
    assert {t.arguments: t.wrong for t in result.by_argument} == {("out",): 0, ("x",): 30}
    assert not any(t.wrong for t in result.late_reader)
    assert result.least_delay_us == 0


def test_an_early_write_is_seen_by_the_late_reader(seen):
    work = Work()

    def scribble(device: Any, parameters: Parameters) -> None:
        device.write(work._address(parameters, "out"), bytes(16))

    result = seen(early=scribble, late=both(work.load("x", "w"), work.store))
    assert result.shown
    assert result.arguments == ("out",)
    assert [t.buffers for t in result.late_reader] == [{"out": 30}] * EVERY
    assert not any(t.wrong for t in result.late_producer), "the store after the wait makes it good again"


def test_a_kernel_that_never_waits_breaks_the_chain(seen):
    work = Work()
    result = seen(early=both(work.load("x", "w"), work.store))
    assert result.arguments == ("out", "x")
    assert result.chain is not None
    assert (result.chain.wrong, result.chain.overlapped) == (30, 30)


def test_without_the_attribute_nothing_is_early(seen):
    work = Work()
    result = seen(early=both(work.load("x", "w"), work.store), pdl=False)
    assert not result.shown
    assert result.late_reader == ()
    assert result.chain is None


def test_data_behind_a_flag_comes_late_together_with_its_flag(seen):
    work = Work()
    polled = seen(early=work.load("w"), late=both(work.load("x"), work.store), pdl=False, flag=True)
    hoisted = seen(early=work.load("x", "w"), late=work.store, pdl=False, flag=True)
    assert not polled.shown
    assert [t.arguments for t in polled.by_argument] == [("x", "flag"), ("flag",)]
    assert [t.arguments for t in polled.publisher] == [("x", "flag")] * EVERY
    assert [t.wrong for t in hoisted.publisher] == [30] * EVERY
    assert hoisted.arguments == ("x",)


def test_a_mailbox_is_empty_until_it_is_published(device, played):
    args = (Argument(name="out", role="output"), Argument(name="x", role="mailbox", empty=1 << 31))
    plan = plan_launch(KernelContract(match="k", args=args), [At(0), At(8)], RECIPE)
    assert isinstance(plan, Launchable)
    assert plan.buffers[1].values[1][:8] == struct.pack("<II", 1 << 31, 1 << 31)
    assert plan.buffers[1].values[0] != plan.buffers[1].values[1]
    seen: list[bytes] = []

    def take(device: Any, parameters: Parameters) -> None:
        out, x = struct.unpack("<QQ", parameters.block)
        seen.append(device.read(x, 16))
        device.write(out, seen[-1])

    device.kernels["k"] = played(early=take)
    hasty = observe(device, Function("k", "k"), plan, launches=30)
    assert hasty.shown
    assert hasty.arguments == ("x",)
    assert [t.wrong for t in hasty.publisher] == [30] * EVERY
    device.kernels["k"] = played(late=take)
    assert not observe(device, Function("k", "k"), plan, launches=30).shown


def test_an_argument_that_reaches_no_result_is_said_to_be_blind(seen):
    def store(device: Any, parameters: Parameters) -> None:
        device.write(Work._address(parameters, "out"), bytes(16))

    assert seen(late=store).blind == ("x",)


def test_a_kernel_that_does_not_repeat_itself_proves_nothing(seen):
    calls = iter(range(10**6))

    def store(device: Any, parameters: Parameters) -> None:
        device.write(Work._address(parameters, "out"), struct.pack("<Q", next(calls)))

    result = seen(late=store)
    assert result.control.wrong == 30
    assert not result.shown


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_the_stored_ptx_is_made_from_the_source(tmp_path: Path):
    folder = Path(neighbour.__file__).parent
    made = tmp_path / "neighbour.ptx"
    command = ["nvcc", "-std=c++17", "-arch=compute_90", "-ptx", str(folder / "neighbour.cu"), "-o", str(made)]
    subprocess.run(command, check=True, timeout=120)

    def code(path: Path) -> list[str]:
        # Another toolkit allocates registers differently: entries and what they call on must agree.
        lines = (line.strip() for line in path.read_text().splitlines())
        return [
            line for line in lines if line.startswith((".visible .entry", ".param", "griddepcontrol", "st.release"))
        ]

    assert code(made) == code(folder / "neighbour.ptx")


def test_what_a_kernel_publishes_itself_comes_from_nobody_else(device, played):
    """`out` is guarded by the flag that the kernel sets behind it: no producer writes it late."""
    args = (
        Argument(name="out", role="output", guarded_by="flag"),
        Argument(name="x", role="activation"),
        Argument(name="flag", role="flag"),
    )
    plan = plan_launch(KernelContract(match="k", args=args, launch=Launch(pdl=False)), [At(0), At(8), At(16)], RECIPE)
    assert isinstance(plan, Launchable)

    def publish(device: Any, parameters: Parameters) -> None:
        out, x, _ = struct.unpack("<QQQ", parameters.block)
        device.write(out, device.read(x, 16))

    device.kernels["k"] = played(early=publish)
    result = observe(device, Function("k", "k"), plan, launches=30)
    assert not result.shown
    assert [t.arguments for t in result.by_argument] == [("flag",)]


@pytest.mark.parametrize(("settled", "shown"), [((), True), (("x",), False)])
def test_what_a_step_settles_is_never_late(device, played, settled: tuple[str, ...], shown: bool):
    args = (Argument(name="out", role="output"), Argument(name="x", role="activation"))
    contract = KernelContract(match="k", args=args, launch=Launch(pdl=True))
    plan = plan_launch(contract, [At(0), At(8)], RECIPE)
    assert isinstance(plan, Launchable)
    kept: list[bytes] = []

    def read(device: Any, parameters: Parameters) -> None:
        kept.append(device.read(struct.unpack("<QQ", parameters.block)[1], 16))

    def store(device: Any, parameters: Parameters) -> None:
        device.write(struct.unpack("<QQ", parameters.block)[0], kept[-1])

    device.kernels["k"] = played(early=read, late=store)
    result = observe(device, Function("k", "k"), plan, launches=30, settled=settled)
    assert result.shown is shown


def test_what_only_another_order_of_publishing_shows_is_named_by_it():
    quiet, torn = Trial(("inbox",), 100, 200, 0), Trial(("inbox",), 5, 200, 50)
    seen = Observation(quiet, (quiet,), (quiet,), (), None, (quiet, torn), ())
    assert (seen.shown, seen.arguments, seen.least_delay_us) == (True, ("inbox",), 5)
    named = Observation(quiet, (quiet,), (Trial(("x",), 100, 200, 200),), (), None, (torn,), ())
    assert named.arguments == ("x",)
