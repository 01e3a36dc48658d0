"""Something new may be found by its name, and only run-time types tell whether it is.

Shared code looks things up: `hasattr(model, "hook")`, a table by key, a hook for subclasses, a method of the same name.
A new method, class attribute or entry with such a name takes part without any call being written. Whether the objects
that reach the lookup have it is a fact about run-time types, which the source text does not hold. So this one thing
stays unproven, with the line that looks it up; everything else is proven without it.

To settle it, a person reads the lookup and says whether anything changes there with the switch off; or the change uses
a hook that the class already has at the base, and returns what it returned before while the switch is off.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/found-by-name", "something new may be found by its name", Severity.UNPROVEN)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for proof in analysis.proofs:
        for shown in proof.differences:
            place = shown.difference
            if not place.undecided or place.raises:
                continue
            path, _, line = place.lookup.rpartition(":")
            seen = f" ({place.lookup}: `{_text(analysis.base.parse(path).lines, int(line))}`)" if path else ""
            yield finding(
                RULE,
                proof.path,
                f"{place.reason}{seen}",
                line=place.line,
                why="check that with the switch off nothing there picks up the new name",
                fix="use a hook that the class has at the base, and return what it returned while the switch is off",
                identity=(proof.path, place.inside, place.reason),
            )


def _text(lines: tuple[str, ...], line: int) -> str:
    return lines[line - 1].strip()[:120] if 0 < line <= len(lines) else ""
