"""Scope: what the change declares. `run(context)` is the stage, `RULES` its checks, `look_up` finds the manifest."""

from validator.scope.manifests import Lookup, look_up
from validator.scope.rules import RULES
from validator.scope.stage import run

__all__ = ["RULES", "Lookup", "look_up", "run"]
