"""Reading untrusted `Evidence.details`: what has not the expected shape is left out, never believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validator.verdict.model import Evidence

__all__ = ["count", "drawable", "mapping", "number", "rows", "text", "texts"]

_HUGE = 1e300


def rows(evidence: Evidence | Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of a list."""
    found = (evidence.details if isinstance(evidence, Evidence) else evidence).get(key)
    return [r for r in found if isinstance(r, dict)] if isinstance(found, list) else []


def text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


def count(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) and value >= 0 else 0


def texts(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The strings of a list."""
    value = row.get(key)
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def number(row: Mapping[str, Any], key: str) -> float | None:
    """Not negative, finite, and of a size that can be drawn."""
    return drawable(row.get(key))


def drawable(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < _HUGE else None


def mapping(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}
