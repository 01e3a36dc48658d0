"""`validator explain RULE`: what a rule looks for, why, and how to mend it."""

from __future__ import annotations

import click

__all__ = ["explain"]


@click.command()
@click.argument("topic", metavar="RULE")
def explain(topic: str) -> None:
    """Explain a rule, or the argument roles.

    RULE is an id such as order/early-read, a finding's id, or `roles`.
    """
    from validator.cli.output import emit
    from validator.rules import page
    from validator.text import visible

    # A finding's id is its rule's id and a digest; either may be pasted here.
    text = page(topic.partition(":")[0])
    if isinstance(text, str):
        emit(text + "\n")
        return
    hint = f"did you mean {text.nearest!r}?" if text.nearest else "`validator rules` lists them"
    raise click.UsageError(f"there is no rule {visible(topic)!r}; {hint}")
