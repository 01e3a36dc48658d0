"""`validator check`: one change, judged by the policy of its base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from validator.cli.cache import cache_option, opened_store
from validator.cli.scale import Scale, Working, opened_work, scale_options, seed_taken_up
from validator.report.formats import FORMATS

if TYPE_CHECKING:
    from validator.verdict.result import CheckResult

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
@scale_options
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
    shard: str | None,
    part: str | None,
    budget: str | None,
    gpu_budget: str | None,
    executor: str,
    resume: bool,
    quiet: bool,
) -> int:
    """Judge the change from --base to --head.

    Exit codes: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted.
    """
    import os

    from validator.cli.display import Display
    from validator.cli.output import emit, parse_outputs, write_outputs
    from validator.cli.seeds import chosen_seed
    from validator.pipeline import Options
    from validator.pipeline import check as run_check
    from validator.report.formats import render
    from validator.verdict.bundle import check_target

    scale = Scale(shard, part, budget, gpu_budget, executor, resume, bundle, seed is not None, journal)
    scale.check()
    files = parse_outputs(outputs, FORMATS)
    if bundle:
        check_target(Path(bundle))
    root, kept = chosen_seed(seed_taken_up(scale, seed), journal)
    options = Options(Path(repo), base, head, rfc, policies, root, kept)
    debug = bool(os.environ.get("VALIDATOR_DEBUG"))
    with Display(quiet=quiet) as display, opened_store(cache) as store:
        with opened_work(scale, options, store, display) as working:
            result = run_check(options, progress=display, store=store, work=working.engine, debug=debug)
        display.close()
        write_outputs(files, lambda kind: render(result, kind))
        if bundle:
            from validator.report.bundle import save_bundle

            save_bundle(result, Path(bundle))
        if working.folder is not None and shard is None:
            working.folder.remove()
    if shard is not None:
        return _part(result, working, shard)
    emit(f"{result.verdict.value}: {result.reason}\n" if quiet else render(result, format_, interactive=True))
    return 0 if result.verdict.value == "pass" else 1


def _part(result: CheckResult, working: Working, shard: str) -> int:
    """What a shard says: a refutation at once; all else when the parts are put together."""
    from validator.cli.output import emit

    done = "; ".join(f"{stage}: {words}" for stage, words in working.engine.board.lines()) or "no cells"
    emit(f"shard {shard}: {done}\n")
    if result.verdict.value == "fail":
        emit(f"fail: {result.reason}\n")
        return 1
    emit("put together with the others: validator merge PART…\n")
    return 0
