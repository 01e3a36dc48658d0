"""The page in four sentences: what happened, what decided it and what mends it, the largest gap, and what to do now."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass

from validator.report.gaps import largest
from validator.report.glance import kernels_at_a_glance
from validator.report.standing import by_subject, stands
from validator.report.words import SHOWN_AGAIN, STRENGTHS, plural, shows_again
from validator.rules import all_rules, unwaivable
from validator.verdict.model import Finding, Obligation, Status, Strength, Verdict
from validator.verdict.result import CheckResult, deciding, site

__all__ = ["Brief", "brief", "decision"]


@dataclass(frozen=True, slots=True)
class Brief:
    """Raw text; the format that shows it escapes it."""

    verdict: str
    """What has to be read with the verdict itself; empty where it says enough."""
    happened: str
    decided: str
    """The deciding fact, with its place."""
    place: tuple[str, int | None] | None
    """(path, line) of that place; None where the fact has none."""
    next: str
    """What mends it, or how to see it again, as `What mends it: …`; empty where nothing has to be mended."""
    gap: str
    """The largest one; empty where nothing is known to be missing, which hardly ever is so."""
    action: str
    """What is recommended to the person who judges."""

    @property
    def is_shown_again(self) -> bool:
        """Whether `next` is a command that shows the fault once more, and mends nothing."""
        return shows_again(self.next.removeprefix(f"{SHOWN_AGAIN}: "))

    def lines(self) -> tuple[tuple[str, str], ...]:
        """(what it says, the sentence), for formats that show one after the other."""
        # A command that is broken into lines cannot be pasted: it stands by itself, with its finding.
        shown = "The command that shows it again stands with the finding below" if self.is_shown_again else self.next
        decided = f"{self.decided}. {shown}" if shown else self.decided
        gap = self.gap or "none is known, which is no promise that there is none"
        return (
            ("What happened", self.happened),
            ("What decided it", decided),
            ("Largest gap", gap),
            ("Recommended", self.action),
        )


def brief(result: CheckResult) -> Brief:
    """Computed from the result alone; it overstates nothing because it quotes obligations, findings and gaps."""
    first = next(iter(by_subject(result.obligations)), None)
    finding = deciding(result, first) if first else None
    return Brief(
        verdict=_not_run(result) if result.verdict is Verdict.PASS else "",
        happened=_happened(result, first, finding),
        decided=_decided(result, finding, first),
        place=site(result.change, finding.where)[:2] if finding and result.verdict is not Verdict.PASS else None,
        next=_next(finding) if finding and result.verdict is not Verdict.PASS else "",
        gap=largest(result),
        action=_action(result, finding),
    )


_ACCEPTED = 10
"""Open obligations that the command names one by one."""


def decision(result: CheckResult) -> tuple[str, ...]:
    """Commands with which a person checks the bundle and records a decision; capitals stand for what only they know."""
    who = "--reviewer NAME --reason TEXT"
    if result.verdict is Verdict.FAIL:
        return ("validator verify BUNDLE", f"validator reject BUNDLE {who}")
    open_ = [o.id for o in by_subject(result.obligations) if o.status is Status.UNPROVEN]
    risks = "".join(f" --accept {shlex.quote(f'{name}=YYYY-MM-DD')}" for name in open_[:_ACCEPTED])
    more = " …" if len(open_) > _ACCEPTED else ""
    return (
        "validator verify BUNDLE",
        f"validator approve BUNDLE {who}{risks}{more}",
        f"validator reject BUNDLE {who}",
    )


_RAN = (Strength.GPU_RUN, Strength.PTX_RUN)


def _not_run(result: CheckResult) -> str:
    """What a pass must not be mistaken for: compiled kernels that no stage ran, on a GPU or as PTX."""
    kernels = kernels_at_a_glance(result)
    still = [k.match for k in kernels if not any(e.strength in _RAN and e.status is Status.PROVEN for e in k.audits)]
    if not still:
        return ""
    them = ["the compiled kernel itself was", "the compiled kernels themselves were"][len(kernels) > 1]
    if len(still) < len(kernels):
        them = f"of the compiled kernels, {', '.join(still)} {'was' if len(still) == 1 else 'were'}"
    return f"nothing the policy asks for was refuted; {them} not run"


def _happened(result: CheckResult, first: Obligation | None, finding: Finding | None) -> str:
    counts = Counter(o.status for o in result.obligations)
    if first is None:
        return "Nothing was examined, and no evidence is never a pass"
    if result.verdict is Verdict.PASS:
        settled = counts[Status.PROVEN] + counts[Status.WAIVED]
        waived = f", {counts[Status.WAIVED]} of them by waiver" if counts[Status.WAIVED] else ""
        return f"Nothing that the policy asks for was refuted or left open: {settled} obligations are settled{waived}"
    if result.verdict is Verdict.FAIL:
        return f"Refused: {_fault(first, finding)}" + _more(counts[Status.REFUTED], "refuted")
    return f"Not settled: {stands(first)}" + _more(counts[Status.UNPROVEN], "open")


def _fault(obligation: Obligation, finding: Finding | None) -> str:
    """The title of the broken rule, which is written for people; what denies the obligation where there is none."""
    title = next((rule.title for rule in all_rules() if finding and rule.id == finding.rule), "")
    if finding is None or not title:
        return stands(obligation)
    return f"{title}, in {finding.where.kernel}" if finding.where.kernel else title


def _more(count: int, what: str) -> str:
    return f" (and {count - 1} more {what})" if count > 1 else ""


def _decided(result: CheckResult, finding: Finding | None, first: Obligation | None) -> str:
    if result.verdict is Verdict.PASS:
        return f"It rests on: {_strengths(result)}"
    if finding is not None:
        path, line, inside = site(result.change, finding.where)
        place = f"{path}:{line}" if line else path
        fact = first.reason if first and finding.message in first.reason else finding.message
        return f"{fact}, at {place}" + (f" ({inside})" if inside else "")
    return first.reason if first is not None else "there is no obligation"


def _next(finding: Finding) -> str:
    """In a sentence: the code that may follow it stands with the finding. A fix may be a command that shows it."""
    line = next((line.strip().rstrip(".:") for line in finding.fix.split("\n") if line.strip()), "")
    if not line:
        return ""
    return f"{SHOWN_AGAIN if shows_again(line) else 'What mends it'}: {line}"


def _strengths(result: CheckResult) -> str:
    """Which kinds of evidence carry a pass, strongest first, and how much each carries."""
    carried = Counter(o.strength for o in result.obligations if o.status is Status.PROVEN and o.strength)
    known = [f"{STRENGTHS[s]} ({plural(carried[s], 'obligation')})" for s in Strength if carried[s]]
    return ", ".join(known) or "waivers and reasons alone"


_ACCEPTABLE = frozenset(
    f"isolation/{name}"
    for name in (
        "binary-file",
        "executable-bit",
        "file-too-large",
        "hidden-text",
        "path-not-isolated",
        "submodule",
        "symlink",
        "too-many-shared-files",
        "too-many-shared-lines",
        "undeclared-entry",
        "unreadable-path",
        "wider-than-declared",
    )
)
"""What a person may accept beside `scope/…`: size, place and style. Wrong results, leaks and races are mended."""


def _acceptable(rule: str) -> bool:
    return rule.startswith("scope/") or rule in _ACCEPTABLE


def _action(result: CheckResult, finding: Finding | None) -> str:
    if result.verdict is Verdict.PASS:
        gaps = f" and the {plural(len(result.not_covered), 'gap')}" if result.not_covered else ""
        return f"Judge the design{gaps} below, then record it with `validator approve` or `validator reject`"
    if result.verdict is Verdict.FAIL:
        back = "Do not merge. Send it back with the deciding fact and ask for a new run"
        if finding is None or finding.rule.startswith("gate/") or finding.rule in unwaivable():
            return f"{back}; no waiver covers it"
        if not _acceptable(finding.rule):
            return back
        return f"{back}; if it is acceptable for a while, a waiver on the base says so by name (`validator waive`)"
    return (
        "Do not merge as it is. Ask for the missing evidence, or accept each open obligation by name until a day "
        "(`validator approve --accept OBLIGATION=DAY`)"
    )
