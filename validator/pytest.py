"""The differential engine in a team's own tests: `pytest -p validator.pytest`, or `addopts` in its configuration.

    @validator.pytest.contract(match="scale", reference="stock.ops:scale", dims=["B in 1..4", "D in 1..64"], args=[...])
    def test_scale(differential):
        differential("fast.model:scale")

The candidate runs confined, in a process of its own, imported from pytest's root folder. `--validator-seed` repeats a
run; without it every run draws its own seed and prints it on failure. A profile of hypothesis that is loaded says how
many random cases there are (`max_examples`), and with `derandomize` a test has the same seed in every run. Safe under
xdist: nothing is shared or written.
"""

from __future__ import annotations

import secrets
import shlex
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from pydantic import ValidationError

from validator.differential.processes import Trees
from validator.differential.results import KernelResult
from validator.differential.session import run_contracts
from validator.differential.text import run_text
from validator.manifest.contract import KernelContract
from validator.verdict.model import Status

__all__ = ["Differential", "contract"]

_MARK = "validator_contract"
_CASES = 50
"""Random cases, where nobody has loaded a profile."""
_BUILT_IN = ("default", "ci")
"""Profiles that hypothesis loads by itself."""
_Test = TypeVar("_Test", bound=Callable[..., Any])


def contract(**table: Any) -> Callable[[_Test], _Test]:
    """Says what the kernel under test is, with the keys of a `[[kernels]]` table; wrong ones fail at collection."""
    _described(table, "@contract")

    def mark(test: _Test) -> _Test:
        marked: _Test = getattr(pytest.mark, _MARK)(table)(test)
        return marked

    return mark


def _described(table: dict[str, Any], where: str) -> KernelContract:
    """Fails with a sentence for each thing that is wrong."""
    try:
        return KernelContract.model_validate(table)
    except ValidationError as error:
        found = error.errors(include_url=False)
    told = "; ".join(
        f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}".removeprefix(": ") for e in found
    )
    pytest.fail(f"{where}: {told}", pytrace=False)


class Differential:
    """What the fixture hands to a test: call it with a candidate."""

    def __init__(self, table: dict[str, Any], root: Path, seed: int, node: str) -> None:
        self._table, self._root, self.seed, self._node = table, root, seed, node
        self.calls = 0

    def __call__(
        self,
        candidate: str | Callable[..., Any],
        *,
        tree: Path | str | None = None,
        base: Path | str | None = None,
        cases: int | None = None,
    ) -> KernelResult:
        """Run the candidate; fail the test unless it is right in every case.

        Args:
            candidate: `module:function`, or a function, which is imported again by its name.
            tree: folder it is imported from, below pytest's root folder. None: that folder.
            base: folder of the reference. None: the same as `tree`.
            cases: random ones. None: as many as the loaded profile of hypothesis says.
        """
        self.calls += 1
        head = self._root / (tree or "")
        trees = Trees(head, self._root / base if base else head)
        for folder in (trees.head, trees.base):
            if not folder.is_dir():
                pytest.fail(f"differential: no such folder: {folder}", pytrace=False)
        if cases is not None and cases < 0:
            pytest.fail(f"differential(cases={cases}): a number of cases is not negative", pytrace=False)
        described = _described({**self._table, "candidate": _target(candidate)}, f"differential({candidate!r})")
        ran = run_contracts([described], trees, self.seed, _cases() if cases is None else cases)
        ((_, result, stage),) = ran
        (obligation,) = stage.obligations
        if result is None or obligation.status is not Status.PROVEN:
            again = f"pytest {shlex.quote(self._node)} --validator-seed {self.seed}"
            pytest.fail(run_text(ran, obligation.status.value, again=again), pytrace=False)
        return result


def _cases() -> int:
    profile = settings.get_current_profile_name()
    return _CASES if profile in _BUILT_IN else settings.default.max_examples  # type: ignore[union-attr]


def _target(candidate: str | Callable[..., Any]) -> str:
    """`module:function` of a function."""
    if isinstance(candidate, str):
        return candidate
    return f"{getattr(candidate, '__module__', '')}:{getattr(candidate, '__qualname__', '')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--validator-seed", type=int, default=None, help="repeat a differential run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARK}(table): the kernel that a differential test is about")


@pytest.fixture
def differential(request: pytest.FixtureRequest) -> Differential:
    """The engine, for the contract that the test is marked with."""
    marker = request.node.get_closest_marker(_MARK)
    if marker is None:
        pytest.fail("the fixture `differential` needs `@validator.pytest.contract(...)` on the test", pytrace=False)
    seed = request.config.getoption("--validator-seed")
    if seed is None:
        steady = settings.default is not None and settings.default.derandomize
        seed = zlib.crc32(request.node.nodeid.encode()) if steady else secrets.randbits(32)
    return Differential(marker.args[0], request.config.rootpath, seed, request.node.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that ends well without having asked for any candidate shows nothing, and must not look as if it did."""
    yield
    engine = getattr(item, "funcargs", {}).get("differential")
    asks = isinstance(engine, Differential) or any(mark.name == _MARK for mark in item.own_markers)
    if asks and not (isinstance(engine, Differential) and engine.calls):
        pytest.fail("declares a contract and runs no candidate: call `differential(...)`", pytrace=False)
