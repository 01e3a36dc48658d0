"""A compiled kernel that already shipped is no longer the same.

Kernels of others run with the switch off. Each one that the base holds in compiled form (PTX, cubins, libraries outside
the isolated paths) is compared with the head's: code, constants, launch parameters and relocations, without names,
source lines and debug sections. Where registers, stack (spills) or shared memory differ, that is said.

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
    for changed in shipped.changed:
        how = f": its {', its '.join(changed.resources)}" if changed.resources else ""
        yield finding(
            RULE, changed.path, f"{_shown(changed.name)} changed{how}", why=_WHY, fix=_FIX,
            identity=(changed.path, changed.name),
        )  # fmt: skip
    for path, name in shipped.gone:
        yield finding(RULE, path, f"{_shown(name)} is gone", why=_WHY, fix=_FIX, identity=(path, name, "gone"))


_WHY = "it runs with the switch off"
_FIX = "build the new kernels into files of their own"


def _shown(name: str) -> str:
    if name.startswith("."):
        return f"the variables in {name}, which every kernel of the file sees,"
    return f"kernel {name}" if name else "the file"
