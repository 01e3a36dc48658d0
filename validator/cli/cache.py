"""`--cache`: where facts about trees are kept between runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from validator.scale.store import Store

__all__ = ["cache_option", "opened_store"]

cache_option = click.option(
    "--cache",
    metavar="DIR",
    envvar="VALIDATOR_CACHE",
    help="Keep what was learnt of a tree here, by the tree's id; empty: keep nothing. Whoever can write to the folder "
    "can write results: never one that a change under review reaches. [env var: VALIDATOR_CACHE; default: none]",
)


@contextmanager
def opened_store(folder: str | None) -> Iterator[Store | None]:
    """The store in this folder. Raises `StoreError` for one that others can write to."""
    if not folder:
        yield None
        return
    from validator.scale.store import Store

    with Store(Path(folder)) as store:
        yield store
