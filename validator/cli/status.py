"""`validator status BUNDLE`: how far a run is, from another terminal."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["status"]


@click.command()
@click.argument("bundle", metavar="BUNDLE")
def status(bundle: str) -> int:
    """Say how far the run of a bundle (or of a shard's part) is.

    BUNDLE is what --bundle or --part names. Exit codes: 0 said, 2 no such run.
    """
    from validator.cli.output import emit
    from validator.errors import Problem
    from validator.scale.run_folder import RunFolderError, beside, is_held, load_asked, load_board
    from validator.text import visible
    from validator.verdict.bundle import MANIFEST, load_bundle

    folder = Path(bundle)
    places = [place for place in (beside(folder), folder) if (place / "run.json").is_file()]
    complete = (folder / MANIFEST).is_file()
    if not places and not complete:
        hint = "name what --bundle or --part names"
        raise RunFolderError(Problem("is neither a bundle nor a run that will be one", bundle, hint))
    if complete:
        manifest = load_bundle(folder).manifest
        emit(visible(f"complete: {manifest.get('verdict')}, {manifest.get('id')}") + "\n")
    if not places:
        return 0
    place = places[0]
    asked = load_asked(place)
    part = f", shard {asked.shard}" if asked.shard is not None else ""
    state = "running" if is_held(place) else "not running (killed, or a part that is done); --resume goes on"
    emit(visible(f"{asked.base[:12]}..{asked.head[:12]}, seed {asked.seed}{part}: {state}") + "\n")
    emit("".join(f"{visible(stage)}: {words}\n" for stage, words in load_board(place).lines()) or "no cells yet\n")
    return 0
