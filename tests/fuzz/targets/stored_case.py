"""Stored cases: one that fits its contract can be built, any other is a `DifferentialError` or outside."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from tests.fuzz.targets.common import FIXTURES, told
from validator.differential.cases import build, case_text, cases, load_case, nameable, values_of
from validator.differential.corpus import fits, split
from validator.differential.errors import DifferentialError
from validator.differential.pinned import elements
from validator.manifest.contract import KernelContract

MODULES = ("validator.differential.cases", "validator.differential.corpus", "validator.differential.shapes",
           "validator.differential.inputs", "validator.differential.pinned", "validator.differential.case",
           "validator.differential.arguments")  # fmt: skip


@cache
def _contracts() -> dict[str, KernelContract]:
    tables = tomllib.loads((FIXTURES / "differential" / "contracts.toml").read_text())["kernels"]
    return {table["match"]: KernelContract.model_validate(table) for table in tables}


def seeds() -> Iterator[bytes]:
    for contract in _contracts().values():
        made = cases(contract, 1, 6)[::5]
        yield from (case_text(case).encode() for case in made)
        for case in made[:2]:
            named = {
                name: elements(fill, values_of(contract, case, name)) for name, fill in nameable(contract, case).items()
            }
            yield case_text(replace(case, pinned=tuple(named.items()))).encode()


def one(data: bytes) -> None:
    try:
        case = load_case(data.decode("utf-8", "replace"), "fuzz.json")
    except DifferentialError as error:
        told(error, where=False)
        return
    assert len(case.id) == 12
    assert case.words()
    contract = _contracts().get(case.kernel)
    if contract is None:
        return
    allowed, outside = split(contract, [case])
    assert len(allowed) + len(outside) == 1
    if fits(contract, case):
        build(contract, case)
        assert load_case(case_text(case), "again").id == case.id
