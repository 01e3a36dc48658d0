"""Scope: what the change says it is for, held against what policy allows."""

from __future__ import annotations

from validator.checks import Goal, settle
from validator.globs import matches
from validator.scope.manifests import look_up
from validator.scope.rules import BOUNDS, DEPENDENCIES, MANIFEST
from validator.stage import StageContext
from validator.verdict.model import StageResult

__all__ = ["run"]


def _manifest_figures(context: StageContext) -> dict[str, int]:
    found = look_up(context.change, context.policy, context.manifest_path)
    manifest = found.manifest
    return {
        "manifests": 1 if found.path else len(found.brought),
        "owners": len(manifest.owners) if manifest else 0,
        "kernels declared": len(manifest.kernels) if manifest else 0,
    }


def _scope_figures(context: StageContext) -> dict[str, int]:
    found = look_up(context.change, context.policy, context.manifest_path)
    scope = found.manifest.scope if found.manifest else None
    keys = ("models", "architectures", "dtypes", "parallelism")
    return {key: len(getattr(scope, key)) if scope else 0 for key in keys}


def _dependency_figures(context: StageContext) -> dict[str, int]:
    files = context.change.files
    watched = sum(any(matches(p, context.policy.dependencies.files) for p in file.paths) for file in files)
    return {"changed files": len(files), "dependency files": watched}


def _blocked(context: StageContext) -> str:
    found = look_up(context.change, context.policy, context.manifest_path)
    return "" if found.manifest else "there is no readable manifest"


def _blocked_if_required(context: StageContext) -> str:
    return _blocked(context) if context.policy.manifest.required else ""


GOALS = (
    Goal(
        "scope/manifest",
        "The change brings one valid manifest with an owner, a switch and an end.",
        MANIFEST,
        _manifest_figures,
        _blocked_if_required,
        denial="The change brings no valid manifest with an owner, a switch and an end.",
    ),
    Goal(
        "scope/bounds",
        "Models, architectures, dtypes, batch sizes and parallelism stay within what policy allows.",
        BOUNDS,
        _scope_figures,
        _blocked,
        ("that the code runs within the declared scope only",),
        "Models, architectures, dtypes, batch sizes or parallelism go beyond what policy allows.",
    ),
    Goal(
        "scope/dependencies",
        "The change does not alter what is installed.",
        DEPENDENCIES,
        _dependency_figures,
        denial="The change alters what is installed.",
    ),
)


def run(context: StageContext) -> StageResult:
    """Obligations `scope/manifest`, `scope/bounds` and `scope/dependencies`."""
    return settle(context, GOALS)
