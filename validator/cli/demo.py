"""`validator demo`: three small changes, judged for real."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["demo"]


@click.command()
@click.option("--output-dir", metavar="DIR", help="Keep repositories, bundles and summaries there.")
def demo(output_dir: str | None) -> int:
    """Judge three small changes that ship here.

    Builds real repositories from the shipped fixtures and runs `check` on them.

    Exit codes: 0 every scenario came out as expected, 1 one did not, 2 could not run.
    """
    from validator.demo import run_demo

    return run_demo(Path(output_dir) if output_dir else None)
