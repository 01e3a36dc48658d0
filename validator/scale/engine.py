"""Cells to outcomes: from what is known already, or by an executor; every cell exactly once.

One code path whatever executes: an outcome is looked up in the stores, and what is not there is batched, run and kept.
What a task does (raise, be wrong) is its outcome. What happens to the machine under it (a killed process, a lost node)
is tried again, in smaller pieces, so that one cell that takes its worker with it costs no other its result.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path

from validator.scale.batch import Batch, Executor, Finished
from validator.scale.board import Board
from validator.scale.budget import Budget
from validator.scale.cell import Cell, Needs, Outcome, State, digest_of
from validator.scale.shard import Shard
from validator.scale.store import Store

__all__ = ["DEVICES", "Engine"]

DEVICES = "devices"
"""Key under which a part of a run says what GPUs its results were made on."""
_AT_ONCE = 0.25
"""Seconds of work in a batch: much more than it costs to hand one out, little to lose with a node."""
_MOST = 256
"""Cells in a batch."""
_BYTES = 8 << 20
"""Of payload in a batch."""
_WAITING = 8
"""Batches that wait for room, of all kinds together."""
_TRIES = 3
"""How often a cell may take its worker with it."""


@dataclass
class Engine:
    """A `Work` over stores and an executor. Not for several threads."""

    executor: Executor
    known: Sequence[Store] = ()
    """Asked in this order."""
    keep_in: Sequence[Store] = ()
    """What is done is kept in each."""
    whole: Store | None = None
    """Also takes what failed by itself: a part of a run that is put together later."""
    shard: Shard | None = None
    """Only this part is run; what the stores know of the others is taken."""
    budget: Budget = field(default_factory=Budget)
    absent: Callable[[Cell], str] = lambda cell: ""
    """Why a cell that no store knows is not to be run at all (merging shards); empty: run it."""
    board: Board = field(default_factory=Board)
    """Told of every outcome, as it comes."""
    devices: Sequence[str] | None = None
    """What GPUs results may have been made on, as parts of a run say (merging them); None: the executor's."""

    def __post_init__(self) -> None:
        self._names: dict[Path, str] = {}
        self._costs: dict[str, float | None] = {}
        self._took: dict[str, tuple[int, float]] = {}
        self._waiting: deque[Batch] = deque()

    def keep(self, path: Path) -> str:
        if path not in self._names:
            self._names[path] = digest_of(path)
            self.executor.place(self._names[path], path)
        return self._names[path]

    def run(self, cells: Iterable[Cell], total: int) -> Iterator[Outcome]:
        source = iter(cells)
        first = next(source, None)
        if first is None:
            return
        self.board.expect(first.stage, total)
        try:
            for outcome in self._outcomes(chain([first], source)):
                self.budget.used(outcome)
                self.board.ended(outcome)
                yield outcome
        finally:
            self._note_costs()

    def seconds(self, cell: Cell) -> float:
        """What a cell is thought to take: as measured in this run, in past runs, or as the stage says."""
        runs, spent = self._took.get(cell.kind, (0, 0.0))
        if runs:
            return spent / runs
        if cell.kind not in self._costs:
            costs = (store.cost(cell.kind) for store in self.known)
            self._costs[cell.kind] = next((cost for cost in costs if cost is not None), None)
        measured = self._costs[cell.kind]
        return cell.seconds if measured is None else measured

    def is_known(self, cell: Cell) -> bool:
        """Whether an earlier run's result will be taken."""
        return any(store.get(key) is not None for key in self._keys(cell) for store in self.known)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _outcomes(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        gathering: dict[Needs, _Gathered] = {}
        for cell in cells:
            settled = self._settled(cell)
            if settled is not None:
                yield settled
                continue
            gathered = gathering.setdefault(cell.needs, _Gathered())
            if gathered.add(cell, self.seconds(cell)):
                yield from self._hand_out(gathering.pop(cell.needs).batch())
        for gathered in gathering.values():
            yield from self._hand_out(gathered.batch())
        while self.executor.busy or self._waiting:
            yield from self._collect()

    def _settled(self, cell: Cell) -> Outcome | None:
        """The outcome of a cell that need not be run, or must not be."""
        for key, store in product(self._keys(cell), self.known):
            data = store.get(key)
            if data is not None:
                self._keep(key, data, besides=store)
                return Outcome(cell, State.DONE, data, known=True)
        if self.shard is not None and not self.shard.has(cell):
            return Outcome(cell, State.ELSEWHERE, why=f"belongs to shard {Shard.of(cell, self.shard.count)}")
        why = self.absent(cell)
        return (self._failed(cell) or Outcome(cell, State.UNREACHED, why=why)) if why else None

    def _failed(self, cell: Cell) -> Outcome | None:
        """What a part of a run says of a cell that failed by itself there."""
        for key, store in product(self._keys(cell), self.known):
            why = store.get(f"{key} raised")
            if why is not None:
                return Outcome(cell, State.RAISED, why=why.decode("utf-8", "replace"), known=True)
        return None

    def _hand_out(self, batch: Batch) -> Iterator[Outcome]:
        """Some may wait here for what they need, a GPU perhaps, while others go on."""
        self._waiting.append(batch)
        yield from self._start()
        while len(self._waiting) >= _WAITING:
            yield from self._collect()

    def _collect(self) -> Iterator[Outcome]:
        """Whatever is done by now; what is over the budget is ended."""
        yield from self._start()
        if self.executor.busy:
            for finished in self.executor.wait(self._patience()):
                yield from self._taken(finished)
            yield from self._ended()

    def _start(self) -> Iterator[Outcome]:
        """Whatever there is room for, in order."""
        waiting, self._waiting = self._waiting, deque()
        full: set[Needs] = set()
        for batch in waiting:
            if batch.needs not in full and self.executor.room(batch.needs):
                yield from self._begun(batch)
            else:
                full.add(batch.needs)
                self._waiting.append(batch)

    def _begun(self, batch: Batch) -> Iterator[Outcome]:
        why = self.budget.spent(batch.needs)
        if why:
            yield from (Outcome(cell, State.UNREACHED, why=why) for cell in batch.cells)
        else:
            self.executor.submit(batch)

    def _patience(self) -> float | None:
        """Seconds to wait for something to be done; None: any."""
        return self.budget.left(_held(self.executor)) if self.budget.bounded else None

    def _ended(self) -> Iterator[Outcome]:
        """What was not done when the budget was spent."""
        if not self.budget.bounded:
            return
        everything, on_gpu = self.budget.overrun(_held(self.executor))
        over = [batch for batch, _ in self.executor.running() if everything or (on_gpu and batch.needs.gpu)]
        self.executor.give_up(over)
        for batch in over:
            yield from (Outcome(cell, State.UNREACHED, why=everything or on_gpu) for cell in batch.cells)

    def _taken(self, finished: Finished) -> Iterator[Outcome]:
        batch = finished.batch
        if finished.ended is None:
            yield from self._lost(batch, finished.why)
            return
        for cell, ended in zip(batch.cells, finished.ended, strict=True):
            outcome = ended.of(cell)
            runs, spent = self._took.get(cell.kind, (0, 0.0))
            self._took[cell.kind] = (runs + 1, spent + outcome.seconds)
            if outcome.state is State.DONE:
                self._keep(self._keys(cell)[0], outcome.data)
            elif outcome.state is State.RAISED and self.whole is not None:
                self.whole.put(f"{self._keys(cell)[0]} raised", outcome.why.encode("utf-8", "replace"))
            yield outcome

    def _lost(self, batch: Batch, why: str) -> Iterator[Outcome]:
        """Halves, down to the one cell that does it; that one is tried a few times by itself."""
        cells = batch.cells
        if len(cells) > 1:
            half = len(cells) // 2
            self._waiting.extendleft([Batch(cells[half:]), Batch(cells[:half])])
        elif batch.tries + 1 < _TRIES:
            self._waiting.appendleft(Batch(cells, batch.tries + 1, batch.seconds))
        else:
            yield Outcome(cells[0], State.LOST, why=f"{why} ({_TRIES} times)")

    def _keys(self, cell: Cell) -> Sequence[str]:
        """What its result is kept by; of one that needs a GPU, by the devices and the driver too."""
        if not cell.needs.gpu:
            return (cell.key,)
        if self.devices is None:
            self.devices = (self.executor.devices(),)
            if self.whole is not None:
                self.whole.put(DEVICES, self.devices[0].encode("utf-8", "replace"))
        return [hashlib.sha256(f"{cell.key} {on}".encode("utf-8", "replace")).hexdigest() for on in self.devices]

    def _keep(self, key: str, data: bytes, besides: Store | None = None) -> None:
        for store in self.keep_in:
            if store is not besides:
                store.put(key, data)

    def _note_costs(self) -> None:
        took, self._took = self._took, {}
        for kind, (runs, spent) in took.items():
            for store in self.keep_in:
                store.spent(kind, runs, spent)


def _held(executor: Executor) -> list[tuple[Needs, float]]:
    return [(batch.needs, seconds) for batch, seconds in executor.running()]


@dataclass
class _Gathered:
    """Cells that will be a batch."""

    cells: list[Cell] = field(default_factory=list)
    seconds: float = 0.0
    bytes: int = 0

    def add(self, cell: Cell, seconds: float) -> bool:
        """Whether that is enough for a batch."""
        self.cells.append(cell)
        self.seconds += seconds
        self.bytes += len(cell.payload)
        return self.seconds >= _AT_ONCE or len(self.cells) >= _MOST or self.bytes >= _BYTES

    def batch(self) -> Batch:
        return Batch(tuple(self.cells), seconds=self.seconds)
