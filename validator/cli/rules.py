"""`validator rules`: every rule with its severity and title."""

from __future__ import annotations

import click

__all__ = ["rules"]


@click.command()
@click.option("--format", "format_", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
def rules(format_: str) -> None:
    """List every rule with its severity."""
    from validator.cli.output import emit
    from validator.rules import all_rules

    if format_ == "markdown":
        from validator.report.rule_pages import render_rules

        emit(render_rules())
        return
    known = all_rules()
    if format_ == "json":
        import json

        rows = [
            {
                "id": r.id,
                "title": r.title,
                "severity": r.severity.value,
                "waivable": r.waivable,
                "aliases": list(r.aliases),
            }
            for r in known
        ]
        emit(json.dumps({"schema": "validator/rules/1", "rules": rows}, indent=2) + "\n")
        return
    width = max((len(r.id) for r in known), default=0)
    for rule in known:
        waivable = "" if rule.waivable else " (cannot be waived)"
        emit(f"{rule.id:<{width}}  {rule.severity.value:<8}  {rule.title}{waivable}\n")
