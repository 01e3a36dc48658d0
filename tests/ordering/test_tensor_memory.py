"""Loads and stores of tensor memory: what counts as their end, in PTX and in machine code."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.manifest.load import load_contract
from validator.ordering.artifacts import audit_artifacts
from validator.ordering.result import KernelAudit

FIXTURES = Path(__file__).parents[2] / "fixtures/ordering"
RULE = "order/tensor-memory-not-waited"
LOAD, STORE = FIXTURES / "rules/tensor-memory-not-waited/good", FIXTURES / "patterns/tensor-store-handed-over"
FENCE, NOP = 0x3C6, 0x918
_LDTM = 0x9EE


def audited(folder: Path, name: str, data: bytes) -> KernelAudit:
    kernels, steps = load_contract((folder / "contract.toml").read_bytes(), "contract.toml")
    (kernel,) = audit_artifacts([(name, data)], kernels, steps).kernels
    return kernel


def found(kernel: KernelAudit) -> list[tuple[str, str]]:
    return [(f.severity.value, f.message) for f in kernel.findings if f.rule == RULE]


@pytest.mark.parametrize(
    ("folder", "wait"), [(LOAD, "tcgen05.wait::ld.sync.aligned;"), (STORE, "tcgen05.wait::st.sync.aligned;")]
)
def test_a_wait_taken_out_of_the_ptx_is_missed(folder: Path, wait: str):
    text = (folder / "sm_100a.ptx").read_text()
    assert text.count(wait) == 1
    assert not found(audited(folder, "kernel.ptx", text.encode()))
    kernel = audited(folder, "kernel.ptx", text.replace(wait, "").encode())
    assert "error" in dict(found(kernel))
    assert kernel.status.value == "refuted"


def test_a_loaded_register_used_before_the_wait_is_a_warning_in_ptx():
    text = (LOAD / "sm_100a.ptx").read_text()
    wait = "tcgen05.wait::ld.sync.aligned;"
    at = text.index("st.global", text.index(wait))
    sums = text.index("add.", text.index(wait))
    assert text.index(wait) < sums < at
    # The wait moved behind the arithmetic; the arrival stands before it, and so is told as well.
    moved = text[: text.index(wait)] + text[text.index(wait) + len(wait) : at] + wait + "\n\t" + text[at:]
    severities = [severity for severity, _ in found(audited(LOAD, "kernel.ptx", moved.encode()))]
    assert sorted(severities) == ["error", "warning"]


def _words(data: bytes, code: int) -> list[int]:
    """Offsets of the instructions of a number, in a file whose code is aligned to 16 bytes."""
    return [at for at in range(0, len(data) - 15, 16) if int.from_bytes(data[at : at + 8], "little") & 0xFFF == code]


@pytest.mark.sass
def test_a_fence_taken_out_of_the_machine_code_is_missed(disassembled: None):
    data = bytearray((STORE / "sm_100a.cubin").read_bytes())
    assert not found(audited(STORE, "kernel.cubin", bytes(data)))
    for at in _words(bytes(data), FENCE):
        low, high = (int.from_bytes(data[k : k + 8], "little") for k in (at, at + 8))
        data[at : at + 16] = ((low & 0xF000) | NOP).to_bytes(8, "little") + (high >> 41 << 41).to_bytes(8, "little")
    assert "error" in dict(found(audited(STORE, "kernel.cubin", bytes(data))))


@pytest.mark.sass
def test_a_load_that_nothing_waits_for_is_missed(disassembled: None):
    """The bits by which instructions behind the load wait for its scoreboard, cleared."""
    data = bytearray((LOAD / "sm_100a.cubin").read_bytes())
    (load,) = _words(bytes(data), _LDTM)
    board = int.from_bytes(data[load + 8 : load + 16], "little") >> 46 & 7
    for at in range(load + 16, load + 16 * 12, 16):
        high = int.from_bytes(data[at + 8 : at + 16], "little") & ~(1 << 52 + board)
        data[at + 8 : at + 16] = high.to_bytes(8, "little")
    assert "error" in dict(found(audited(LOAD, "kernel.cubin", bytes(data))))
