"""Notes of what partial evaluation leaves out, and of what it need not look into."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from validator.isolation.syntax import unparse

if TYPE_CHECKING:
    from validator.isolation.offpath.place import Place

__all__ = ["Idle", "Note"]


@dataclass(frozen=True, slots=True)
class Idle:
    """Places of the bodies that do not run."""

    lines: dict[str, tuple[range, ...]]
    """Path → lines."""

    def covers(self, path: str, line: int) -> bool:
        """Whether the line stands in such a body."""
        return any(line in span for span in self.lines.get(path, ()))


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """An expression that runs, and that is left out because its value is known or unused."""

    node: ast.expr
    place: Place
    file: str
    """The file whose evaluation led here: the place's own, or one that calls it."""
    tested: bool = False
    """Its truth is asked for as well."""
    root: int = 0
    """First line of the body of the function that is looked at; 0: a module, or a call whose result was worked out."""
    under: tuple[str, ...] = ()
    """Undecided conditions around it, as text."""

    @property
    def key(self) -> tuple[str, str, bool, tuple[str, ...]]:
        """The same for the same evaluation of another tree."""
        return self.place.qualified, unparse(self.node), self.tested, self.under
