"""What the audits of single kernels add up to. Needs no kernel's code, so kept audits are put together here too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from validator.ordering.result import Audit, KernelAudit, Skipped
from validator.ordering.sass.moved import explained, moved_findings
from validator.verdict.model import Finding, Severity, Status

__all__ = ["assemble", "in_order", "status_of"]


def status_of(findings: Iterable[Finding]) -> Status:
    """Refuted by any error, else unproven by anything undecided, else proven."""
    severities = {f.severity for f in findings}
    if Severity.ERROR in severities:
        return Status.REFUTED
    return Status.UNPROVEN if Severity.UNPROVEN in severities else Status.PROVEN


def assemble(
    kernels: Iterable[KernelAudit],
    skipped: Iterable[Skipped] = (),
    findings: Iterable[Finding] = (),
    tools: Mapping[str, str] | None = None,
) -> Audit:
    """Everything of one run, sorted, with findings over the whole set."""
    ordered = explained(sorted(kernels, key=lambda k: (k.artifact, k.name, k.arch, k.isa, k.digest)))
    over_all = (*findings, *moved_findings(ordered), *_grouped(ordered))
    return Audit(
        ordered, tuple(sorted(skipped, key=lambda s: (s.artifact, s.reason))), in_order(over_all), dict(tools or {})
    )


def _grouped(kernels: Sequence[KernelAudit]) -> tuple[Finding, ...]:
    """The same broken rule on the same memory in several kernels, as one note with the true count."""
    groups: dict[tuple[str, ...], list[tuple[KernelAudit, Finding]]] = {}
    for kernel in kernels:
        for item in kernel.findings:
            if item.rule.startswith("order/early") and item.severity is Severity.ERROR:
                groups.setdefault((item.rule, *item.identity[3:]), []).append((kernel, item))
    result: list[Finding] = []
    for key, members in sorted(groups.items()):
        names = sorted({k.name for k, _ in members})
        if len(names) < 2:
            continue
        first = members[0][1]
        result.append(
            replace(
                first,
                severity=Severity.NOTE,
                message=f"the same pattern stands in {len(names)} kernels: {first.message}",
                fix=f"mend all of them: {', '.join(names[:10])}" + (" and others" if len(names) > 10 else ""),
                steps=(),
                identity=("pattern", *key),
                count=sum(f.count for _, f in members),
                others=tuple(f.where for _, f in members[1:]),
            )
        )
    return tuple(result)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest first, then by place."""
    rank = list(Severity)
    return tuple(
        sorted(
            findings,
            key=lambda f: (rank.index(f.severity), f.rule, f.where.path, f.where.line or 0, f.where.pc or 0, f.message),
        )
    )
