"""`validator record`: the steps that a caller makes, and whether what is declared fixed stays as it is."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["record"]


@click.command()
@click.option("--manifest", required=True, metavar="FILE", help="Contracts: a manifest or its kernel part.")
@click.option("--tree", default=".", show_default=True, metavar="DIR", help="Folder that the callables come from.")
@click.option("--run", "target", required=True, metavar="MODULE:FUNCTION", help="Makes one step; called once a step.")
@click.option("--steps", type=click.IntRange(2, 100), default=3, show_default=True, help="How many.")
@click.option("--device", type=click.Choice(("cpu", "cuda")), default="cuda", show_default=True, help="What they need.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
def record(manifest: str, tree: str, target: str, steps: int, device: str, format_: str) -> int:
    """Record what a caller launches, and whether weights stay.

    Watches the `torch` callables of the contracts while MODULE:FUNCTION runs, confined. Prints the step as a [[steps]]
    table for the manifest.

    Exit codes: 0 nothing that is declared fixed changed, 1 something did or nothing is known, 2 could not run.
    """
    import json

    from validator.cli.output import emit
    from validator.gpu.recording import broken_roles, step_of
    from validator.manifest.load import load_contract
    from validator.pipeline.roles import NotRecorded, table_of
    from validator.pipeline.roles import record as recorded
    from validator.text import visible

    try:
        data = Path(manifest).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{manifest}: {error.strerror or error}") from None
    if not Path(tree).is_dir():
        raise click.UsageError(f"--tree {tree}: no such folder")
    contracts, _ = load_contract(data, manifest)
    try:
        recording = recorded(contracts, Path(tree).absolute(), target, device, steps)
    except NotRecorded as error:
        emit("".join(f"UNPROVEN {visible(str(problem))}\n" for problem in error.problems))
        return 1
    broken = [str(one) for one in broken_roles(recording)]
    step = step_of(recording)
    if format_ == "json":
        launches = len(recording.launches)
        said = {"steps": steps, "launches": launches, "broken": broken, "step": step.model_dump(mode="json")}
        emit(json.dumps(said, indent=2) + "\n")
    else:
        told = [f"REFUTED {visible(one)}" for one in broken] or [f"PROVEN {len(recording.first)} fixed buffers stayed"]
        emit("\n".join([*told, "", *map(visible, table_of(step))]) + "\n")
    return 1 if broken else 0
