"""`validator isolate`: with the switch off, did anything change?"""

from __future__ import annotations

from pathlib import Path

import click

from validator.cli.cache import cache_option, opened_store

__all__ = ["isolate"]

FORMATS = ("text", "json", "markdown")


@click.command()
@click.option("--base", required=True, metavar="REF", help="What the change is compared with; holds the policy.")
@click.option("--head", required=True, metavar="REF", help="The change.")
@click.option("--repo", default=".", show_default=True, metavar="DIR", help="Repository, bare or not.")
@click.option("--rfc", metavar="FILE", help="Manifest, as a path in the head. [default: the one the change brings]")
@click.option("--policies", metavar="REF-or-DIR", help="Where the policy is read. [default: the base]")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="On stdout.")
@click.option("--output", "outputs", multiple=True, metavar="FORMAT=PATH", help="Also write a file; repeatable.")
@click.option(
    "--kernels",
    nargs=2,
    metavar="BASE HEAD",
    help="Folders of the shared kernels (PTX, cubins), built at the base and at the head by the same compiler.",
)
@cache_option
@click.option("--quiet", is_flag=True, help="No progress, and no report on stdout but the verdict.")
def isolate(
    base: str,
    head: str,
    repo: str,
    rfc: str | None,
    policies: str | None,
    format_: str,
    outputs: tuple[str, ...],
    kernels: tuple[str, str] | None,
    cache: str | None,
    quiet: bool,
) -> int:
    """Prove that nothing changes with the switch off: off-path equivalence, blast radius, entry points, switch.

    Reads git objects; nothing of the repository is imported. Kernels that shipped, and that manifests say how to build,
    are compiled, confined; the base's tests run, confined, where the policy says `run_tests`.
    Exit codes: 0 proven, 1 refuted or unproven, 2 could not run, 130 interrupted.
    """
    import os

    from validator.cli.output import Progress, emit, parse_outputs, write_outputs
    from validator.pipeline import Options
    from validator.pipeline.isolate import isolate as run_isolate
    from validator.report.formats import render

    files = parse_outputs(outputs, FORMATS)
    options = Options(Path(repo), base, head, rfc, policies)
    folders = (Path(kernels[0]), Path(kernels[1])) if kernels else None
    progress = Progress(quiet=quiet)
    try:
        with opened_store(cache) as store:
            debug = bool(os.environ.get("VALIDATOR_DEBUG"))
            result = run_isolate(options, progress=progress, store=store, kernels=folders, debug=debug)
    finally:
        progress.close()
    write_outputs(files, lambda kind: render(result, kind))
    emit(f"{result.verdict.value}: {result.reason}\n" if quiet else render(result, format_, interactive=True))
    return 0 if result.verdict.value == "pass" else 1
