"""Loads that the compiler may move across a wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.memory import Touch

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["movable"]


def movable(facts: Facts) -> list[Touch]:
    """Non-coherent loads of memory that is not static and that are not early here, in text order."""
    return [
        t
        for t in facts.touches
        if t.word == "read"
        and t.event.noncoherent
        and t.index not in facts.early_indices
        and not (t.targets and not t.unresolved and all(x.role is not None and x.role.static for x in t.targets))
    ]
