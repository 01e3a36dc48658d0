"""One instruction that orders something is taken out of a recorded kernel: every time, a run here shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.gpu.kernels.recorded import Recorded, recorded
from validator.emulate.adversary import draw_plan
from validator.emulate.hazard import HazardKind
from validator.emulate.launch import prepare, with_arrays
from validator.emulate.play import Report, play
from validator.emulate.run import compile_kernel, execute, find_kernel
from validator.gpu.launch import NotLaunchable
from validator.manifest.load import load_contract
from validator.manifest.matching import match_contract
from validator.ordering.ptx import read_ptx

FIXTURES = Path(__file__).parents[2] / "fixtures/emulate"
KERNELS = {kernel.name: kernel for kernel in recorded()}
RACE, NOT_WAITED, PROXY = HazardKind.RACE, HazardKind.COPY_NOT_WAITED, HazardKind.PROXY
PASSED = (r"mbarrier\.try_wait[\w.:]*\s+(\w+)[^;]*;", r"setp.eq.u32 \1, 0, 0;")
FAULTS = [
    ("nvcc/rmsnorm", r"bar\.sync\s+0;", 0, "", RACE),
    ("nvcc/gated_delta", r"bar\.sync\s+0;", 0, "", RACE),
    ("nvcc/gated_delta", r"bar\.sync\s+0;", 2, "", RACE),
    ("nvcc/gemv", r"membar\.gl;", 0, "", RACE),
    ("nvcc/gemv", r"membar\.gl;", 1, "", RACE),
    ("nvcc/look_back", r"st\.release\.gpu", 0, "st.relaxed.gpu", RACE),
    ("nvcc/look_back", r"ld\.acquire\.gpu", 0, "ld.relaxed.gpu", RACE),
    ("nvcc/collectives", r"bar\.sync\s+0;", 1, "", RACE),
    ("nvcc/mma_tile", r"cp\.async\.wait_group 0;", 2, "", NOT_WAITED),
    ("nvcc/mma_tile", r"bar\.sync\s+0;", 0, "", RACE),
    ("nvcc/tma_copy", r"bar\.sync\s+0;", 0, "", RACE),
    ("nvcc/tma_copy", r"fence\.proxy\.async[\w.:]*;", 0, "", PROXY),
    ("nvcc/tma_copy", r"cp\.async\.bulk\.wait_group\s+0;", 0, "", NOT_WAITED),
    ("nvcc/bulk_ring", r"bar\.sync\s+0;", 0, "", RACE),
    ("nvcc/bulk_ring", PASSED[0], 0, PASSED[1], RACE),
    ("nvcc/bulk_ring", PASSED[0], 1, PASSED[1], HazardKind.LIVELOCK),
    ("nvcc/cluster_sum", r"barrier\.cluster\.wait;", 0, "", RACE),
    ("nvcc/cluster_sum", r"barrier\.cluster\.wait;", 1, "", RACE),
    ("cutedsl/tma_copy", PASSED[0], 0, PASSED[1], NOT_WAITED),
    ("triton/softmax", r"bar\.sync\s+0;", 0, "", RACE),
]
"""Kernel, pattern, which of its places, replacement, hazard."""


def planted(kernel: Recorded, pattern: str, place: int, replacement: str) -> bytes:
    text = kernel.image.decode()
    match = list(re.finditer(pattern, text))[place]
    return (text[: match.start()] + match.expand(replacement) + text[match.end() :]).encode()


@pytest.mark.parametrize(
    ("name", "pattern", "place", "replacement", "kind"), FAULTS, ids=[f"{f[0]}-{f[1][:12]}-{f[2]}" for f in FAULTS]
)
def test_a_planted_fault_shows_as_its_hazard(name, pattern, place, replacement, kind):
    kernel = KERNELS[name]
    image = planted(kernel, pattern, place, replacement)
    program = find_kernel(read_ptx(image, name))
    prepared = prepare(program, kernel.contract)
    assert not isinstance(prepared, NotLaunchable)
    code, filled = compile_kernel(program, image), with_arrays(prepared, kernel.contents("before"))
    plans = (draw_plan(0, number, True, filled.late) for number in range(10))
    assert any(h.kind is kind and not h.unsettled for plan in plans for h in execute(code, filled, plan).hazards)


def split_sum(name: str) -> Report:
    image = (FIXTURES / "kernels.sm_90a.ptx").read_bytes()
    contracts, _ = load_contract((FIXTURES / "splitk.toml").read_bytes(), "splitk.toml")
    program = find_kernel(read_ptx(image, name), name)
    contract = match_contract(contracts, name)
    assert contract is not None
    prepared = prepare(program, contract)
    assert not isinstance(prepared, NotLaunchable)
    return play(compile_kernel(program, image), prepared, schedules=6)


def test_partial_sums_that_nothing_publishes_come_too_late() -> None:
    assert not split_sum("splitk_gemv").hazards
    report = split_sum("splitk_unfenced")
    assert "partial" in {h.memory for h in report.hazards if h.kind is RACE}
    assert [d.buffer for d in report.differences] == ["y"], "the wrong sum beside the name"


def test_a_thread_that_triggers_and_leaves_without_a_wait_is_named() -> None:
    image = (FIXTURES / "pipelines.sm_90a.ptx").read_bytes().replace(b"griddepcontrol.wait;", b"")
    contracts, _ = load_contract((FIXTURES / "pipelines.toml").read_bytes(), "pipelines.toml")
    program = find_kernel(read_ptx(image, "pipelines"), "persistent")
    contract = match_contract(contracts, "persistent")
    assert contract is not None
    prepared = prepare(program, contract)
    assert not isinstance(prepared, NotLaunchable)
    report = play(compile_kernel(program, image), prepared, schedules=2)
    assert HazardKind.LEAVES_WITHOUT_WAIT in {h.kind for h in report.hazards}
