"""Threads in groups by the segment they stand before; who only polls is put off."""

from __future__ import annotations

import heapq

import numpy as np

from validator.emulate.lanes import Array, Lanes

__all__ = ["Groups", "merged"]


class Groups:
    """Threads of one class by the segment they stand before."""

    def __init__(self) -> None:
        self.waiting: dict[int, list[Array]] = {}
        self.heap: list[int] = []
        self.deferred: dict[int, list[Array]] = {}

    def push(self, key: int, threads: Array) -> None:
        found = self.waiting.get(key)
        if found is None:
            self.waiting[key] = [threads]
            heapq.heappush(self.heap, key)
        else:
            found.append(threads)

    def pop(self) -> tuple[int, Lanes] | None:
        """The group first in the text."""
        if not self.heap:
            return None
        key = heapq.heappop(self.heap)
        return key, Lanes(merged(self.waiting.pop(key)))

    def defer(self, key: int, threads: Array) -> None:
        self.deferred.setdefault(key, []).append(threads)

    def retry(self) -> bool:
        """Let the polling threads run again; False when there are none."""
        for key, groups in self.deferred.items():
            for threads in groups:
                self.push(key, threads)
        found = bool(self.deferred)
        self.deferred = {}
        return found


def merged(groups: list[Array]) -> Array:
    return groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))
