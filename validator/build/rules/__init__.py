"""Rules of the build stage: one module each, its docstring the page of `validator explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from validator.build.rules import does_not_build, not_reproducible, shipped_differs
from validator.build.target import Target
from validator.rule import Rule
from validator.verdict.model import Finding

__all__ = ["RULES", "findings_of"]


class _Module(Protocol):
    @property
    def RULE(self) -> Rule: ...

    @property
    def check(self) -> Callable[[Target], Iterator[Finding]]: ...


RULES: tuple[_Module, ...] = (shipped_differs, not_reproducible, does_not_build)


def findings_of(target: Target) -> tuple[Finding, ...]:
    """What the rules find in one source for one architecture."""
    return tuple(finding for module in RULES for finding in module.check(target))
