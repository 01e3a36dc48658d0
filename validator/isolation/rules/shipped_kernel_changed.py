"""A compiled kernel that already shipped is no longer the same.

Kernels of others run with the switch off. Each one that the base holds in compiled form (PTX, cubins, and the kernels
in objects, libraries, fat binaries and wheels outside the isolated paths) is compared with the head's; so is each that
a `[[builds]]` table of a manifest says how to build, made here at the base and at the head by the same compiler. What
counts is code, constants, launch parameters and relocations, without names, source lines and debug sections. Where
register count, stack (spills), shared memory or the size of the code differ, that is said.

To mend it, build the new kernels into files of their own, with their own flags, and leave the shipped files alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.kernels.model import Kernel
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/shipped-kernel-changed", "a kernel that already shipped changed", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    shipped = analyse(context).shipped
    for changed in shipped.changed:
        how = f": {', '.join(changed.differences)}" if changed.differences else ""
        yield finding(
            RULE, changed.path, f"{changed.base} changed{how}", why=_WHY, fix=_FIX,
            identity=(changed.path, *_identity(changed.base)),
        )  # fmt: skip
    for gone in shipped.gone:
        renamed = f": the same code is now called {gone.now}" if gone.now else ""
        yield finding(
            RULE, gone.path, f"{gone.kernel} is gone{renamed}", why=_WHY, fix=_FIX,
            identity=(gone.path, *_identity(gone.kernel), "gone"),
        )  # fmt: skip
    for item in shipped.broken:
        yield finding(RULE, item.path, f"{item.path} {item.why}", why=_WHY, fix=_FIX, identity=(item.path, "broken"))


_WHY = "it runs with the switch off"
_FIX = "build the new kernels into files of their own"


def _identity(kernel: Kernel) -> tuple[str, ...]:
    """Of one kernel in its file; several of one name are told apart by what they were."""
    return (kernel.name, kernel.target, kernel.fingerprint)
