"""One part of a plan, for a matrix of CI jobs: every cell is in exactly one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from validator.errors import Problem, ValidatorError
from validator.scale.cell import Cell

__all__ = ["Shard", "ShardError"]


class ShardError(ValidatorError):
    """Not a shard, or shards that do not belong together."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Of `2/4`. Raises `ShardError`."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ShardError(Problem(f"{text!r} is no shard", "--shard", "write i/n with 1 <= i <= n, as 2/4"))
        return cls(int(found[1]), int(found[2]))

    @staticmethod
    def of(cell: Cell, count: int) -> Shard:
        """Whose it is."""
        return Shard.of_id(cell.group or cell.id, count)

    @staticmethod
    def of_id(cell_id: str, count: int) -> Shard:
        """A matter of the cell's id alone, so that it does not depend on what else is planned."""
        number = int.from_bytes(hashlib.sha256(cell_id.encode("utf-8", "surrogateescape")).digest()[:8], "big")
        return Shard(number % count + 1, count)

    def has(self, cell: Cell) -> bool:
        return Shard.of(cell, self.count) == self

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
