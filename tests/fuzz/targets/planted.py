"""A reader with a hole in it: what shows that the fuzzer finds one. Not among the targets."""

from __future__ import annotations

from collections.abc import Iterator

MODULES = ("tests.fuzz.targets.planted",)


def seeds() -> Iterator[bytes]:
    yield b"an ordinary text"


def one(data: bytes) -> None:
    """Every comparison is a branch of its own, so that coverage leads to the hole."""
    if len(data) > 3 and data[0] == ord("h") and data[1] == ord("o") and data[2] == ord("l") and data[3] == ord("e"):
        raise IndexError("the hole")
