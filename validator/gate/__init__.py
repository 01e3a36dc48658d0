"""Gate: whether the change touches what judges it. `run(context)` is the stage, `RULES` its checks."""

from validator.gate.rules import RULES
from validator.gate.stage import run

__all__ = ["RULES", "run"]
