"""`validator audit`: what compiled kernels may touch before the wait that orders them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from validator.manifest.contract import KernelContract, Step
    from validator.ordering.result import Audit
    from validator.report.audit_document import DriftDocument

__all__ = ["audit"]

FORMATS = ("text", "json", "markdown", "sarif")
JOBS = 8
"""Processes unless more are asked for: each takes some 200 MB."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--contract", metavar="FILE", help="What the kernels' arguments are: a contract or a manifest.")
@click.option("--kernel", "kernels", multiple=True, metavar="GLOB", help="Only kernels of this name; repeatable.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="On stdout.")
@click.option("--output", "outputs", multiple=True, metavar="FORMAT=PATH", help="Also write a file; repeatable.")
@click.option("--init-contract", is_flag=True, help="Print a contract to fill in instead of a report.")
@click.option("--against", metavar="OLD.json", help="Also say what changed since an earlier audit.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes. [default: one per core, at most 8]")
@click.option("--cache", metavar="DIR", help="Keep results here: of unchanged files, and of an audit that was stopped.")
@click.option("--budget", metavar="TIME", help="As 90s, 20m, 1h30m: what is not begun by then is unproven.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, and no report on stdout but the verdict.")
def audit(
    paths: tuple[str, ...],
    contract: str | None,
    kernels: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
    init_contract: bool,
    against: str | None,
    jobs: int | None,
    cache: str | None,
    budget: str | None,
    quiet: bool,
) -> int:
    """Audit PTX, cubins, libraries, wheels and folders of them.

    Exit codes: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted.
    """
    import os

    from validator.cli.cache import tell_unusable
    from validator.cli.inputs import discover
    from validator.cli.output import Progress, emit, parse_outputs, write_outputs
    from validator.ordering.artifacts import Artifact, audit_artifacts
    from validator.report.audit_words import headline, verdict_of

    over = _over(budget)
    files = parse_outputs(outputs, FORMATS)
    declared, steps = _contract(contract)
    before = _earlier(against)
    inputs = discover(paths)
    tell_unusable(cache)
    progress = Progress(quiet=quiet)
    try:
        result = audit_artifacts(
            [Artifact(file.name, path=file.path) for file in inputs],
            declared,
            steps,
            kernel_glob=kernels or None,
            jobs=jobs or min(os.cpu_count() or 1, JOBS),
            progress=progress,
            cache=Path(cache) if cache else None,
            over=over,
        )
    except KeyboardInterrupt:
        progress.close()
        click.echo(_KEPT if cache else _NOT_KEPT, err=True)
        raise
    finally:
        progress.close()
    if init_contract:
        from validator.report.audit_contract import render_contract

        emit(render_contract(result))
        return 0 if result.kernels and not result.skipped else 1
    drift = before(result) if before else None
    write_outputs(files, lambda kind: _render(result, drift, kind))
    verdict = verdict_of(result)
    if quiet:
        emit(f"{verdict.value}: {headline(result)}\n")
    else:
        emit(_render(result, drift, format_, interactive=True))
    return 0 if verdict.value == "pass" else 1


_KEPT = "what is done so far is kept: the same command goes on from there"
_NOT_KEPT = "with --cache DIR what is done is kept, and the same command goes on from there"


def _over(budget: str | None) -> Callable[[], str]:
    """Whether the time is over, and in which words; empty: it is not."""
    if budget is None:
        return str
    import time

    from validator.scale.budget import in_words, parse_duration

    seconds = parse_duration(budget, "--budget")
    end = time.monotonic() + seconds
    said = f"the budget of {in_words(seconds)} was spent before its turn"
    return lambda: said if time.monotonic() >= end else ""


def _contract(path: str | None) -> tuple[tuple[KernelContract, ...], tuple[Step, ...]]:
    if path is None:
        return (), ()
    from validator.manifest.load import load_contract

    return load_contract(_read(path, "--contract"), path)


def _earlier(path: str | None) -> Callable[[Audit], DriftDocument] | None:
    """Reads the earlier audit before any work is done; the comparison comes after it."""
    if path is None:
        return None
    from validator.report.audit_drift import compare, load_audit
    from validator.report.audit_json import audit_document

    old = load_audit(_read(path, "--against"), path)
    return lambda result: compare(old, audit_document(result))


def _read(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{option} {path}: {error.strerror or error}") from None


def _render(result: Audit, drift: DriftDocument | None, kind: str, *, interactive: bool = False) -> str | Iterable[str]:
    """One format, JSON of thousands of kernels in pieces. Only what goes to stdout may be coloured and fitted to it."""
    if kind == "json":
        from validator.report.audit_json import stream_audit_json

        return stream_audit_json(result, drift)
    if kind == "markdown":
        from validator.report.audit_markdown import render_audit_markdown

        return render_audit_markdown(result, drift)
    if kind == "sarif":
        from validator.report.audit_sarif import render_audit_sarif

        return render_audit_sarif(result)
    import sys

    from validator.report.audit_text import render_audit_text
    from validator.report.text import paint_for, width_of

    if interactive:
        return render_audit_text(result, drift, paint_for(sys.stdout), width_of(sys.stdout))
    return render_audit_text(result, drift)
