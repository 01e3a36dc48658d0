"""`--cache`: where facts about trees are kept between runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from validator.scale.store import Store

__all__ = ["cache_option", "key_of_trusted_runs", "opened_store"]

cache_option = click.option(
    "--cache",
    metavar="DIR",
    envvar="VALIDATOR_CACHE",
    help="Keep results here by all that they rest on, and reuse them; empty: keep nothing. Whoever can write to the "
    "folder can write results: never one that a change under review reaches. [env var: VALIDATOR_CACHE; default: none]",
)


@contextmanager
def opened_store(folder: str | None) -> Iterator[Store | None]:
    """The store in this folder. Raises `StoreError` for one that others can write to."""
    if not folder:
        yield None
        return
    from validator.scale.store import Store

    with Store(Path(folder), key=key_of_trusted_runs()) as store:
        yield store


def key_of_trusted_runs() -> bytes | None:
    """The key that seals what trusted runs keep, from the file that VALIDATOR_TRUST_KEY names; None: there is none."""
    path = os.environ.get("VALIDATOR_TRUST_KEY")
    if not path:
        return None
    from validator.scale.store import trust_key

    return trust_key(Path(path))
