"""Rules on files that judge a change, one module each. Nothing waives their findings."""

from __future__ import annotations

from validator.checks import Check
from validator.gate.rules import (
    ci_edited,
    policy_edited,
    reference_edited,
    test_edited,
    validator_config_edited,
    waiver_edited,
)

__all__ = ["CONFIGURATION", "POLICY", "REFERENCES", "RULES", "TESTS"]

POLICY: tuple[Check, ...] = (policy_edited, waiver_edited)
TESTS: tuple[Check, ...] = (test_edited,)
REFERENCES: tuple[Check, ...] = (reference_edited,)
CONFIGURATION: tuple[Check, ...] = (ci_edited, validator_config_edited)
RULES: tuple[Check, ...] = POLICY + TESTS + REFERENCES + CONFIGURATION
"""Every rule of the stage."""
