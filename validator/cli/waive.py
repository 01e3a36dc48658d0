"""`validator waive FINDING`: a waiver file, to be merged into the base branch by whoever may."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["waive"]


@click.command()
@click.argument("finding", metavar="FINDING")
@click.option("--owner", required=True, metavar="NAME", help="Who answers for it.")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is acceptable for a while.")
@click.option("--link", required=True, metavar="URL", help="Where it was discussed.")
@click.option("--expires", required=True, metavar="DAY", help="Last day on which it counts, as 2027-01-31.")
@click.option("--created", metavar="DAY", help="First day. [default: today]")
@click.option("--output", metavar="FILE", help="[default: policies/waivers/RULE-DIGITS.toml]")
def waive(
    finding: str, owner: str, reason: str, link: str, expires: str, created: str | None, output: str | None
) -> int:
    """Write a waiver of one finding, by its exact id.

    It counts once it is on the base branch: a change is never judged by a waiver that it brings itself. Findings of the
    gate/ family have none.

    Exit codes: 0 written, 2 cannot be waived.
    """
    from datetime import UTC, datetime

    from validator.cli.output import emit
    from validator.policy.waivers import waiver_text
    from validator.rules import unwaivable
    from validator.text import visible
    from validator.verdict.bundle import put

    today = datetime.now(UTC).date().isoformat()
    said = {"finding": finding, "owner": owner, "reason": reason, "link": link}
    text = waiver_text(said | {"created": created or today, "expires": expires}, unwaivable())
    name = finding.replace("/", "-").replace(":", "-")
    path = Path(output) if output else Path("policies/waivers", f"{name}.toml")
    if path.exists():
        raise click.UsageError(f"{path} is there already; name another file with --output")
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, text.encode())
    emit(f"written: {visible(str(path))}; it counts once it is on the base branch\n")
    return 0
