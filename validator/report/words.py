"""Wording that the text and the Markdown report share. Returns raw text: the format that shows it escapes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from validator.change.model import Change
from validator.manifest.model import Manifest, Switch
from validator.report.glance import Kernel
from validator.verdict.model import Evidence, Finding, Location, Severity, Status, Strength
from validator.verdict.result import CheckResult, WaiverUse

__all__ = [
    "SHOWN_AGAIN",
    "STRENGTHS",
    "Escape",
    "across_files",
    "alike",
    "audit_line",
    "by_weight",
    "change_size",
    "compact",
    "evidence_of",
    "fix_title",
    "launch",
    "place",
    "plural",
    "roles",
    "scope_rows",
    "shows_again",
    "switch_line",
    "waiver_line",
]

Escape = Callable[[str], str]
"""How a format escapes untrusted text."""

STRENGTHS = {
    Strength.MACHINE_CODE: "proof on machine code",
    Strength.PTX: "proof on PTX",
    Strength.GPU_RUN: "run on a GPU",
    Strength.PTX_RUN: "run on the PTX on a CPU",
    Strength.CPU_MODEL: "run of a CPU model",
    Strength.SOURCE: "read from source",
    Strength.DECLARED: "declared only",
}
"""What kind of evidence it is, as every format says it."""

_INPUTS = 3
"""Digests that a line names."""
_WEIGHT = (Severity.ERROR, Severity.UNPROVEN, Severity.WARNING, Severity.NOTE)


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def compact(sha: str) -> str:
    """A commit id or digest as people read it."""
    kind, colon, digits = sha.rpartition(":")
    return f"{kind}{colon}{digits[:12]}"


def place(where: Location) -> str:
    """`path:12`; for machine code the byte offset, and the source line where it is known."""
    spot = f"{where.path}:{where.line}" if where.line else where.path
    if where.pc is not None:
        spot += f" at 0x{where.pc:x}"
    return f"{spot} ({where.source})" if where.source else spot


SHOWN_AGAIN = "How to see it again"


def shows_again(fix: str) -> bool:
    """Whether a fix is a command that shows the fault once more, and mends nothing."""
    return fix.lstrip().startswith("validator ")


def fix_title(fix: str) -> str:
    """What stands over a fix."""
    return SHOWN_AGAIN if shows_again(fix) else "How to mend it"


def change_size(change: Change) -> str:
    """`12 files, +340 -12 lines`."""
    return f"{plural(len(change.files), 'file')}, +{change.added:,} -{change.deleted:,} lines"


def by_weight(findings: Iterable[Finding]) -> list[Finding]:
    """Open before waived, errors first, then by id: the order of every report."""
    return sorted(findings, key=lambda f: (f.status is Status.WAIVED, _WEIGHT.index(f.severity), f.id))


def alike(findings: Iterable[Finding], *, apart: bool = True) -> list[list[Finding]]:
    """Findings in the order of `by_weight`, those together that break one rule for one reason with one remedy.

    `apart`: one with steps of its own stands alone.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in by_weight(findings):
        key = (finding.status is Status.WAIVED, finding.severity, finding.rule, finding.why, finding.fix)
        groups.setdefault((finding.id,) if apart and finding.steps else key, []).append(finding)
    return list(groups.values())


def across_files(findings: Iterable[Finding]) -> list[list[Finding]]:
    """One item for what is the same in several artifacts: one rule, one kernel, one argument, several builds."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_subject(finding), []).append(finding)
    return list(groups.values())


def _subject(finding: Finding) -> tuple[object, ...]:
    """What a finding is about apart from the build. Ordering rules begin an identity with kernel, architecture, ISA."""
    identity = finding.identity
    if len(identity) > 3 and identity[0] == finding.where.kernel:
        return (finding.rule, finding.severity, finding.status, identity[0], *identity[3:])
    return (finding.id,)


def switch_line(switch: Switch | None) -> str:
    """What turns the new path on."""
    if switch is None:
        return "none declared"
    return f"{switch.kind.value} {switch.name} = {switch.value!r}, default {switch.default!r}"


def scope_rows(manifest: Manifest) -> list[tuple[str, str]]:
    """Declared reach, as (what, values)."""
    scope, isolation = manifest.scope, manifest.isolation
    return [
        ("models", ", ".join(scope.models)),
        ("architectures", ", ".join(scope.architectures)),
        ("dtypes", ", ".join(scope.dtypes)),
        ("batch", f"{scope.batch.min} to {scope.batch.max}"),
        ("parallelism", ", ".join(scope.parallelism)),
        ("own paths", ", ".join(isolation.paths)),
        ("shared files", ", ".join(isolation.shared) or "none"),
        ("entry points", ", ".join(isolation.entry_points) or "none declared"),
        ("switch", switch_line(manifest.switch)),
    ]


def roles(arguments: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Role → arguments, in the order in which the roles appear."""
    grouped: dict[str, list[str]] = {}
    for name, role in arguments.items():
        grouped.setdefault(role, []).append(name)
    return list(grouped.items())


def audit_line(evidence: Evidence) -> str:
    """One audit or run of a kernel, with its status and the digests of what was examined."""
    inputs = list(evidence.inputs.items())
    known = [compact(digest) if name in evidence.summary else f"{name} {compact(digest)}" for name, digest in inputs]
    more = f" and {len(known) - _INPUTS} more" if len(known) > _INPUTS else ""
    of = f" ({', '.join(known[:_INPUTS])}{more})" if known else ""
    return f"{evidence.status.value} ({STRENGTHS[evidence.strength]}): {evidence.summary}{of}"


def evidence_of(result: CheckResult, ids: Iterable[str]) -> list[Evidence]:
    """The evidence behind an obligation, by id."""
    wanted = set(ids)
    return sorted((e for e in result.evidence if e.id in wanted), key=lambda e: e.id)


def waiver_line(use: WaiverUse) -> str:
    """One waiver and what it did."""
    state = "; ".join(("applied" if use.applied else "does not count", *use.notes))
    return f"{use.finding} ({state}): {use.reason}; owner {use.owner}, {use.created} to {use.expires}, {use.link}"


def launch(kernel: Kernel) -> str:
    """How the kernel is launched, as declared."""
    return {True: "with PDL", False: "without PDL", None: "not declared"}[kernel.pdl]
