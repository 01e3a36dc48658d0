"""The root of a run's random choices: asked for, of an earlier run that is taken up, or new."""

from __future__ import annotations

from pathlib import Path

__all__ = ["chosen_seed"]


def chosen_seed(seed: int | None, journal: str | None) -> tuple[int, Path | None]:
    """`--seed` and `--journal` → the seed, and the folder."""
    import secrets

    new = secrets.randbits(32)
    if journal is None:
        return (new if seed is None else seed), None
    from validator.differential.journal import run_seed

    return run_seed(Path(journal), seed, new), Path(journal)
