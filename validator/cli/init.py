"""`validator init`: a first policy and a manifest to edit."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["init"]


@click.command()
@click.argument("id_", metavar="[ID]", default="my-change")
@click.option("--repo", default=".", show_default=True, metavar="DIR", help="Where to write.")
def init(id_: str, repo: str) -> None:
    """Write a first policy and manifest.

    policies/fast-track.toml and rfcs/ID.toml, to be edited. Existing files are left alone.
    """
    from datetime import UTC, datetime

    from validator.cli.output import emit
    from validator.cli.skeleton import starting_files, write_new

    today = datetime.now(UTC).date()
    for path, written in write_new(Path(repo), starting_files(id_, today)):
        emit(f"{'wrote' if written else 'kept '} {path}\n")
    emit(
        "\nEdit both. Merge the policy first: it is read from the base revision, so a change cannot bring its own.\n"
        "Then: validator check --base main --head HEAD\n"
    )
