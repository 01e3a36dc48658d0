"""What a rule is. A rule's module docstring is its `validator explain` page; `RULE` is its registry line."""

from __future__ import annotations

from dataclasses import dataclass

from validator.verdict.model import Severity

__all__ = ["Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Metadata of one check."""

    id: str
    """`family/kebab-case-name-of-the-bad-thing`."""
    title: str
    """One line, what is wrong when it fires."""
    severity: Severity
    """Severity of its findings unless a finding says otherwise."""
    waivable: bool = True
    """`gate/…` findings cannot be waived by the change that has them."""
    aliases: tuple[str, ...] = ()
    """Former ids, still accepted by `explain` and in waivers."""
