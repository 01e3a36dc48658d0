"""`validator history DIR`: what was proven when, and what is stale."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["history"]


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--manifest", metavar="ID", help="Only runs of this manifest.")
def history(folder: str, manifest: str | None) -> int:
    """List the runs whose bundles lie in DIR or below, by manifest: what was proven when, with which tools.

    Says what changed from each run to the next. Evidence is stale when the policy's days are over, when a newer run is
    about another commit or used other tools, and when this machine has other versions of them.

    Exit codes: 0 listed, 2 no bundle.
    """
    from datetime import UTC, datetime

    from validator import __version__
    from validator.binary.tools import Tools
    from validator.cli.output import emit
    from validator.errors import Problem
    from validator.report.history import find_runs, render_history
    from validator.text import visible
    from validator.verdict.bundle import BundleError

    runs, problems = find_runs(Path(folder))
    chosen = [r for r in runs if manifest is None or r.manifest == manifest]
    for problem in problems:
        click.echo(f"not read: {visible(str(problem))}", err=True)
    if not chosen:
        raise BundleError(Problem(f"no run of {manifest}" if manifest else "no bundle could be read", folder))
    here = {"validator": __version__, **Tools.find().versions}
    emit(render_history(chosen, datetime.now(UTC).date(), here))
    return 0
