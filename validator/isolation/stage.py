"""Isolation: who can be reached by this change."""

from __future__ import annotations

from dataclasses import replace

from validator.checks import Goal, settle
from validator.isolation.own_code import own_code
from validator.isolation.paths import shared_files
from validator.isolation.rules import CONTENT, PATHS
from validator.isolation.shared_lines import shared_lines
from validator.stage import StageContext
from validator.verdict.model import StageResult

__all__ = ["run"]


def _figures(context: StageContext) -> dict[str, int]:
    shared = list(shared_files(context))
    change = context.change
    return {
        "changed files": len(change.files),
        "lines added": change.added,
        "lines deleted": change.deleted,
        "shared files": len(shared),
        "shared lines": sum(file.lines for file in shared),
    }


def _blocked(context: StageContext) -> str:
    return "" if context.manifest else "no readable manifest says which paths are the change's own"


_PATHS = "isolation/paths"

GOALS = (
    Goal(
        _PATHS,
        "Every changed file is the change's own, or one of the few shared files that policy lets it touch.",
        PATHS,
        _figures,
        _blocked,
        ("that the new path is unreachable while the switch has its default value",),
        "The change touches a file that is neither its own nor one that policy lets it touch.",
    ),
    Goal(
        "isolation/content",
        "The change brings no binary, oversized, linked, executable or unreadable file that policy does not expect.",
        CONTENT,
        lambda context: {"changed files": len(context.change.files)},
        denial="The change brings a file of a kind that policy does not expect.",
    ),
)


def run(context: StageContext) -> StageResult:
    """Obligations `isolation/paths` and `isolation/content`, settled from git objects alone."""
    result = settle(context, GOALS)
    shown = {"excerpts": shared_lines(context), "code": own_code(context)}
    evidence = tuple(replace(e, details=shown) if e.id == _PATHS else e for e in result.evidence)
    return replace(result, evidence=evidence)
