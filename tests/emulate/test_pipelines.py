"""Kernels that synchronise in the ways people do: right and silent as they are, a hazard with one thing broken.

`VALIDATOR_SCHEDULES=200` runs as many schedules for each right kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from validator.emulate.adversary import FRIENDLY, draw_plan
from validator.emulate.hazard import HazardKind
from validator.emulate.launch import Prepared, prepare
from validator.emulate.play import play
from validator.emulate.run import compile_kernel, execute, find_kernel
from validator.emulate.translate import Code
from validator.manifest.load import load_contract
from validator.manifest.matching import match_contract
from validator.ordering.ptx import read_ptx

FOLDER = Path(__file__).parents[2] / "fixtures/emulate"
CONTRACTS, _ = load_contract((FOLDER / "pipelines.toml").read_bytes(), "pipelines.toml")
IMAGE = (FOLDER / "pipelines.sm_90a.ptx").read_text()
SCHEDULES = int(os.environ.get("VALIDATOR_SCHEDULES", "4"))
NAMES = [contract.match for contract in CONTRACTS]
RACE, NOT_WAITED, PROXY = HazardKind.RACE, HazardKind.COPY_NOT_WAITED, HazardKind.PROXY
LIVELOCK, DEADLOCK, EARLY = HazardKind.LIVELOCK, HazardKind.DEADLOCK, HazardKind.EARLY_READ


def body_of(name: str) -> tuple[str, str]:
    """What stands before the kernel in the file, and the file from there on up to its end."""
    start = IMAGE.index(f".entry {name}(")
    end = IMAGE.find(".visible .entry", start)
    return IMAGE[:start], IMAGE[start : end if end >= 0 else len(IMAGE)]


def prepared_for(name: str, image: str) -> tuple[Prepared, Code]:
    data = image.encode()
    program = find_kernel(read_ptx(data, f"{name}.ptx"), name)
    contract = match_contract(CONTRACTS, name)
    assert contract is not None
    prepared = prepare(program, contract)
    assert isinstance(prepared, Prepared), prepared
    return prepared, compile_kernel(program, data)


def head_of(name: str) -> str:
    """The file with this kernel alone."""
    before, own = body_of(name)
    return IMAGE[: IMAGE.index(".visible .entry")] + ".visible " + own if before else own


@pytest.mark.parametrize("name", NAMES)
def test_right_kernels_show_nothing(name: str) -> None:
    prepared, code = prepared_for(name, head_of(name))
    report = play(code, prepared, seed=3, schedules=SCHEDULES)
    assert not report.unsupported
    assert [str(h) for h in report.hazards] == []


Arrays = dict[str, np.ndarray]


def f32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


def scanned(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x & 0xFF, dtype=np.uint32)


def in_turn(x: np.ndarray) -> np.ndarray:
    total = np.zeros(64, np.float32)
    for row in x.reshape(6, 64):
        total = total * np.float32(0.5) + row
    return total


def transposed(x: np.ndarray) -> np.ndarray:
    """stmatrix .x4.trans as the ISA says it: element (r, c) of matrix i, which thread 4r + c/2 holds, goes to row c."""
    halves = x.view(np.uint16).reshape(4, 8, 4, 2).reshape(4, 8, 8)
    return np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint32).ravel()


def ring(x: np.ndarray) -> np.ndarray:
    return x.reshape(5, 96)[:, (np.arange(32, 128) * 7) % 96].sum(0)


def half_warps(x: np.ndarray) -> np.ndarray:
    t = np.arange(16)
    return np.concatenate([x[15 - t] + x[t ^ 1], 2 * x[31 - t] - x[(t + 16) ^ 2]])


EXPECTED: dict[str, Callable[[Arrays], np.ndarray]] = {
    "tile_sums": lambda a: a["x"].reshape(4, 1000).sum(1),
    "grid_meeting": lambda a: np.roll(a["x"] * 2, -64) + 1,
    "ring": lambda a: ring(a["x"]),
    "bulk_feed": lambda a: a["x"].reshape(7, 128).sum(0),
    "last_block": lambda a: a["x"].sum(keepdims=True),
    "last_block_fenced": lambda a: a["x"].reshape(4, 64).sum(0),
    "in_turn": lambda a: in_turn(a["x"]),
    "multistage": lambda a: a["x"].reshape(9, 128)[:, (np.arange(128) * 5) % 128].sum(0),
    "gathered": lambda a: a["x"].reshape(2, 128).sum(1),
    "histogram": lambda a: a["counts"] + np.bincount(a["keys"] & 63, minlength=64),
    "packed_scan": lambda a: scanned(a["x"]),
    "ping_pong": lambda a: a["x"].reshape(5, 64)[:, ::-1].sum(0),
    "half_warps": lambda a: half_warps(a["x"]),
    "sent": lambda a: a["x"].reshape(2, 2, 32)[:, 1, ::-1].ravel(),
    "counted": lambda a: (a["x"] & 0xFFFF).reshape(2, 2, 32).sum(1)[:, ::-1].ravel(),
    "persistent": lambda a: (a["x"].reshape(10, 64) * a["w"]).ravel(),
    "shared_tile": lambda a: (
        np.repeat(a["x"].reshape(2, 2, 64)[:, 0, ::-1], 2, axis=0) + np.array([[0], [1], [0], [1]])
    ).ravel(),
    "swizzled": lambda a: a["map"].reshape(8, 4, 32).transpose(1, 0, 2).ravel(),
    "bulk_add": lambda a: a["out"] + (a["x"] & 0xFFFF).reshape(4, 64).sum(0),
    "laid_down": lambda a: transposed(a["x"]),
    "neighbours": lambda a: a["x"].reshape(4, 4, 32)[[1, 0, 3, 2]].sum(1)[:, ::-1].ravel(),
}


@pytest.mark.parametrize("name", NAMES)
def test_right_kernels_compute_what_the_isa_says(name: str) -> None:
    prepared, code = prepared_for(name, head_of(name))
    outcome = execute(code, prepared, FRIENDLY)
    kinds = {n: v.dtype[0] for n, (_, v) in prepared.contract.values.items() if v.dtype}
    arrays = {b.name: np.frombuffer(b.values[0], kinds[b.name])[: b.extent // np.dtype(kinds[b.name]).itemsize]
              for b in prepared.launchable.buffers}  # fmt: skip
    written = "counts" if name == "histogram" else "out"
    got, expected = outcome.results[written].view(kinds[written]), EXPECTED[name](arrays)
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, f32(expected), rtol=2e-5)
    else:
        assert (got == expected).all()


BAR, TRY = r"bar\.sync\s+0;", r"mbarrier\.try_wait[\w.:]*\s+(\w+)[^;]*;"
PASSED = r"setp.eq.u32 \1, 0, 0;"
CLUSTER = r"barrier\.cluster\.arrive(\.aligned)?;\s*(//[^\n]*\s*)*barrier\.cluster\.wait(\.aligned)?;"
PARITY, INIT = r"(try_wait[\w.:]*\s+\w+,\s*\[%\w+\]),\s*%\w+;", r"(mbarrier\.init[\w.:]*\s+\[%\w+\]),\s*%\w+;"
Broken = tuple[str, str, int, str, HazardKind]
DROPPED: list[Broken] = [
    ("tile_sums", r"barrier\.sync\s+0;", 0, "", RACE),
    ("grid_meeting", r"membar\.gl;|fence\.acq_rel\.gpu;", 0, "", RACE),
    ("grid_meeting", r"membar\.gl;|fence\.acq_rel\.gpu;", 1, "", RACE),
    ("grid_meeting", BAR, 0, "", RACE),
    ("grid_meeting", BAR, 1, "", RACE),
    ("ring", r"mbarrier\.arrive\.[^;]*;", 0, "", LIVELOCK),
    ("ring", r"mbarrier\.arrive\.[^;]*;", 1, "", LIVELOCK),
    ("ring", BAR, 0, "", RACE),
    ("bulk_feed", r"griddepcontrol\.wait;", 0, "", HazardKind.EARLY_COPY),
    ("bulk_feed", r"bar\.warp\.sync[^;]*;", 0, "", RACE),
    ("last_block", BAR, 0, "", RACE),
    ("last_block", BAR, 1, "", RACE),
    ("last_block_fenced", r"membar\.gl;|fence\.[^;]*;", 0, "", RACE),
    ("last_block_fenced", r"membar\.gl;|fence\.[^;]*;", 1, "", RACE),
    ("last_block_fenced", BAR, 0, "", RACE),
    ("in_turn", BAR, 0, "", RACE),
    ("in_turn", BAR, 1, "", RACE),
    ("multistage", BAR, 0, "", RACE),
    ("gathered", r"barrier\.cluster\.wait;", 0, "", RACE),
    ("gathered", r"barrier\.cluster\.wait;", 1, "", RACE),
    ("histogram", BAR, 0, "", RACE),
    ("histogram", BAR, 1, "", RACE),
    ("packed_scan", BAR, 0, "", RACE),
    ("ping_pong", r"bar\.sync 2, 128;", 1, "", RACE),
    ("ping_pong", r"bar\.sync 1, 128;", 0, "", RACE),
    ("half_warps", r"bar\.warp\.sync[^;]*;", 0, "", RACE),
    ("half_warps", r"bar\.warp\.sync[^;]*;", 1, "", RACE),
    ("sent", CLUSTER, 0, "", RACE),
    ("persistent", BAR, 0, "", RACE),
    ("persistent", BAR, 1, "", RACE),
    ("persistent", r"griddepcontrol\.wait;", 0, "", EARLY),
    ("swizzled", BAR, 0, "", RACE),
    ("bulk_add", r"fence\.proxy\.async;", 0, "", PROXY),
    ("bulk_add", BAR, 0, "", RACE),
    ("bulk_add", r"cp\.async\.bulk\.wait_group 0;", 0, "", NOT_WAITED),
    ("laid_down", r"bar\.warp\.sync[^;]*;", 0, "", RACE),
]
"""An instruction that orders something is gone."""
WEAKENED: list[Broken] = [
    ("last_block", r"atom\.add\.acq_rel", 0, "atom.add.relaxed", RACE),
    ("last_block_fenced", r"membar\.gl", 0, "membar.cta", RACE),
    ("in_turn", r"ld\.acquire", 0, "ld.relaxed", RACE),
    ("in_turn", r"st\.release", 0, "st.relaxed", RACE),
    ("in_turn", r"st\.release\.gpu", 0, "st.release.cta", RACE),
    ("packed_scan", r"st\.relaxed\.gpu", 1, "st", RACE),
    ("neighbours", r"arrive\.release", 0, "arrive.relaxed", RACE),
    ("neighbours", r"arrive\.release", 1, "arrive.relaxed", RACE),
    ("neighbours", r"parity\.acquire", 0, "parity.relaxed", RACE),
    ("multistage", r"wait_group 2;", 0, "wait_group 3;", NOT_WAITED),
]
MISTAKEN: list[Broken] = [
    ("ring", TRY, 0, PASSED, RACE),
    ("ring", TRY, 1, PASSED, RACE),
    ("ring", PARITY, 1, r"\1, 1;", LIVELOCK),
    ("ring", PARITY, 0, r"\1, 0;", LIVELOCK),
    ("ring", INIT, 0, r"\1, 31;", RACE),
    ("ring", INIT, 0, r"\1, 33;", LIVELOCK),
    ("bulk_feed", TRY, 0, PASSED, LIVELOCK),
    ("bulk_feed", TRY, 1, PASSED, NOT_WAITED),
    ("bulk_feed", r"arrive\.expect_tx([\w.:]*)( t, \[%\w+\]), %\w+;", 0, r"arrive\1\2;", NOT_WAITED),
    ("ping_pong", r"bar\.arrive 1,", 0, "bar.arrive 3,", DEADLOCK),
    ("ping_pong", r"bar\.sync 1, 128", 0, "bar.sync 1, 64", RACE),
    ("sent", TRY, 0, PASSED, NOT_WAITED),
    ("sent", r"(arrive\.expect_tx[\w.:]* t, \[%\w+\]), %\w+;", 0, r"\1, 64;", NOT_WAITED),
    ("counted", TRY, 0, PASSED, NOT_WAITED),
    ("shared_tile", TRY, 0, PASSED, NOT_WAITED),
    ("shared_tile", r", %rs1;", 0, ", 1;", LIVELOCK),
    ("swizzled", TRY, 0, PASSED, NOT_WAITED),
    ("neighbours", TRY, 0, PASSED, RACE),
    ("neighbours", TRY, 1, PASSED, RACE),
]
"""Phase, count, mask or number of a barrier is wrong."""
FAULTS = [*DROPPED, *WEAKENED, *MISTAKEN]


@pytest.mark.parametrize(
    ("name", "pattern", "place", "replacement", "kind"), FAULTS, ids=[f"{f[0]}-{n}" for n, f in enumerate(FAULTS)]
)
def test_one_thing_broken_is_shown(name: str, pattern: str, place: int, replacement: str, kind: HazardKind) -> None:
    image = head_of(name)
    match = list(re.finditer(pattern, image))[place]
    prepared, code = prepared_for(name, image[: match.start()] + match.expand(replacement) + image[match.end() :])
    plans = (draw_plan(3, number, True, prepared.late) for number in range(6))
    seen = (hazard.kind for plan in plans for hazard in execute(code, prepared, plan).hazards)
    assert any(found is kind for found in seen)
