"""The error of the PTX reader."""

from __future__ import annotations

from validator.errors import Problem, ValidatorError

__all__ = ["PtxError"]


class PtxError(ValidatorError):
    """A file that is not PTX, is cut off, or holds a statement that no PTX grammar allows. Says which line."""

    def __init__(self, what: str, name: str, line: int, fix: str = "") -> None:
        self.line = line
        super().__init__(Problem(what, f"{name}:{line}", fix))
