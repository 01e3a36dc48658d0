"""The `ray` executor: an existing cluster (RAY_ADDRESS) or a local one, with the same results as `local`.

A task is a batch of cells; what it needs of a node (a GPU, of which type, memory) is asked for from Ray. Ray retries
nothing by itself: a batch whose worker or node went away comes back as lost, and the engine hands it out again, so a
lost node costs its running cells. Content travels through the object store, once, to a private folder of each node.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from validator.errors import Problem, ValidatorError
from validator.scale.batch import Batch, Ended, Finished, run_cells
from validator.scale.cell import Cell, Needs
from validator.scale.content import packed, unpacked
from validator.scale.surroundings import devices, software

__all__ = ["Cluster", "ClusterError"]

_AHEAD = 2
"""Batches a slot: one runs, one waits beside it."""
_COUNTED = 5.0
"""Seconds after which the cluster's processors are counted again: nodes come and go."""
_ASKED = 60.0
"""Seconds for every node to say what GPUs it has."""


class ClusterError(ValidatorError):
    """There is no Ray, or it cannot be reached."""


@dataclass(frozen=True, slots=True)
class _Node:
    """What a node has."""

    id: str
    processors: int
    gpus: int
    types: frozenset[str]
    memory: int

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> _Node:
        has = said["Resources"]
        types = frozenset(name.partition(":")[2] for name in has if name.startswith("accelerator_type:"))
        return cls(said["NodeID"], int(has.get("CPU", 0)), int(has.get("GPU", 0)), types, int(has.get("memory", 0)))


class Cluster:
    """Batches as tasks of a Ray cluster. Connects on the first use."""

    def __init__(self, address: str | None = None, *, cpus: int | None = None, object_store: int | None = None) -> None:
        """`address`: of a cluster; None: RAY_ADDRESS, else a local one with `cpus` and `object_store` bytes."""
        try:
            import ray
        except ImportError:
            hint = "pip install 'validator[scale]'"
            raise ClusterError(Problem("Ray is not installed", "--executor ray", hint)) from None
        self._ray: Any = ray
        self._address = address or os.environ.get("RAY_ADDRESS") or None
        self._local: dict[str, Any] = {}
        if self._address is None:
            self._local = {"num_cpus": cpus, "object_store_memory": object_store, "include_dashboard": False}
        self._job = secrets.token_hex(8)
        self._places: dict[str, Path] = {}
        self._stored: dict[str, Any] = {}
        self._running: dict[Any, Batch] = {}
        self._since: dict[Any, float] = {}
        """When a slot was free for a task: Ray does not say when it began."""
        self._with_gpu: set[Any] = set()
        """Tasks that Ray was asked a GPU for."""
        self._nodes: list[_Node] = []
        self._slots: dict[str, int] = {}
        self._counted = 0.0
        self._task: Any = None
        self._aside = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def place(self, name: str, path: Path) -> None:
        self._places[name] = path

    def room(self, needs: Needs) -> bool:
        self._connect()
        if time.monotonic() - self._counted > _COUNTED:
            self._count()
        kind = "GPU" if needs.gpu else "CPU"
        running = sum(bool(b.needs.gpu) is bool(needs.gpu) for b in self._running.values())
        return running < _AHEAD * max(1, self._slots[kind])

    def submit(self, batch: Batch) -> None:
        self._connect()
        content = {name: self._shipped(name) for name in batch.content}
        asked = self._asked(batch.needs)
        reference = self._task.options(**asked).remote(self._job, batch.cells, content, software())
        self._running[reference] = batch
        if "num_gpus" in asked:
            self._with_gpu.add(reference)
        self._note_begun()

    def devices(self) -> str:
        """Of every node that has GPUs, each as it says itself; this machine's where none has."""
        self._connect()
        self._count()
        nodes = [node for node in self._nodes if node.gpus]
        if not nodes:
            return devices()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ask = self._ray.remote(num_cpus=0)(_devices)
        places = [NodeAffinitySchedulingStrategy(node.id, soft=False) for node in nodes]
        try:
            asked = [ask.options(scheduling_strategy=place).remote() for place in places]
            return "; ".join(sorted(set(self._ray.get(asked, timeout=_ASKED))))
        except self._ray.exceptions.RayError as error:
            hint = "see to the nodes with GPUs, or use --executor local"
            raise ClusterError(Problem(f"does not say what GPUs it has: {error}", "Ray", hint)) from error

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def wait(self, seconds: float | None = None) -> list[Finished]:
        if not self._running:
            return []
        until = math.inf if seconds is None else time.monotonic() + seconds
        ready: list[Any] = []
        while not ready:
            left = until - time.monotonic()
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=max(0.0, min(_COUNTED, left)))
            if not ready and (left <= 0 or (stranded := self._stranded())):
                return stranded if left > 0 else []
        more, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [self._finished(reference) for reference in dict.fromkeys([*ready, *more])]

    def running(self) -> list[tuple[Batch, float]]:
        now = time.monotonic()
        return [(batch, now - self._since.get(reference, now)) for reference, batch in self._running.items()]

    def give_up(self, batches: Sequence[Batch]) -> None:
        gone = set(map(id, batches))
        for reference in [reference for reference, batch in self._running.items() if id(batch) in gone]:
            with suppress(Exception):
                self._ray.cancel(reference, force=True)
            self._forget(reference)

    def close(self) -> None:
        if self._task is None:
            return
        self.give_up(list(self._running.values()))
        self._stored.clear()
        self._ray.shutdown()
        self._aside.close()
        self._task = None

    # -- inside ------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._task is not None:
            return
        ray = self._ray
        # Of a node that died Ray tells whoever reads stdout, where only the report goes.
        self._aside.enter_context(redirect_stdout(sys.stderr))
        try:
            _knock(self._address)
            ray.init(self._address or "local", log_to_driver=False, configure_logging=False, **self._local)
            self._count()
        except Exception as error:
            where = self._address or "a local cluster"
            self._aside.close()
            hint = "start it (`ray start --head`) and name it in RAY_ADDRESS, or use --executor local"
            raise ClusterError(Problem(f"cannot be reached: {error}", f"Ray at {where}", hint)) from error
        # Retries are the engine's: it knows which cells a batch had, and splits it.
        self._task = ray.remote(max_retries=0, retry_exceptions=False)(_run)

    def _count(self) -> None:
        self._nodes = [_Node.of(node) for node in self._ray.nodes() if node["Alive"]]
        self._slots = {"CPU": sum(n.processors for n in self._nodes), "GPU": sum(n.gpus for n in self._nodes)}
        self._counted = time.monotonic()

    def _able(self, needs: Needs) -> list[_Node]:
        """Nodes with such a GPU."""
        return [n for n in self._nodes if n.gpus and (needs.gpu == "any" or needs.gpu in n.types)]

    def _stranded(self) -> list[Finished]:
        """What waits for a GPU that no node has any more: Ray would wait for ever."""
        self._count()
        batches = [b for r, b in self._running.items() if r in self._with_gpu and not self._able(b.needs)]
        self.give_up(batches)
        return [Finished(batch, None, "no node is left that has the GPU it needs") for batch in batches]

    def _forget(self, reference: Any) -> Batch:
        self._since.pop(reference, None)
        self._with_gpu.discard(reference)
        return self._running.pop(reference)

    def _note_begun(self) -> None:
        for kind, gpu in (("CPU", False), ("GPU", True)):
            mine = (reference for reference, batch in self._running.items() if bool(batch.needs.gpu) is gpu)
            for reference in islice(mine, max(1, self._slots[kind])):
                self._since.setdefault(reference, time.monotonic())

    def _asked(self, needs: Needs) -> dict[str, Any]:
        """What Ray is asked for: nothing that no node has, as it would wait for ever."""
        asked: dict[str, Any] = {"num_cpus": 1}
        able = self._able(needs) if needs.gpu else []
        if able:  # without one, whoever runs the cell says so: that is its outcome
            asked["num_gpus"] = 1
            if needs.gpu != "any":
                asked["accelerator_type"] = needs.gpu
        if needs.memory:
            asked["memory"] = min(needs.memory, max(node.memory for node in able or self._nodes))
        return asked

    def _shipped(self, name: str) -> Any:
        """A reference to content; it goes into the object store once."""
        if name not in self._stored:
            self._stored[name] = self._ray.put(packed(self._places[name]))
        return self._stored[name]

    def _finished(self, reference: Any) -> Finished:
        batch = self._forget(reference)
        self._note_begun()
        try:
            said = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().partition("\n")[0][:300]
            return Finished(batch, None, f"{type(error).__name__}: {first}")
        if isinstance(said, dict):
            told = ", ".join(f"{name} {said.get(name)} where here is {mine}" for name, mine in software().items()
                             if said.get(name) != mine)  # fmt: skip
            hint = "install the same on every node: results of two versions are not one check"
            raise ClusterError(Problem(f"a node has {told}", "Ray", hint))
        return Finished(batch, [Ended(*ended) for ended in said])


def _knock(address: str | None) -> None:
    """Ray itself waits for minutes for a cluster that is not there. Raises `OSError`."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), 5.0).close()


# -- on the node -------------------------------------------------------------------------------------------------------


def _run(
    job: str, cells: Sequence[Cell], content: Mapping[str, Any], wanted: Mapping[str, str]
) -> list[tuple[Any, ...]] | dict[str, str]:
    """A task: what `run_cells` says of a batch; or what is installed here, where that is not what is wanted."""
    import ray

    if dict(software()) != dict(wanted):
        return dict(software())

    def place(name: str) -> Path:
        return unpacked(job, name, lambda: ray.get(content[name]))

    return [tuple(ended) for ended in run_cells(cells, place)]


def _devices() -> str:
    return devices()
