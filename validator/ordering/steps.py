"""Steps: which earlier launches may still be running before and after a launch's wait, and what follows from it.

For launches k = 1, 2, … on one stream, `open(k)` are the launches that may be unfinished while k runs code before its
own wait, `after(k)` those that may still be unfinished behind it:

* an ordinary launch finds nothing open; nor does the first one of the step, as far as the step's own launches go: its
  early accesses are left to the declared roles;
* else k-1 is open, and what may be open behind the wait of k-1; and all of open(k-1) as well when k-1 may trigger
  before its wait or can end without one;
* behind k's wait k-1 is complete; what k-1 itself waited for is complete too, if every path of k-1 waits.

An early read of a buffer is safe when no open launch writes it, an early write when none touches it. A launch that no
audited kernel matches is taken to write every buffer it is given, to trigger at once and never to wait.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from validator.manifest.contract import KernelContract, Step, StepLaunch
from validator.manifest.matching import match_contract
from validator.manifest.roles import Role
from validator.ordering.assembly import status_of
from validator.ordering.program import Isa
from validator.ordering.result import AccessRow, KernelAudit
from validator.ordering.rules import early_async_copy, early_atomic, early_read, early_write, role_too_generous
from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity, Status

__all__ = ["apply_steps"]

Variant = tuple[Isa, str]
"""Instruction set and architecture: what is loaded together."""

_RULES: dict[str, Rule] = {
    "read": early_read.RULE,
    "write": early_write.RULE,
    "atomic": early_atomic.RULE,
    "async-copy": early_async_copy.RULE,
}
_WRITTEN = (Role.OUTPUT, Role.STATE, Role.WORKSPACE, Role.ACTIVATION, Role.MAILBOX, Role.FLAG)


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch of a step with one audited kernel (None: nothing audited matches)."""

    number: int
    said: StepLaunch
    audit: KernelAudit | None
    pdl: bool
    reads: frozenset[str]
    """Buffers."""
    writes: frozenset[str]
    open_ended: str
    """Why it may write more than `writes`; empty when all its writes are known."""

    @property
    def name(self) -> str:
        return f"launch {self.number + 1} ({self.audit.name if self.audit is not None else self.said.kernel})"

    @property
    def passes_on(self) -> bool:
        """Its own open launches are open to its successor too."""
        return self.audit is None or (self.pdl and (self.audit.triggers_early or not self.audit.always_waits))


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a step says about one early row of one kernel."""

    safe: bool
    reason: str
    chain: tuple[str, ...] = ()
    step: str = ""


_Key = tuple[str, str]
"""(access word, argument)."""


def apply_steps(
    kernels: Sequence[KernelAudit], contracts: tuple[KernelContract, ...], steps: tuple[Step, ...]
) -> tuple[list[KernelAudit], tuple[Finding, ...]]:
    """Kernel audits in the light of the steps they are launched in, and findings about the steps themselves."""
    said: dict[int, dict[_Key, list[_Verdict]]] = {}
    behind: dict[int, list[Finding]] = {}
    findings: list[Finding] = []
    for step in steps:
        matched = {id(k) for launch in step.launches for k in kernels if _means(launch, k)}
        for variant in sorted({(k.isa, k.arch) for k in kernels if id(k) in matched}):
            chain = [_launch(n, launch, kernels, contracts, variant) for n, launch in enumerate(step.launches)]
            _judge(step, chain, said, behind)
        findings += _unmatched(step, kernels)
    judged = [_rewritten(k, said.get(id(k), {}), behind.get(id(k), [])) for k in kernels]
    return judged, tuple(findings)


def _means(launch: StepLaunch, kernel: KernelAudit) -> bool:
    return any(fnmatch.fnmatchcase(name, launch.kernel) for name in (kernel.name, kernel.demangled))


def _unmatched(step: Step, kernels: Sequence[KernelAudit]) -> list[Finding]:
    result: list[Finding] = []
    for number, launch in enumerate(step.launches):
        if not any(_means(launch, k) for k in kernels):
            result.append(
                Finding(
                    rule=role_too_generous.RULE.id,
                    severity=Severity.WARNING,
                    message=f"launch {number + 1} of step '{step.name}' ({launch.kernel}) matches no audited kernel",
                    where=Location(step.name),
                    why="it is taken to write all its buffers, to trigger at once and never to wait",
                    fix="audit its binary too, or correct the glob",
                    identity=("unmatched", step.name, str(number), launch.kernel),
                    status=Status.UNPROVEN,
                )
            )
    return result


def _launch(
    number: int,
    said: StepLaunch,
    kernels: Sequence[KernelAudit],
    contracts: tuple[KernelContract, ...],
    variant: Variant,
) -> _Launch:
    audit = _of_variant([k for k in kernels if _means(said, k)], variant)
    if audit is None:
        contract = match_contract(contracts, said.kernel)
        buffers = frozenset(said.args.values())
        written = buffers
        if contract is not None:
            roles = {a.name: a.role for a in contract.args}
            written = frozenset(b for name, b in said.args.items() if roles.get(name) in (None, *_WRITTEN))
        pdl = said.pdl if said.pdl is not None else (contract.launch.pdl if contract is not None else None)
        return _Launch(number, said, None, pdl is not False, buffers, written, "")
    reads: set[str] = set()
    writes: set[str] = set()
    open_ended = ""
    for row in audit.accesses:
        if row.access == "prefetch":
            continue
        buffers_of_row = {_buffer(said, p.name) for p in row.params if not p.chain}
        known = {b for b in buffers_of_row if b is not None}
        if row.access in ("write", "atomic"):
            writes |= known
            if not row.params or any(p.chain for p in row.params):
                open_ended = f"{audit.name} also writes through {_through(row)}"
        if row.access != "write":
            reads |= known
    pdl = said.pdl if said.pdl is not None else audit.pdl
    return _Launch(number, said, audit, pdl is not False, frozenset(reads), frozenset(writes), open_ended)


def _of_variant(candidates: list[KernelAudit], variant: Variant) -> KernelAudit | None:
    """The audit of the same instruction set and architecture, else of any."""
    return min(candidates, key=lambda k: ((k.isa, k.arch) != variant, k.artifact, k.name, k.arch), default=None)


def _through(row: AccessRow) -> str:
    return f"pointers loaded from '{row.params[0].name}'" if row.params else "an address that is not known"


def _buffer(said: StepLaunch, name: str) -> str | None:
    if name in said.args:
        return said.args[name]
    return said.args.get(name.rpartition(".")[2])


def _open(chain: Sequence[_Launch]) -> tuple[list[dict[int, str]], list[dict[int, str]]]:
    """(open, after): launch → numbers of unfinished launches with why each may be unfinished."""
    opened: list[dict[int, str]] = []
    after: list[dict[int, str]] = []
    for k, launch in enumerate(chain):
        if k == 0 or not launch.pdl:
            opened.append({})
            after.append({})
            continue
        before = chain[k - 1]
        here = dict(after[k - 1])
        if before.passes_on:
            here |= {n: _because(before, why) for n, why in opened[k - 1].items()}
        here[k - 1] = f"{before.name} may still be running: {launch.name} starts under PDL"
        opened.append(here)
        waits = before.audit is not None and (before.audit.always_waits or not before.pdl)
        rest = after[k - 1] if waits else {n: _because(before, why) for n, why in opened[k - 1].items()}
        after.append(dict(rest))
    return opened, after


def _because(before: _Launch, why: str) -> str:
    if before.audit is None:
        return f"{why}; {before.name} is not audited and closes nothing"
    if before.audit.triggers_early and before.audit.always_waits:
        return f"{why}; {before.name} triggers before its own wait, so it closes nothing"
    return f"{why}; {before.name} can end without waiting, so it closes nothing"


def _judge(
    step: Step,
    chain: Sequence[_Launch],
    said: dict[int, dict[_Key, list[_Verdict]]],
    behind: dict[int, list[Finding]],
) -> None:
    opened, after = _open(chain)
    for k, launch in enumerate(chain):
        if launch.audit is None:
            continue
        table = said.setdefault(id(launch.audit), {})
        for row in launch.audit.early:
            # What runs before the step is not known: its first launch is judged by the declared roles alone.
            if row.access in _RULES and launch.pdl and k > 0:
                verdict = _early(step, chain, launch, row, opened[k])
                if verdict is not None:
                    table.setdefault((row.access, row.params[0].name), []).append(verdict)
        behind.setdefault(id(launch.audit), []).extend(_late(step, chain, launch, after[k]))


def _single(row: AccessRow) -> str | None:
    """Name of the argument when the row has one target, reached directly."""
    return row.params[0].name if len(row.params) == 1 and not row.params[0].chain else None


def _early(
    step: Step, chain: Sequence[_Launch], launch: _Launch, row: AccessRow, opened: dict[int, str]
) -> _Verdict | None:
    name = _single(row)
    buffer = _buffer(launch.said, name) if name is not None else None
    if name is None or buffer is None:
        return None
    for number in sorted(opened, reverse=True):
        other = chain[number]
        touched = other.writes if row.access in ("read", "async-copy") else other.writes | other.reads
        if buffer in touched:
            verb = "writes" if buffer in other.writes else "reads"
            text = f"step '{step.name}': {other.name} {verb} '{buffer}' and may still be running"
            return _Verdict(False, text, (*opened[number].split("; "), f"{other.name} {verb} '{buffer}'"), step.name)
    doubt = next((chain[n].open_ended for n in sorted(opened) if chain[n].open_ended), "")
    if doubt:
        return None
    names = ", ".join(chain[n].name for n in sorted(opened)) or "nothing"
    verb = "writes" if row.access in ("read", "async-copy") else "touches"
    return _Verdict(
        True, f"step '{step.name}': of what may still run ({names}) nothing {verb} '{buffer}'", (), step.name
    )


def _late(step: Step, chain: Sequence[_Launch], launch: _Launch, after: dict[int, str]) -> list[Finding]:
    """Accesses behind the wait that meet launches which the wait does not cover."""
    audit = launch.audit
    if audit is None or not after:
        return []
    early = {(r.access, r.instruction, r.params) for r in audit.early}
    result: dict[tuple[str, str], Finding] = {}
    for row in audit.accesses:
        name = _single(row)
        buffer = _buffer(launch.said, name) if name is not None else None
        if buffer is None or row.access not in _RULES or (row.access, row.instruction, row.params) in early:
            continue
        for number in sorted(after, reverse=True):
            other = chain[number]
            touched = other.writes if row.access in ("read", "async-copy") else other.writes | other.reads
            if buffer in touched and (row.access, str(name)) not in result:
                rule = _RULES[row.access]
                result[(row.access, str(name))] = Finding(
                    rule=rule.id,
                    severity=Severity.ERROR,
                    message=f"'{name}' is touched behind the wait, but {other.name} of step '{step.name}' "
                    "may still use it",
                    where=_where(audit, row),
                    why="the wait covers the launch before; that one never waited, so what ran before it stays open",
                    fix=f"make every path of {chain[launch.number - 1].name} execute griddepcontrol.wait",
                    steps=tuple(after[number].split("; ")),
                    identity=(audit.name, audit.arch, str(audit.isa), "behind", row.access, str(name), step.name),
                )
    return list(result.values())


def _where(audit: KernelAudit, row: AccessRow) -> Location:
    line = row.lines[0] if row.lines else None
    return Location(audit.artifact, line=line.text if line else None, pc=line.pc if line else None, kernel=audit.name)


def _rewritten(audit: KernelAudit, said: dict[_Key, list[_Verdict]], behind: Iterable[Finding]) -> KernelAudit:
    """An audit with its early rows, findings and status as the steps settle them."""
    late = list(behind)
    if not said and not late:
        return audit
    rows: list[AccessRow] = []
    safe: set[_Key] = set()
    added: list[Finding] = late
    for row in audit.early:
        key = (row.access, row.params[0].name if row.params else "")
        verdicts = said.get(key, []) if _single(row) is not None else []
        wrong = next((v for v in verdicts if not v.safe), None)
        if wrong is not None:
            rows.append(replace(row, allowed=False, reason=wrong.reason))
            added.append(_contradicted(audit, row, wrong))
        elif verdicts:
            safe.add(key)
            rows.append(replace(row, allowed=True, reason=verdicts[0].reason))
        else:
            rows.append(row)
    return _with_findings(audit, tuple(rows), safe, added)


def _contradicted(audit: KernelAudit, row: AccessRow, verdict: _Verdict) -> Finding:
    """An early access that the step refutes: a role declared too generously, or the early access with its chain."""
    name = row.params[0].name
    generous = row.role is not None and row.role.static
    rule = role_too_generous.RULE if generous else _RULES[row.access]
    role = row.role.value if row.role is not None else "no role"
    message = (
        f"'{name}' is declared {role}, but {verdict.reason}"
        if generous
        else f"'{name}' ({role}) is touched before the wait; {verdict.reason}"
    )
    return Finding(
        rule=rule.id,
        severity=Severity.ERROR,
        message=message,
        where=_where(audit, row),
        why="before its wait a launch overlaps with every launch that is still open",
        fix="declare the role the step shows, and touch it only behind the wait",
        steps=verdict.chain,
        identity=(audit.name, audit.arch, str(audit.isa), row.access, f"'{name}'", "", "step"),
        count=row.count,
    )


_CAUSES = ("order/no-wait", "order/wait-missing-on-path")
"""Explanations of refuted early accesses: they fall when the accesses are settled."""


def _with_findings(
    audit: KernelAudit, rows: tuple[AccessRow, ...], safe: set[_Key], added: list[Finding]
) -> KernelAudit:
    contradicted = {(f.rule, f.identity[4]) for f in added if f.identity[-1] == "step"}
    kept = [f for f in audit.findings if not _settled(f, safe) and (f.rule, _argument(f)) not in contradicted]
    early = {r.id for r in _RULES.values()} | {role_too_generous.RULE.id}
    if not any(f.rule in early and f.severity is Severity.ERROR for f in (*kept, *added)):
        kept = [f for f in kept if f.rule not in _CAUSES or f.severity is not Severity.ERROR]
    findings = (*added, *kept)
    nothing = audit.status is Status.NOT_APPLICABLE and not findings
    status = audit.status if nothing else status_of(findings)
    decisive = {Status.REFUTED: Severity.ERROR, Status.UNPROVEN: Severity.UNPROVEN}.get(status)
    reasons = tuple(f.message for f in findings if f.severity is decisive)
    if decisive is None:
        settled = tuple(dict.fromkeys(r.reason for r in rows if r.allowed and r.reason.startswith("step ")))
        reasons = (*(audit.reasons if audit.status is status else ()), *settled)
    return replace(audit, early=rows, findings=findings, status=status, reasons=reasons or audit.reasons)


def _argument(item: Finding) -> str:
    return item.identity[4] if len(item.identity) > 4 else ""


def _settled(item: Finding, safe: set[_Key]) -> bool:
    """Whether a finding speaks of an early access that the step shows to be safe."""
    words = {rule.id: word for word, rule in _RULES.items()}
    if item.rule in words:
        return any(item.identity[3:5] == (word, f"'{name}'") for word, name in safe if word == words[item.rule])
    if item.rule == "order/undeclared-argument":
        return any(item.identity[3:4] == (f"'{name}'",) for _, name in safe)
    return False
