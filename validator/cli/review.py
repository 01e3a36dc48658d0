"""`validator approve` and `validator reject`: what a person decided about a bundle, recorded beside it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

__all__ = ["approve", "reject"]

Command = TypeVar("Command", bound=Callable[..., Any])


def _shared(command: Command) -> Command:
    for add in (
        click.option("--key", metavar="FILE", help="Private key (PEM) that signs the decision."),
        click.option("--reason", required=True, metavar="TEXT", help="Why, for whoever reads it later."),
        click.option("--reviewer", required=True, metavar="NAME", help="Who decides."),
        click.argument("bundle", metavar="BUNDLE"),
    ):
        command = add(command)
    return command


@click.command()
@_shared
@click.option("--accept", "risks", multiple=True, metavar="OBLIGATION=DAY", help="Accept an unproven one until a day.")
def approve(bundle: str, reviewer: str, reason: str, key: str | None, risks: tuple[str, ...]) -> int:
    """Approve the change that BUNDLE is about.

    Each unproven obligation has to be accepted by name until a day; what was refuted cannot be approved.

    Exit codes: 0 recorded, 1 the bundle was touched, 2 cannot be recorded.
    """
    return _record(bundle, "approve", reviewer, reason, key, [_risk(text) for text in risks])


@click.command()
@_shared
def reject(bundle: str, reviewer: str, reason: str, key: str | None) -> int:
    """Reject the change that BUNDLE is about.

    Exit codes: 0 recorded, 1 the bundle was touched, 2 cannot be recorded.
    """
    return _record(bundle, "reject", reviewer, reason, key, [])


def _risk(text: str) -> tuple[str, date]:
    name, equals, day = text.rpartition("=")
    try:
        return name, date.fromisoformat(day if equals else "")
    except ValueError:
        raise click.BadParameter(f"{text!r} is not OBLIGATION=YYYY-MM-DD", param_hint="--accept") from None


def _record(
    bundle: str,
    decision: Literal["approve", "reject"],
    reviewer: str,
    reason: str,
    key: str | None,
    risks: list[tuple[str, date]],
) -> int:
    from datetime import UTC, datetime

    from validator.cli.output import emit
    from validator.cli.verify import touched
    from validator.text import visible
    from validator.verdict.review import record

    folder = Path(bundle)
    if touched(folder):
        return 1
    done = record(folder, decision, reviewer, reason, risks, datetime.now(UTC), Path(key) if key else None)
    signed = "signed" if done.signatures else "not signed (name a key with --key)"
    emit(
        visible(f"recorded: {decision} of {done.review.bundle} by {done.review.reviewer}, {signed}: {done.name}") + "\n"
    )
    return 0
