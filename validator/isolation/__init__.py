"""Isolation: who can be reached by this change. `run(context)` is the stage, `RULES` its checks."""

from validator.isolation.rules import RULES
from validator.isolation.stage import run

__all__ = ["RULES", "run"]
