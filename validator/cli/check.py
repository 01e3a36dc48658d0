"""`validator check`: one change, judged by the policy of its base."""

from __future__ import annotations

from pathlib import Path

import click

from validator.cli.cache import cache_option, opened_store
from validator.report.formats import FORMATS

__all__ = ["check"]


@click.command()
@click.option("--base", required=True, metavar="REF", help="What the change is judged against; holds the policy.")
@click.option("--head", required=True, metavar="REF", help="The change.")
@click.option("--repo", default=".", show_default=True, metavar="DIR", help="Repository, bare or not.")
@click.option("--rfc", metavar="FILE", help="Manifest, as a path in the head. [default: the one the change brings]")
@click.option("--policies", metavar="REF-or-DIR", help="Where the policy is read. [default: the base]")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="On stdout.")
@click.option("--output", "outputs", multiple=True, metavar="FORMAT=PATH", help="Also write a file; repeatable.")
@click.option("--bundle", metavar="DIR", help="Also write the bundle: result, inputs and digests in one folder.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Root of every random choice. [default: random]")
@click.option("--journal", metavar="DIR", help="Keep every finished case there, and take up an earlier run's.")
@cache_option
@click.option("--quiet", is_flag=True, help="No progress, and no report on stdout but the verdict.")
def check(
    base: str,
    head: str,
    repo: str,
    rfc: str | None,
    policies: str | None,
    format_: str,
    outputs: tuple[str, ...],
    bundle: str | None,
    seed: int | None,
    journal: str | None,
    cache: str | None,
    quiet: bool,
) -> int:
    """Judge the change from --base to --head.

    Exit codes: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted.
    """
    import os

    from validator.cli.output import Progress, emit, parse_outputs, write_outputs
    from validator.cli.seeds import chosen_seed
    from validator.pipeline import Options
    from validator.pipeline import check as run_check
    from validator.report.formats import render
    from validator.verdict.bundle import check_target

    files = parse_outputs(outputs, FORMATS)
    if bundle:
        check_target(Path(bundle))
    root, kept = chosen_seed(seed, journal)
    options = Options(Path(repo), base, head, rfc, policies, root, kept)
    progress = Progress(quiet=quiet)
    try:
        with opened_store(cache) as store:
            result = run_check(options, progress=progress, store=store, debug=bool(os.environ.get("VALIDATOR_DEBUG")))
    finally:
        progress.close()
    write_outputs(files, lambda kind: render(result, kind))
    if bundle:
        from validator.report.bundle import save_bundle

        save_bundle(result, Path(bundle))
    emit(f"{result.verdict.value}: {result.reason}\n" if quiet else render(result, format_, interactive=True))
    return 0 if result.verdict.value == "pass" else 1
