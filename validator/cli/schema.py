"""`validator schema NAME`: JSON Schema of what this program writes and reads."""

from __future__ import annotations

import click

__all__ = ["schema"]


@click.command()
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schema of a document.

    Without NAME, list the documents.
    """
    import json

    from validator.cli.output import emit
    from validator.report.schemas import SCHEMAS, schema_of
    from validator.text import nearest

    if name is None:
        for known, published in SCHEMAS.items():
            emit(f"{known:<10} {published.summary}\n")
        return
    if name not in SCHEMAS:
        meant = nearest(name, list(SCHEMAS))
        raise click.UsageError(
            f"there is no schema {name!r}; " + (f"did you mean {meant!r}?" if meant else f"known: {', '.join(SCHEMAS)}")
        )
    emit(json.dumps(schema_of(name), indent=2) + "\n")
