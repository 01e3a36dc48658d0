"""A kernel to be run on a CPU: PTX and the contract that says its launch run for a moment, or are refused in words."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES, joined, parts, told
from validator.emulate.adversary import FRIENDLY, draw_plan
from validator.emulate.launch import Prepared, prepare
from validator.emulate.machine import Limits
from validator.emulate.run import compile_kernel, execute
from validator.errors import ValidatorError
from validator.gpu.launch import Recipe
from validator.manifest.load import load_contract
from validator.manifest.matching import match_contract
from validator.ordering.ptx import PtxError, read_ptx

MODULES = ("validator.emulate", "validator.gpu.launch", "validator.manifest.load")
_LIMITS = Limits(100_000, 2000)
_RECIPE = Recipe(size=1 << 14, window=1 << 10)


def seeds() -> Iterator[bytes]:
    files = sorted((FIXTURES / "ordering" / "patterns").glob("*/sm_90a.ptx"), key=lambda file: file.stat().st_size)
    for file in files[:40]:
        yield joined((file.parent / "contract.toml").read_bytes(), file.read_bytes())


def one(data: bytes) -> None:
    contract, code = parts(data, 2)
    try:
        contracts, _ = load_contract(contract, "contract.toml")
        for program in read_ptx(code, "fuzz.ptx").programs[:2]:
            found = match_contract(contracts, program.name)
            prepared = found and prepare(program, found, _RECIPE)
            if isinstance(prepared, Prepared):
                translated = compile_kernel(program, code)
                for plan in (FRIENDLY, draw_plan(1, 4, True)):
                    assert execute(translated, prepared, plan, _LIMITS).steps <= _LIMITS.segments + 2
    except PtxError:
        return
    except ValidatorError as error:
        told(error)
