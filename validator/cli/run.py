"""`validator run`: one compiled kernel on a CPU, with memory that plays against it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract, Step
    from validator.ordering.ptx import PtxProgram

__all__ = ["run"]

_SIZES = re.compile(r"(grid|block|cluster)=(\d{1,10}(?:[,x]\d{1,10}){0,2})")
_SHARED = re.compile(r"(shared)=(\d{1,10})")
_WORDS = "grid=X,Y,Z block=X,Y,Z cluster=X,Y,Z shared=BYTES"


@click.command()
@click.argument("path", metavar="KERNEL.ptx", type=click.Path(exists=True, dir_okay=False))
@click.option("--contract", required=True, metavar="FILE", help="What the kernel's arguments are.")
@click.option("--kernel", "name", metavar="NAME", help="Which kernel of the file. [default: the only one]")
@click.option("--launch", metavar=f'"{_WORDS}"', help="Instead of what the contract says.")
@click.option(
    "--cubin",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Machine code: loads that it moved above the wait are executed there.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Of every draw.")
@click.option("--schedules", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Drawn runs.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Million thread-instructions a run.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes, for long runs. [default: one per core]")
@click.option("--trace", is_flag=True, help="Also print what one thread of the failing run executed.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
def run(
    path: str,
    contract: str,
    name: str | None,
    launch: str | None,
    cubin: str | None,
    seed: int,
    schedules: int,
    limit: int,
    jobs: int | None,
    trace: bool,
    format_: str,
) -> int:
    """Run compiled PTX on a CPU, with memory that plays against it.

    Exit codes: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted.
    """
    import json
    import os
    from dataclasses import replace

    from validator.cli.output import emit
    from validator.emulate.agreement import Static, agree
    from validator.emulate.audited import audited
    from validator.emulate.document import run_document
    from validator.emulate.hoisted import hoisted_loads
    from validator.emulate.launch import Prepared, prepare, with_other_numbers
    from validator.emulate.machine import Limits
    from validator.emulate.play import play
    from validator.emulate.run import compile_kernel, find_kernel
    from validator.emulate.text import run_text, status_of
    from validator.emulate.trace import trace_text
    from validator.ordering.ptx import read_ptx

    said = {} if launch is None else _launch(launch)
    data = Path(path).read_bytes()
    program = find_kernel(read_ptx(data, Path(path).name), name)
    contracts, steps, declared = _contract(contract, program, said)
    prepared = prepare(program, declared)
    if not isinstance(prepared, Prepared):
        raise click.ClickException(f"{program.name}: {prepared}")
    file = Path(path).name
    audit = audited(data, file, program.name, contracts, steps, None if cubin is None else Path(cubin))
    prepared, *others = (
        replace(p, step=audit.step, counters=audit.counters) for p in (prepared, *with_other_numbers(program, declared))
    )
    hoisted = None if cubin is None else hoisted_loads(audit, program)
    code = compile_kernel(program, data, hoisted or frozenset())
    report = play(
        code,
        prepared,
        seed,
        schedules,
        Limits(limit * 1_000_000),
        moves_noncoherent=hoisted is None,
        others=others,
        jobs=jobs or os.cpu_count() or 1,
    )
    agreement = agree(Static.of(audit.all), report.hazards)
    if format_ == "json":
        trace = False
        emit(json.dumps(run_document(report, agreement, code, prepared, seed), indent=2) + "\n")
    else:
        emit(run_text(report, agreement, code, prepared, seed))
    if trace:
        emit(trace_text(program, data, prepared, report, hoisted or frozenset()))
    return 0 if status_of(report, agreement) == "pass" else 1


def _launch(text: str) -> dict[str, tuple[int, ...] | int]:
    """Keys of a contract's `launch`: `grid=4,1,1 block=128 shared=4096` in any order."""
    found: dict[str, tuple[int, ...] | int] = {}
    if not text.strip():
        raise click.UsageError(f'--launch: it is empty; say one or more of "{_WORDS}"')
    for word in text.split():
        match = _SIZES.fullmatch(word) or _SHARED.fullmatch(word)
        if match is None:
            raise click.UsageError(f'--launch: {word!r} is none of "{_WORDS}"')
        if match[1] in found:
            raise click.UsageError(f"--launch: {match[1]} is given twice")
        sizes = tuple(map(int, re.split("[,x]", match[2])))
        found[match[1]] = sizes[0] if match[1] == "shared" else sizes
    return found


def _contract(
    path: str, program: PtxProgram, launch: Mapping[str, tuple[int, ...] | int]
) -> tuple[tuple[KernelContract, ...], tuple[Step, ...], KernelContract]:
    """All tables of the file, its steps, and the table that means this kernel, `launch` in place of what it says."""
    from validator.manifest.load import load_contract
    from validator.manifest.matching import match_contract

    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--contract {path}: {error.strerror or error}") from None
    contracts, steps = load_contract(raw, path)
    found = match_contract(contracts, program.name)
    if found is None:
        raise click.UsageError(f"--contract {path}: no table of it matches {program.name!r}")
    launched = found.model_copy(update={"launch": found.launch.model_copy(update=dict(launch))})
    return tuple(launched if one is found else one for one in contracts), steps, launched
