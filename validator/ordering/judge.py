"""What an early access means for a role. The table of `validator explain roles`, as one function."""

from __future__ import annotations

from dataclasses import dataclass

from validator.manifest.roles import Role
from validator.ordering.memory import Declared, Touch
from validator.ordering.program import Order
from validator.verdict.model import Severity

__all__ = ["Judgement", "judge", "judge_target"]

_SYNCHRONISES = (Order.VOLATILE, Order.RELAXED, Order.ACQUIRE, Order.RELEASE, Order.ACQ_REL, Order.SC)

_DANGER = {
    Role.ACTIVATION: "an earlier kernel of the step may still be writing it",
    Role.INDEX: "a stale index steers later addresses to the wrong place",
    Role.STATE: "the previous step may still be writing it",
    Role.OUTPUT: "the previous kernel may still use this memory",
    Role.WORKSPACE: "the previous launch may still use this memory",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    allowed: bool
    severity: Severity | None
    """None when allowed."""
    reason: str


def judge_target(touch: Touch, target: Declared) -> Judgement:
    """One possible target of an access that comes before any wait that orders it."""
    role, word = target.role, touch.word
    if word == "prefetch":
        return Judgement(True, None, "a prefetch moves no value into the kernel")
    if role is None:
        return Judgement(False, Severity.UNPROVEN, "no role is declared for it")
    if role is Role.SCALAR:
        return Judgement(False, Severity.UNPROVEN, "it is declared `scalar` and used as a pointer")
    reads = word in ("read", "async-copy")
    if reads and role.static:
        kind = "fixed for the life of the model" if role is Role.WEIGHT else "declared stable"
        return Judgement(True, None, f"{role.value}: {kind}")
    if role is Role.FLAG and touch.event.order in _SYNCHRONISES:
        return Judgement(True, None, "flag: touched by an operation that synchronises")
    if role is Role.MAILBOX and word == "read":
        return Judgement(True, None, "mailbox: the word carries its own validity, checked before use")
    if role is Role.FLAG:
        return Judgement(False, Severity.ERROR, "a flag may only be touched by operations that synchronise")
    danger = _DANGER.get(role, "what still runs may use this memory")
    if touch.writes and role.static:
        danger = f"it is declared {role.value} and is written here"
    return Judgement(False, Severity.ERROR, danger)


def judge(touch: Touch) -> Judgement:
    """All targets of an early access together: the worst certain one decides."""
    if touch.word == "prefetch":
        return Judgement(True, None, "a prefetch moves no value into the kernel")
    each = [(t, judge_target(touch, t)) for t in touch.targets]
    certain = [j for t, j in each if j.severity is Severity.ERROR and not t.ambiguous]
    if certain:
        return certain[0]
    if touch.unresolved:
        return Judgement(False, Severity.UNPROVEN, touch.unresolved)
    doubtful = [j for _, j in each if not j.allowed]
    if doubtful:
        guess = next((j for j in doubtful if j.severity is Severity.UNPROVEN), doubtful[0])
        return Judgement(False, Severity.UNPROVEN, guess.reason)
    return each[0][1]
