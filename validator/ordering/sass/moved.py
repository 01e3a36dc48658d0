"""What the compiler moved: PTX and machine code of one kernel side by side.

Accesses are paired by what they do to which memory. A memory that the PTX touches only behind the wait and the machine
code before it was hoisted; one that the PTX reads before the wait and the machine code only behind it was sunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from validator.ordering.architecture import serves
from validator.ordering.program import Isa, Line
from validator.ordering.result import AccessRow, KernelAudit
from validator.ordering.rules import hoisted_load, lost_prefetch
from validator.rule import Rule
from validator.verdict.model import Finding, Location, Status

__all__ = ["explained", "moved_accesses", "moved_findings"]

_Key = tuple[str, tuple[tuple[int, int, tuple[int | None, ...]], ...]]
"""(read, async-copy …; (parameter, offset, chain) of each possible source)."""

_PARENT = re.compile(r"^(.*)[/!]")
_MOVABLE = ("read", "async-copy")


@dataclass(slots=True)
class _Count:
    """Static instructions of one key in one artifact."""

    early: int = 0
    all: int = 0
    row: AccessRow | None = None


def moved_findings(kernels: Sequence[KernelAudit]) -> tuple[Finding, ...]:
    """Findings over a whole audit: every machine-code kernel whose PTX is there too."""
    return tuple(f for ptx, sass in _pairs(kernels) for f in moved_accesses(ptx, sass))


def explained(kernels: Sequence[KernelAudit]) -> tuple[KernelAudit, ...]:
    """The same audits; an early access of machine code that its PTX has behind the wait says who moved it there."""
    told = {id(sass): _explained(ptx, sass) for ptx, sass in _pairs(kernels)}
    return tuple(told.get(id(kernel), kernel) for kernel in kernels)


def _pairs(kernels: Sequence[KernelAudit]) -> Iterator[tuple[KernelAudit, KernelAudit]]:
    """(PTX, machine code made from it)."""
    sources: dict[str, list[KernelAudit]] = {}
    for kernel in kernels:
        if kernel.isa is Isa.PTX:
            sources.setdefault(kernel.name, []).append(kernel)
    for kernel in kernels:
        if kernel.isa is Isa.SASS and kernel.name in sources:
            ptx = _partner(kernel, sources[kernel.name])
            if ptx is not None:
                yield ptx, kernel


def _explained(ptx: KernelAudit, sass: KernelAudit) -> KernelAudit:
    """`sass` with the cause and the mend in the findings of accesses that the PTX makes behind the wait only."""
    if not ptx.wait_count or not sass.wait_count:
        return sass
    before, after = _counts(ptx), _counts(sass)
    moved = {key: _mend(ptx, sass, before[key], after[key]) for key in after if _wholly_moved(key, before, after)}
    at = {line.pc: moved[_key(r)] for r in sass.early if _key(r) in moved for line in r.lines if not r.allowed}
    findings = tuple(_with_cause(f, at) for f in sass.findings)
    texts = {old.message: new.message for old, new in zip(sass.findings, findings, strict=True)}
    reasons = sass.reasons
    if sass.status in (Status.REFUTED, Status.UNPROVEN):
        reasons = tuple(texts.get(reason, reason) for reason in reasons)
    return replace(sass, findings=findings, reasons=reasons)


def _wholly_moved(key: _Key, before: Mapping[_Key, _Count], after: Mapping[_Key, _Count]) -> bool:
    """Behind the wait everywhere in the PTX: the source has no part in it."""
    return key in before and not before[key].early and after[key].early > 0


def _mend(ptx: KernelAudit, sass: KernelAudit, source: _Count, built: _Count) -> tuple[str, str]:
    """(the cause, the fix), in a sentence each."""
    assert source.row is not None
    assert built.row is not None
    movable = source.row.noncoherent or built.row.noncoherent
    load = "the load is non-coherent, `.nc`" if movable else "the load is an ordinary one"
    cause = f"the compiler moved it above the wait (the source and the PTX are in order; {load})"
    return cause, _fix(True, movable, _others(ptx, sass))


def _with_cause(finding: Finding, at: Mapping[int | None, tuple[str, str]]) -> Finding:
    places = {place.pc for place in (finding.where, *finding.others)}
    if not finding.rule.startswith("order/early-") or not places <= at.keys():
        return finding
    cause, fix = at[finding.where.pc]
    return replace(finding, message=f"{finding.message}: {cause}", fix=fix)


def _others(ptx: KernelAudit, sass: KernelAudit) -> tuple[str, ...]:
    """Arguments whose non-coherent loads the PTX leaves behind the wait and this machine code too."""
    gone = {_key(row) for row in sass.early if not row.allowed}
    return tuple(dict.fromkeys(p.name for r in ptx.movable if _key(r) not in gone for p in r.params))


def _partner(kernel: KernelAudit, candidates: Iterable[KernelAudit]) -> KernelAudit | None:
    """The PTX the machine code was made from: beside it or in the same container, for its architecture."""
    fitting = [c for c in candidates if serves(Isa.PTX, c.arch, kernel.arch) and c.parameters and _same(c, kernel)]
    exact = [c for c in fitting if c.arch == kernel.arch] or fitting
    beside = [c for c in exact if _parent(c.artifact) == _parent(kernel.artifact)] or exact
    # Two that fit equally well say nothing: guessing which one it was built from would invent movements.
    return beside[0] if len({c.digest for c in beside}) == 1 else None


def _same(ptx: KernelAudit, kernel: KernelAudit) -> bool:
    """Parameter blocks agree; Triton's machine code has two hidden parameters more."""
    sizes = [p.size for p in ptx.parameters]
    return [p.size for p in kernel.parameters][: len(sizes)] == sizes


def _parent(artifact: str) -> str:
    found = _PARENT.match(artifact)
    return found[1] if found else ""


def moved_accesses(ptx: KernelAudit, sass: KernelAudit) -> Iterator[Finding]:
    """Findings for one kernel; nothing where either side never waits."""
    if not ptx.wait_count or not sass.wait_count:
        return
    before, after = _counts(ptx), _counts(sass)
    for key in sorted(before.keys() & after.keys(), key=repr):
        source, built = before[key], after[key]
        if hoisted := _hoisted(source, built):
            yield _finding(hoisted_load.RULE, ptx, sass, source, built, hoisted)
        elif sunk := _sunk(source, built):
            yield _finding(lost_prefetch.RULE, ptx, sass, source, built, sunk)


def _hoisted(source: _Count, built: _Count) -> int:
    """Instructions above the wait that were below it. Compilers split and merge accesses, so only clear cases count."""
    if built.early and not source.early:
        return built.early
    if source.early < source.all and built.early == built.all:
        return max(0, built.early - source.early)
    return 0


def _sunk(source: _Count, built: _Count) -> int:
    if source.early and not built.early:
        return built.all
    if source.early == source.all and built.early < built.all:
        return built.all - built.early
    return 0


def _counts(kernel: KernelAudit) -> Mapping[_Key, _Count]:
    found: dict[_Key, _Count] = {}
    for row in kernel.accesses:
        if row.access in _MOVABLE and row.params:
            count = found.setdefault(_key(row), _Count())
            count.all += row.count
            count.row = count.row or row
    for row in kernel.early:
        if row.access in _MOVABLE and row.params:
            count = found.setdefault(_key(row), _Count())
            count.early += row.count
            count.row = row
    return found


def _key(row: AccessRow) -> _Key:
    return row.access, tuple(sorted(((p.index, p.offset, p.chain) for p in row.params), key=repr))


def _finding(rule: Rule, ptx: KernelAudit, sass: KernelAudit, source: _Count, built: _Count, number: int) -> Finding:
    assert source.row is not None
    assert built.row is not None
    names = " or ".join(p.name for p in built.row.params)
    up = rule is hoisted_load.RULE
    where = "before the wait in the machine code and behind it in the PTX"
    if not up:
        where = "behind the wait in the machine code and before it in the PTX"
    many = number > 1
    accesses = f"{number} {built.row.access}{'s' if many else ''} of '{names}' ({built.row.instruction})"
    movable = source.row.noncoherent or built.row.noncoherent
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        message=f"{accesses} stand{'' if many else 's'} {where}: ptxas moved {'them' if many else 'it'}",
        where=_location(sass, built.row.lines),
        why=_why(source.row.instruction, movable),
        fix=_fix(up, movable, _others(ptx, sass)),
        steps=(f"PTX: {source.row.instruction} in {ptx.artifact}", f"machine code: {built.row.instruction}"),
        identity=(sass.name, sass.arch, built.row.access, names),
        count=number,
    )


def _location(kernel: KernelAudit, lines: Sequence[Line]) -> Location:
    return Location(kernel.artifact, pc=lines[0].pc if lines else None, kernel=kernel.name)


def _why(opcode: str, movable: bool) -> str:
    if movable:
        return (
            f"{opcode} is non-coherent (from `const __restrict__`, `__ldg`, `CopyG2ROp(invariant=True)` or assembly): "
            "it promises data that does not change, and the compiler moves it across waits and barriers"
        )
    return f"{opcode} is an ordinary access that this compiler reordered"


def _fix(up: bool, movable: bool, others: Sequence[str]) -> str:
    if up:
        drop = "drop `const __restrict__`, `__ldg` or `invariant=True` for this argument, or " if movable else ""
        names = ", ".join(f"'{name}'" for name in others)
        too = f"; do the same for {names}: non-coherent loads too, which the next ptxas may move" if names else ""
        return f"use a load that may not be moved: {drop}load it with `ld.relaxed.gpu.global`{too}"
    return (
        "load it with `ld.relaxed.gpu.global`, or prefetch it to L2 with `prefetch.global.L2`: neither is moved across "
        "the wait"
    )
