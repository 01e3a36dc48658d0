"""The small operators of `fixtures/differential`, and the engine over them."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.known_references import KnownReferences
from tests.support.warm_workers import WarmWorkers
from validator.differential.engine import run_kernel
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult, KernelResult
from validator.differential.rules import BY_FAULT
from validator.manifest.contract import KernelContract, Tolerance
from validator.run.sandbox import Limits

FIXTURES = Path(__file__).parents[2] / "fixtures" / "differential"
OVERLAY = Path(tempfile.mkdtemp())
"""The head tree: the base with the candidates laid over it, as a change brings them."""
for _tree in ("base", "head"):
    shutil.copytree(FIXTURES / _tree, OVERLAY, dirs_exist_ok=True)
atexit.register(shutil.rmtree, OVERLAY, ignore_errors=True)
TREES = Trees(OVERLAY, FIXTURES / "base")
LIMITS = Limits(wall=30, memory=2 << 30)
SEED = 20261129


@dataclass(frozen=True)
class Planted:
    """A candidate of the fixtures and what must come of it."""

    module: str
    name: str
    kernel: str
    found: str | None
    essential: str | None = None
    """A function that it names as doing its work."""

    @property
    def target(self) -> str:
        return f"ops.{self.module}:{self.name}"


def planted(module: str) -> list[Planted]:
    """Every candidate of a fixture module, by the comments above it."""
    source = (FIXTURES / "head" / "ops" / f"{module}.py").read_text()
    pattern = re.compile(r"^# kernel: (\w+)\n(?:# found: (\S+)\n)?(?:# essential: (\S+)\n)?def (\w+)\(", re.M)
    return [
        Planted(module, name, kernel, found or None, essential or None)
        for kernel, found, essential, name in pattern.findall(source)
    ]


def contract_of(kernel: str, target: str, essential: str | None = None) -> KernelContract:
    """The fixture contract of a kernel, with this candidate."""
    tables = tomllib.loads((FIXTURES / "contracts.toml").read_text())["kernels"]
    (table,) = (t for t in tables if t["match"] == kernel)
    more = {"essential": [essential]} if essential else {}
    return KernelContract.model_validate({**table, "candidate": target, **more})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `<module>_candidate` runs once for every candidate of that fixture module."""
    for name in metafunc.fixturenames:
        module = name.removesuffix("_candidate")
        if module != name:
            found = planted(module)
            metafunc.parametrize(name, found, ids=[p.name for p in found])


@pytest.fixture(scope="session")
def workers() -> Iterator[WarmWorkers]:
    """Workers that need not import numpy first."""
    warm = WarmWorkers()
    yield warm
    warm.close()


@pytest.fixture(autouse=True, scope="module")
def _warm(workers: WarmWorkers) -> Iterator[None]:
    """These tests are of what the engine makes of a worker's results: it starts hundreds of them."""
    with workers.used():
        yield


@pytest.fixture
def found_by_candidates() -> set[str]:
    """Rules that some candidate of the fixtures breaks."""
    return {p.found for module in ("planted", "cheats") for p in planted(module) if p.found}


@pytest.fixture
def under_tolerance() -> Callable[..., tuple[KernelContract, KernelResult]]:
    """Run a candidate of the fixtures under another tolerance than its contract's."""

    def run(kernel: str, candidate: str, tolerance: dict[str, Any]) -> tuple[KernelContract, KernelResult]:
        plain = contract_of(kernel, candidate)
        contract = plain.model_copy(update={"tolerance": Tolerance.model_validate(tolerance)})
        with runner_for(contract, TREES, LIMITS) as runner:
            return contract, run_kernel(runner, SEED, 5)

    return run


@pytest.fixture
def overlay() -> Path:
    """The head tree."""
    return OVERLAY


@pytest.fixture
def contract_for() -> Callable[[Planted], KernelContract]:
    """The contract of a candidate."""
    return lambda candidate: contract_of(candidate.kernel, candidate.target, candidate.essential)


@pytest.fixture(scope="session")
def references() -> KnownReferences:
    """What the references of the fixtures gave: dozens of candidates are compared with each."""
    return KnownReferences()


@pytest.fixture
def engine(references: KnownReferences) -> Callable[..., KernelResult]:
    """Run the engine on a candidate of the fixtures."""

    def run(candidate: Planted, *, seed: int = SEED, count: int = 24) -> KernelResult:
        """Up to the case that shows what has to be found, if anything has."""
        contract = contract_of(candidate.kernel, candidate.target, candidate.essential)

        def found(result: CaseResult) -> bool:
            return candidate.found in {BY_FAULT[fault.kind].id for fault in result.faults}

        with references.used(), runner_for(contract, TREES, LIMITS) as runner:
            return run_kernel(runner, seed, count, enough=found)

    return run


@pytest.fixture
def fixtures_of() -> Callable[[str], dict[str, Planted]]:
    """Candidates of a fixture module by name."""
    return lambda module: {p.name: p for p in planted(module)}
