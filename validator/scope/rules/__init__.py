"""Rules on what the change declares, one module each."""

from __future__ import annotations

from validator.checks import Check
from validator.scope.rules import (
    dependency_changed,
    manifest_expired,
    manifest_expires_too_late,
    manifest_invalid,
    manifest_missing,
    manifest_without_owner,
    several_manifests,
    switch_missing,
    wider_than_policy,
)

__all__ = ["BOUNDS", "DEPENDENCIES", "MANIFEST", "RULES"]

MANIFEST: tuple[Check, ...] = (
    manifest_missing,
    several_manifests,
    manifest_invalid,
    manifest_expired,
    manifest_expires_too_late,
    manifest_without_owner,
    switch_missing,
)
BOUNDS: tuple[Check, ...] = (wider_than_policy,)
DEPENDENCIES: tuple[Check, ...] = (dependency_changed,)
RULES: tuple[Check, ...] = MANIFEST + BOUNDS + DEPENDENCIES
"""Every rule of the stage."""
