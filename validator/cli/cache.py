"""`--cache`: where facts about trees are kept between runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from validator.text import visible

if TYPE_CHECKING:
    from validator.scale.store import Store

__all__ = ["cache_option", "key_of_trusted_runs", "opened_store", "tell_unusable"]

cache_option = click.option(
    "--cache",
    metavar="DIR",
    envvar="VALIDATOR_CACHE",
    help="Keep results here by all that they rest on, and reuse them; empty: keep nothing. Whoever can write to the "
    "folder can write results: never one that a change under review reaches. [env var: VALIDATOR_CACHE; default: none]",
)


@contextmanager
def opened_store(folder: str | None) -> Iterator[Store | None]:
    """The store in this folder. Raises `StoreError` for one that others can write to.

    One that cannot be used changes no verdict, only what the next run takes: it is said on stderr, once.
    """
    if not folder:
        yield None
        return
    from validator.scale.store import Store

    with Store(Path(folder), key=key_of_trusted_runs()) as store:
        at_once = _told(folder, store.trouble, "nothing is kept there, and nothing is taken from there")
        yield store
        if not at_once:
            _told(folder, store.trouble, "not everything is kept there")


def tell_unusable(folder: str | None) -> None:
    """Say on stderr that this folder cannot be used, before a run that opens it by itself. Raises `StoreError`."""
    if folder:
        with opened_store(folder):
            pass


def _told(folder: str, trouble: str, so: str) -> bool:
    if trouble:
        click.echo(f"note: --cache {visible(folder)} cannot be used ({visible(trouble)}): {so}", err=True)
    return bool(trouble)


def key_of_trusted_runs() -> bytes | None:
    """The key that seals what trusted runs keep, from the file that VALIDATOR_TRUST_KEY names; None: there is none."""
    path = os.environ.get("VALIDATOR_TRUST_KEY")
    if not path:
        return None
    from validator.scale.store import trust_key

    return trust_key(Path(path))
