"""`validator plan`: what a check would run, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from validator.cli.cache import cache_option, opened_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from validator.manifest.contract import KernelContract
    from validator.policy.model import DifferentialPolicy
    from validator.verdict.result import CheckResult

__all__ = ["plan"]

_FAMILIES = ("build", "ordering", "differential")
"""Stages that run cells."""


@click.command()
@click.option("--base", required=True, metavar="REF", help="What the change is judged against; holds the policy.")
@click.option("--head", required=True, metavar="REF", help="The change.")
@click.option("--repo", default=".", show_default=True, metavar="DIR", help="Repository, bare or not.")
@click.option("--rfc", metavar="FILE", help="Manifest, as a path in the head. [default: the one the change brings]")
@click.option("--policies", metavar="REF-or-DIR", help="Where the policy is read. [default: the base]")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="As of the check.")
@click.option("--shard", metavar="I/N", help="Only the cells of this part.")
@cache_option
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
def plan(
    base: str,
    head: str,
    repo: str,
    rfc: str | None,
    policies: str | None,
    seed: int,
    shard: str | None,
    cache: str | None,
    format_: str,
) -> int:
    """List the cells of a check in their order, what they cost, and what is left out and why.

    Costs are those of past runs where the --cache knows them. Exit codes: 0 listed, 2 could not run.
    """
    import json

    from validator.cli.output import emit
    from validator.pipeline import Options
    from validator.pipeline import check as run_check
    from validator.pipeline.stages import STAGES
    from validator.scale.engine import Engine
    from validator.scale.local import Local
    from validator.scale.plan import Plan, Planner
    from validator.scale.shard import Shard

    part = Shard.parse(shard) if shard is not None else None
    stages = [entry for entry in STAGES if entry.name in _FAMILIES]
    with opened_store(cache) as store, Local() as executor:
        engine = Engine(executor, [store] if store is not None else [])
        planner = Planner(engine.seconds, engine.is_known)
        options = Options(Path(repo), base, head, rfc, policies, seed)
        result = run_check(options, stages=stages, work=planner, store=store)  # cases that were drawn once
    whole = Plan(planner.rows, _left_out(result), _notes(result))
    shown = whole.part(part) if part is not None else whole
    emit(json.dumps(shown.document(), indent=2) + "\n" if format_ == "json" else shown.text())
    return 0


def _left_out(result: CheckResult) -> list[tuple[str, str]]:
    """What no cell will settle, as the stages say."""
    from validator.scale.plan import PLANNED

    ours = [o for o in result.obligations if o.id.partition("/")[0] in _FAMILIES]
    return [(o.id, o.reason) for o in ours if o.reason and PLANNED not in o.reason]


def _notes(result: CheckResult) -> list[str]:
    """Out of how much the cases of each kernel were chosen."""
    from validator.manifest.parallel import left_whole

    policy, manifest = result.policy, result.manifest
    if policy is None or manifest is None:
        return []
    wanted = policy.differential
    notes = [f"{wanted.seeds} root seeds, each with cases of its own"] * (wanted.seeds > 1)
    for contract in (contract for contract in manifest.kernels if contract.runnable):
        notes += _combined(contract, wanted)
        notes += [f"{contract.match}: {gap}" for gap in left_whole(contract)]
    return notes


def _combined(contract: KernelContract, wanted: DifferentialPolicy) -> Iterator[str]:
    """How the cases were chosen that bring values together."""
    from validator.differential.combined import combinations
    from validator.errors import ValidatorError

    try:
        cover = combinations(contract, wanted.strength)
    except ValidatorError as error:  # the kernel's obligation says so
        yield f"{contract.match}: {error}"
        return
    if cover is None:
        return
    room = len(cover) if wanted.strength is not None else wanted.min_cases // 2
    run = f"all {len(cover):,} are run" if len(cover) <= room else f"the first {room:,} are run (half of `min_cases`)"
    together = {2: "pairs", 3: "triples"}.get(cover.strength, f"{cover.strength} at a time")
    held = (
        f"all {cover.combinations:,}" if cover.strength == len(cover.factors) else f"{cover.combinations:,} {together}"
    )
    yield (
        f"{contract.match}: {cover.raw:,} combinations of sizes, types, layouts and choices; {len(cover):,} cases "
        f"hold {held} that the contract allows ({cover.impossible:,} it does not), {run}"
    )
