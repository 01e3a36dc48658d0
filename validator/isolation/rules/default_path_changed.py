"""With the switch off, a shared file does not do what it did before.

The first promise of a fast-track change is that nobody who leaves the switch alone notices it. Each changed shared
Python file is evaluated with the switch off, in every way it can be off (not set, its container absent, set to its
default), brought into one form and compared with the base. What is left over is shown here, old beside new: it is the
thing to look at. The evaluator never guesses: what it cannot decide stays, and counts as a difference.

To mend it, put the new code behind the switch (`if config.switch == …:`), import the isolated package inside that
branch, and leave every other line as it was. A correction of shared code that is right for everybody is an ordinary
change: send it first, on its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.blast.imports import When
from validator.isolation.offpath.equivalence import FileProof, Shown
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/default-path-changed", "shared code behaves differently with the switch off", Severity.ERROR)

_WHY = "everybody who does not turn the switch on runs this"
_FIX = "put it behind the switch, or take it out of this change and send it as an ordinary one"


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    leaks = {(i.path, i.line) for i in analysis.radius.inward if i.when is When.EAGER}
    for proof in analysis.proofs:
        for shown in proof.differences:
            # An import that runs whenever the file is loaded is a leak, and said there.
            if not shown.difference.undecided and (proof.path, shown.difference.line) not in leaks:
                yield _finding(proof, shown)
    for path in analysis.deleted:
        yield finding(RULE, path, f"{path} is gone: whoever loads it fails", why=_WHY, fix=_FIX)


def _finding(proof: FileProof, shown: Shown) -> Finding:
    place = shown.difference
    inside = f" in `{place.inside}`" if place.inside else ""
    ways = "" if len(shown.ways) == len(proof.ways) else f" (where the switch is {' or '.join(shown.ways)})"
    what = place.reason or _what(shown)
    return finding(
        RULE,
        proof.path,
        f"with the switch off{ways}, something differs{inside}: {what}",
        line=place.line,
        why=_WHY,
        fix=_FIX,
        steps=_side_by_side(shown),
        identity=(proof.path, place.inside, shown.base_text, shown.head_text, what),
    )


def _what(shown: Shown) -> str:
    if not shown.base_text:
        return f"`{_first(shown.head_text)}` runs as well"
    if not shown.head_text:
        return f"`{_first(shown.base_text)}` no longer runs"
    return f"`{_first(shown.base_text)}` became `{_first(shown.head_text)}`"


def _first(text: str) -> str:
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= 100 else line[:99] + "…"


def _side_by_side(shown: Shown) -> tuple[str, ...]:
    """Old lines, then new lines, numbered."""
    place = shown.difference
    old = [f"base {place.base_line + i}: {t}" for i, t in enumerate(shown.base_text.splitlines())]
    new = [f"head {place.line + i}: {t}" for i, t in enumerate(shown.head_text.splitlines())]
    return (*old, *new)
