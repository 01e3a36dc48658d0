"""The base's tests of the touched shared files, run over the head's code with the switch off and on, in a sandbox.

The head's tree is written out with the base's tests in it, so that a change cannot pass by editing its judge. They run
in the process of the code that they test: code that sets out to deceive them can, and the evidence says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from validator.change.model import Tree, read_many
from validator.run.adapters import Adapter
from validator.run.channel import Call
from validator.run.sandbox import Limits, Outcome, Worker
from validator.run.tree import write_tree

__all__ = ["Suite", "Tests"]

_ADAPTER = Adapter(
    "suite",
    "suite",
    libraries=("numpy", "ml_dtypes", "pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py"),
    optional=("hypothesis", "attr", "sortedcontainers", "pygments", "torch"),
)
_LIMITS = Limits(wall=300.0, cpu=300)
_MOST = 2_000
"""Tests of which the outcome is kept."""


@dataclass(frozen=True, slots=True)
class Tests:
    """How the test files ended in one tree."""

    outcomes: Mapping[str, str] = field(default_factory=dict)
    """Test → `passed`, `failed`, `skipped`; for a file that could not be collected, its last line → `error`."""
    problem: str = ""
    """Why nothing is known; untrusted text."""

    def of(self, outcome: str) -> tuple[str, ...]:
        """Tests that ended so."""
        return tuple(name for name, found in self.outcomes.items() if found == outcome)


class Suite:
    """Writes trees out once and runs the same files over them."""

    def __init__(self, workdir: Path, tests: Tree, files: Iterable[str]) -> None:
        """`tests`: the revision whose tests judge."""
        self._workdir = workdir
        self._tests = tests
        self._files = tuple(files)
        self._written: dict[str, Path] = {}

    def run(self, tree: Tree, judges: Iterable[str], environment: Mapping[str, str]) -> Tests:
        """The files over the code of `tree`. `judges`: every test file of the judging revision."""
        lacking = _ADAPTER.lacking()
        if lacking:
            return Tests(problem=lacking)
        folder = self._folder(tree, judges)
        with Worker("\n".join(self._files), folder, _LIMITS, adapter=_ADAPTER, options=environment) as worker:
            reply = worker.call(Call((), ()))
        if reply.outcome is not Outcome.OK or reply.result is None or len(reply.result.data) != 1:
            return Tests(problem=f"{reply.outcome.value}: {reply.detail[:300]}".rstrip(": "))
        return Tests(dict(_read(bytes(reply.result.data[0]))))

    def _folder(self, tree: Tree, judges: Iterable[str]) -> Path:
        if tree.revision not in self._written:
            folder = self._workdir / f"tests-{len(self._written)}"
            folder.mkdir(parents=True)
            write_tree(tree, folder)
            known = frozenset(judges)
            for configured in list(folder.rglob("conftest.py")):
                if configured.relative_to(folder).as_posix() not in known:
                    configured.unlink()
            for path, data in read_many(self._tests, known):
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.unlink(missing_ok=True)
                place.write_bytes(data)
            self._written[tree.revision] = folder
        return self._written[tree.revision]


def _read(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode("utf-8", "replace").split("\n")[:_MOST]:
        outcome, _, name = line.partition("\t")
        if outcome in ("passed", "failed", "skipped", "error"):
            yield name, outcome
