"""Differential tests: candidate against reference, on inputs that find real bugs. `run(context)` is the stage."""

from validator.differential.rules import RULES
from validator.differential.stage import run

__all__ = ["RULES", "run"]
