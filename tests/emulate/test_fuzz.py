"""Kernels with damaged statements: they run, or say what is wrong with them; nothing else, and not for long."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest

from validator.emulate.adversary import FRIENDLY, draw_plan
from validator.emulate.launch import Prepared, prepare
from validator.emulate.machine import Limits
from validator.emulate.run import compile_kernel, execute
from validator.errors import ValidatorError
from validator.gpu.launch import Recipe
from validator.manifest.load import load_contract
from validator.manifest.matching import match_contract
from validator.ordering.ptx import read_ptx

FILES = sorted((Path(__file__).parents[2] / "fixtures/ordering/patterns").glob("*/sm_90a.ptx"))
TYPES = (".u8", ".b64", ".f32", ".f16", ".pred", ".b128")
NUMBERS = ("0", "-1", "4294967295", "99999999999", "7")


def damaged(text: str, rng: random.Random) -> bytes:
    """One to three statements lost, doubled, cut short, or with other registers, types or numbers."""
    lines = text.split("\n")
    body = [i for i, line in enumerate(lines) if line.strip().endswith(";") and not line.strip().startswith(".")]
    for _ in range(rng.randint(1, 3)):
        at = rng.choice(body)
        lines[at] = rng.choice(
            (
                lambda line: "",
                lambda line: lines[rng.choice(body)],
                lambda line: re.sub(r",[^,;]*;", ";", line),
                lambda line: re.sub(r"\.(u|s|b|f)\d+", rng.choice(TYPES), line, count=1),
                lambda line: re.sub(r"%(\w+?)\d+", lambda m: f"%{m[1]}{rng.randint(0, 9)}", line, count=1),
                lambda line: re.sub(r"\b\d+\b", rng.choice(NUMBERS), line, count=1),
            )
        )(lines[at])
    return "\n".join(lines).encode()


@pytest.mark.parametrize("seed", range(40))
def test_damaged_kernels_run_or_say_what_is_wrong(seed: int) -> None:
    rng = random.Random(seed)
    file = rng.choice(FILES)
    data = damaged(file.read_text(), rng)
    contracts, _ = load_contract((file.parent / "contract.toml").read_bytes(), "contract.toml")
    with contextlib.suppress(ValidatorError):
        for program in read_ptx(data, "damaged.ptx").programs:
            contract = match_contract(contracts, program.name)
            prepared = contract and prepare(program, contract, Recipe(size=1 << 16, window=1 << 12))
            if isinstance(prepared, Prepared):
                code = compile_kernel(program, data)
                for plan in (FRIENDLY, draw_plan(1, 4, True)):
                    outcome = execute(code, prepared, plan, Limits(300_000, 2000))
                    assert outcome.steps <= 2002
