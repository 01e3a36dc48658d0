"""`validator merge PART…`: the parts of a check, run by a matrix of jobs, as one verdict."""

from __future__ import annotations

from pathlib import Path

import click

from validator.report.formats import FORMATS

__all__ = ["merge"]


@click.command()
@click.argument("parts", metavar="PART…", nargs=-1, required=True)
@click.option("--repo", default=".", show_default=True, metavar="DIR", help="Repository, bare or not.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="On stdout.")
@click.option("--output", "outputs", multiple=True, metavar="FORMAT=PATH", help="Also write a file; repeatable.")
@click.option("--bundle", metavar="DIR", help="Also write the bundle: result, inputs and digests in one folder.")
@click.option("--quiet", is_flag=True, help="No progress, and no report on stdout but the verdict.")
def merge(
    parts: tuple[str, ...], repo: str, format_: str, outputs: tuple[str, ...], bundle: str | None, quiet: bool
) -> int:
    """Put together what `check --shard I/N --part DIR` wrote: the verdict of one run over all cells.

    A part that is missing leaves its cells unproven. Exit codes: 0 pass, 1 fail or unproven, 2 could not run.
    """
    from contextlib import ExitStack

    from validator.cli.cache import key_of_trusted_runs
    from validator.cli.display import Display
    from validator.cli.output import emit, parse_outputs, write_outputs
    from validator.pipeline import Options
    from validator.pipeline import check as run_check
    from validator.report.bundle import save_bundle
    from validator.report.formats import render
    from validator.scale.cell import Cell
    from validator.scale.engine import DEVICES, Engine
    from validator.scale.local import Local
    from validator.scale.run_folder import same_run
    from validator.scale.shard import Shard
    from validator.scale.store import Store
    from validator.verdict.bundle import check_target

    files = parse_outputs(outputs, FORMATS)
    if bundle:
        check_target(Path(bundle))
    asked, by_number = same_run([Path(part) for part in parts])
    count = asked.shard.count if asked.shard is not None else 1

    def absent(cell: Cell) -> str:
        number = Shard.of(cell, count).number
        return f"shard {number}/{count} did not run it" if number in by_number else f"shard {number}/{count} is missing"

    base, head = (
        _called(Path(repo), ref, commit) for ref, commit in zip(asked.refs, (asked.base, asked.head), strict=True)
    )
    options = Options(Path(repo), base, head, asked.rfc, asked.policies, asked.seed)
    with ExitStack() as stack:
        display = stack.enter_context(Display(quiet=quiet))
        key = key_of_trusted_runs()
        stores = [stack.enter_context(Store(by_number[n] / "results", key=key)) for n in sorted(by_number)]
        devices = {on.decode("utf-8", "replace") for store in stores if (on := store.get(DEVICES)) is not None}
        engine = Engine(stack.enter_context(Local()), stores, absent=absent, devices=sorted(devices) or None)
        result = run_check(options, progress=display, work=engine)
    write_outputs(files, lambda kind: render(result, kind))
    if bundle:
        save_bundle(result, Path(bundle))
    emit(f"{result.verdict.value}: {result.reason}\n" if quiet else render(result, format_, interactive=True))
    return 0 if result.verdict.value == "pass" else 1


def _called(repo: Path, ref: str, commit: str) -> str:
    """What the shards called a commit, if that still means it here: reports say it as a person would."""
    from validator.change.git import Repository
    from validator.errors import ValidatorError

    try:
        return ref if Repository(repo).resolve(ref) == commit else commit
    except ValidatorError:
        return commit
