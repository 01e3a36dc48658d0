"""`validator verify DIR`: whether a bundle is what was written, and whether its verdict follows."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["verify"]


@click.command()
@click.argument("bundle", metavar="DIR")
def verify(bundle: str) -> int:
    """Say whether a bundle was touched.

    Recomputes its digests, and its verdict from its obligations.

    Exit codes: 0 untouched, 1 touched, 2 no bundle.
    """
    from validator.cli.output import emit
    from validator.text import visible
    from validator.verdict.bundle import load_bundle, verify_bundle

    folder = Path(bundle)
    problems = verify_bundle(folder)
    if problems:
        emit("".join(f"touched: {visible(str(p))}\n" for p in problems))
        return 1
    manifest = load_bundle(folder).manifest
    emit(f"untouched: {len(manifest['files'])} files, verdict {manifest['verdict']}, {manifest['id']}\n")
    return 0
