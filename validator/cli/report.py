"""`validator report BUNDLE`: a bundle's result in any format, as the run itself would have shown it."""

from __future__ import annotations

from pathlib import Path

import click

from validator.report.formats import FORMATS

__all__ = ["report"]


@click.command()
@click.argument("bundle", metavar="BUNDLE")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="On stdout.")
@click.option("--output", "outputs", multiple=True, metavar="FORMAT=PATH", help="Also write a file; repeatable.")
@click.option(
    "--markdown-limit",
    "limit",
    type=click.IntRange(min=2000),
    metavar="CHARACTERS",
    help="Longest Markdown: 65536 for a comment, 1000000 for a job summary.  [default: 65536]",
)
@click.option("--against", metavar="BUNDLE", help="An earlier run: the page says what changed since.")
def report(bundle: str, format_: str, outputs: tuple[str, ...], limit: int | None, against: str | None) -> int:
    """Render the result that BUNDLE holds.

    A format never changes a verdict, and this command judges nothing: `validator verify` says whether the bundle can be
    believed. Where its digests do not hold, that is said on stderr.

    Exit codes: 0 rendered, 2 no bundle.
    """
    from validator.cli.output import emit, parse_outputs, write_outputs
    from validator.report.changes import since
    from validator.report.formats import render
    from validator.report.reading import read_result
    from validator.text import visible
    from validator.verdict.bundle import verify_bundle

    files = parse_outputs(outputs, FORMATS)
    result = read_result(Path(bundle))
    if against:
        result = since(read_result(Path(against)), result)
    for folder in (bundle, against) if against else (bundle,):
        for problem in verify_bundle(Path(folder)):
            click.echo(f"touched: {visible(str(problem))}; `validator verify` says more", err=True)
    write_outputs(files, lambda kind: render(result, kind, limit=limit))
    emit(render(result, format_, interactive=True, limit=limit))
    return 0
