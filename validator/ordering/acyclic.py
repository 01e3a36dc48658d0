"""The interpreter's search for garbage in cycles, off where many small objects are made and none is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_cycle_search"]


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """For as long as one kernel, or what is kept of thousands, is made: it costs a tenth of the time and more."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
