"""What several targets need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from validator.errors import ValidatorError

__all__ = ["FIXTURES", "ROOT", "joined", "parts", "small", "told"]

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures"
_CUT = b"\n--8<--\n"
"""Between the parts of an input that stands for several texts."""


def joined(*texts: bytes) -> bytes:
    """One input that stands for several texts."""
    return _CUT.join(texts)


def parts(data: bytes, count: int) -> list[bytes]:
    """Exactly `count` texts of one input; missing ones are empty."""
    found = data.split(_CUT, count - 1)
    return found + [b""] * (count - len(found))


def small(paths: Iterable[Path], count: int, most: int = 1 << 16) -> Iterator[bytes]:
    """The smallest of these files."""
    sized = sorted((path.stat().st_size, path.as_posix(), path) for path in paths)
    return (path.read_bytes() for size, _, path in sized[:count] if size <= most)


def told(error: ValidatorError, *, where: bool = True) -> None:
    """An error that a person can act on: it says what is wrong and, where there is more than one place, where."""
    problems: Sequence[object] = error.problems
    assert problems, "an error without a problem"
    for problem in error.problems:
        assert problem.what, problem
        assert problem.where or not where, problem
