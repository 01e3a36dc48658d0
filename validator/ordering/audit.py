"""The audit of one kernel: facts in, rows, findings and a status out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from validator.manifest.contract import KernelContract
from validator.manifest.roles import Role
from validator.ordering.acyclic import no_cycle_search
from validator.ordering.assembly import in_order, status_of
from validator.ordering.excerpts import excerpts
from validator.ordering.facts import Facts
from validator.ordering.judge import Judgement
from validator.ordering.leaving import leaves_unwaited, triggers_early
from validator.ordering.memory import Touch
from validator.ordering.moving import movable
from validator.ordering.program import EventKind, Program
from validator.ordering.result import AccessRow, KernelAudit, ParamRef, WaitRow
from validator.ordering.rules import CHECKS
from validator.verdict.model import Finding, Severity, Status

__all__ = ["audit_program"]


@no_cycle_search()
def audit_program(
    program: Program,
    contract: KernelContract | None,
    *,
    artifact: str,
    demangled: str | None = None,
    digest: str = "",
) -> KernelAudit:
    """Audit one kernel under its contract (None: nothing is declared)."""
    facts = Facts(program, contract, artifact)
    findings = in_order(f for check in CHECKS for f in check(facts))
    status = status_of(findings)
    if not facts.touches and not findings and not any(e.kind is EventKind.GRID_TRIGGER for e in program.events):
        status = Status.NOT_APPLICABLE
    early_rows = _rows([(e.touch, e.judgement) for e in facts.early], facts)
    return KernelAudit(
        name=program.name,
        demangled=demangled or program.name,
        artifact=artifact,
        isa=program.isa,
        arch=program.arch,
        status=status,
        reasons=_reasons(facts, findings, status),
        waits=_waits(facts),
        wait_count=len(facts.waits),
        trigger_count=len(facts.triggers),
        early=early_rows,
        movable=_rows([(t, Judgement(False, None, "may be moved across the wait")) for t in movable(facts)], facts),
        accesses=_rows([(t, _standing(facts, t)) for t in facts.touches], facts),
        findings=findings,
        unresolved=sum(1 for t in facts.touches if t.unresolved),
        unknown=dict(sorted(program.unknown.items())),
        assumptions=_assumptions(facts),
        digest=digest or _digest(program),
        pdl=facts.declared_pdl,
        parameters=tuple(program.parameters),
        # Only machine code has them: no part of what every front end has to know.
        resources=dict(getattr(program, "resources", {})),
        always_waits=bool(facts.waits) and not leaves_unwaited(facts),
        triggers_early=triggers_early(facts),
        excerpts=excerpts(program, findings),
    )


def _standing(facts: Facts, touch: Touch) -> Judgement:
    if touch.index in facts.early_indices:
        return facts.early_at[touch.index].judgement
    return Judgement(True, None, "ordered")


def _rows(items: Sequence[tuple[Touch, Judgement]], facts: Facts) -> tuple[AccessRow, ...]:
    groups: dict[tuple[object, ...], list[tuple[Touch, Judgement]]] = {}
    for touch, judgement in items:
        key = (touch.word, touch.targets, touch.unresolved, touch.event.opcode, judgement.allowed, judgement.reason)
        groups.setdefault(key, []).append((touch, judgement))
    rows: list[AccessRow] = []
    for members in groups.values():
        touch, judgement = members[0]
        refs = {t.ref for t in touch.targets}
        params: tuple[ParamRef, ...] = tuple(sorted(refs, key=lambda r: (r.index, r.offset, repr(r.chain))))
        indices = sorted({t.index for t, _ in members})
        rows.append(
            AccessRow(
                access=touch.word,
                params=params,
                role=touch.role,
                allowed=judgement.allowed,
                count=len(indices),
                level=touch.level,
                instruction=touch.event.opcode,
                lines=tuple(facts.program.line(i) for i in indices),
                noncoherent=touch.event.noncoherent,
                reason=judgement.reason,
            )
        )
    return tuple(sorted(rows, key=lambda r: ([(p.index, p.offset, p.name) for p in r.params], r.access, r.instruction)))


def _waits(facts: Facts) -> tuple[WaitRow, ...]:
    rows = list(facts.order.rows())
    line = facts.program.line
    for poll in facts.polls:
        kind = "mailbox" if poll.touch.role is Role.MAILBOX else "flag"
        rows.append(WaitRow(kind, line(poll.touch.index), f"polls '{poll.name}' until it says so"))
    for name in sorted({facts.guard_of(t) for t in facts.touches} - {""}):
        rows.extend(facts.flag_order(name).rows())
    copies = [e for e in facts.events(EventKind.ASYNC_WAIT) if not (e.group or "").startswith("tcgen05")]
    for event in copies:
        left = "an unknown number of" if event.pending is None else str(event.pending)
        rows.append(WaitRow("async-group", line(event.index), f"{event.group or 'copies'}: all but {left} groups done"))
    return tuple(sorted(set(rows), key=lambda r: (r.line.text or 0, r.line.pc or 0, r.kind, r.text)))


_HANDED = (
    "shared memory that asynchronous copies use in a loop is handed from thread to thread in time: faults of that were "
    "looked for with drawn numbers, and what order/async-copy-not-waited does not see is not shown"
)


def _assumptions(facts: Facts) -> tuple[str, ...]:
    result: set[str] = set(facts.order.assumptions())
    for early in facts.early:
        if early.judgement.allowed and early.touch.word != "prefetch":
            for target in early.touch.targets:
                text = _assumed(facts, target.role, target.name)
                if text:
                    result.add(text)
    looped = frozenset[int]().union(*facts.flow.loops)
    if any(facts.flow.block_of(event.index) in looped for event in facts.events(EventKind.ASYNC_COPY)):
        result.add(_HANDED)
    if facts.declared_pdl is False:
        result.add("the kernel is launched without programmatic dependent launch, as its contract says")
    return tuple(sorted(result))


def _assumed(facts: Facts, role: Role | None, name: str) -> str:
    if role is Role.WEIGHT:
        return f"'{name}' is fixed for the life of the loaded model (declared `weight`)"
    if role is Role.STABLE:
        return f"'{name}' is written earlier than anything that can still run: {_justification(facts, name)}"
    return ""


def _justification(facts: Facts, name: str) -> str:
    for argument in facts.contract.args if facts.contract is not None else ():
        if argument.name == name and argument.justification:
            return argument.justification
        for item in argument.fields:
            if f"{argument.name}.{item.name}" == name and item.justification:
                return item.justification
    return "no justification given"


def _reasons(facts: Facts, findings: Sequence[Finding], status: Status) -> tuple[str, ...]:
    if status is Status.NOT_APPLICABLE:
        return ("the kernel touches no global memory",)
    if status in (Status.REFUTED, Status.UNPROVEN):
        decisive = Severity.ERROR if status is Status.REFUTED else Severity.UNPROVEN
        return tuple(f.message for f in findings if f.severity is decisive)
    if facts.declared_pdl is False:
        reasons = ["launched without PDL: the launch itself orders it behind its predecessors"]
    else:
        reasons = ["no access that needs the wait can come before it"]
    reasons += [row.text for row in _waits(facts) if row.kind not in ("grid-wait", "async-group")]
    allowed = sorted({f"{e.touch.label}: {e.judgement.reason}" for e in facts.early if e.judgement.allowed})
    return (*reasons, *allowed)


def _digest(program: Program) -> str:
    """sha256 over the instructions, where the front end gave none."""
    digest = hashlib.sha256()
    for block in program.blocks:
        for index in range(block.start, block.stop):
            digest.update(program.text(index).encode("utf-8", "replace"))
    return f"sha256:{digest.hexdigest()}"
