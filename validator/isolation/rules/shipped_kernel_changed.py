"""A compiled kernel that already shipped is no longer the same.

Kernels of others run with the switch off. Each one that the base holds in compiled form (PTX, cubins, libraries outside
the isolated paths) is compared with the head's, without names, source lines and debug sections.

To mend it, build the new kernels into files of their own, with their own flags, and leave the shipped files alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/shipped-kernel-changed", "a kernel that already shipped changed", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    shipped = analyse(context).shipped
    for path, name, old, new in shipped.changed:
        differ = old.registers != new.registers
        how = f": its registers went from {old.registers} to {new.registers}" if differ else ""
        yield finding(RULE, path, f"{_shown(name)} changed{how}", why=_WHY, fix=_FIX, identity=(path, name))
    for path, name in shipped.gone:
        yield finding(RULE, path, f"{_shown(name)} is gone", why=_WHY, fix=_FIX, identity=(path, name, "gone"))


_WHY = "it runs with the switch off"
_FIX = "build the new kernels into files of their own"


def _shown(name: str) -> str:
    return f"kernel {name}" if name else "the file"
