"""Manifests, and what is made of one that is accepted: sizes, cases, matching; or errors that say all, and where."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES, small, told
from validator.differential.cases import cases
from validator.differential.shapes import Space
from validator.errors import ValidatorError
from validator.manifest.load import load_contract, load_manifest

MODULES = ("validator.manifest", "validator.tables", "validator.positions", "validator.differential.shapes")


def seeds() -> Iterator[bytes]:
    yield from small(FIXTURES.rglob("rfcs/*.toml"), 12)
    yield from small((FIXTURES / "ordering").rglob("contract.toml"), 8)
    text = (FIXTURES / "differential" / "contracts.toml").read_bytes()
    head, *kernels = text.split(b"[[kernels]]")
    yield from (head + b"[[kernels]]" + kernel for kernel in kernels[:12])


def one(data: bytes) -> None:
    contracts = ()
    for load in (load_manifest, load_contract):
        try:
            loaded = load(data, "fuzz.toml")
        except ValidatorError as error:
            told(error)
            continue
        contracts = loaded.kernels if load is load_manifest else loaded[0]  # type: ignore[union-attr,index]
    for contract in contracts[:4]:
        assert isinstance(contract.matches("kernel", "ns::kernel(float*)"), bool)
        if contract.candidate is None or contract.reference is None:
            continue
        try:
            space = Space(contract)
            for case in cases(contract, 1, 1)[:40]:
                assert space.elements(dict(case.dims)) >= 0
        except ValidatorError as error:
            told(error, where=False)
