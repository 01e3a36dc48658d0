"""The verdict of an ordering audit, its totals and groups, and the wording that every format of it shares.

Computed once, before any format. Returns raw text: the format that shows it escapes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from validator.ordering.program import Isa, Line
from validator.ordering.result import AccessRow, Audit, KernelAudit, ParamRef
from validator.ordering.rules import no_wait
from validator.ordering.unexamined import is_unexamined
from validator.report.words import by_weight, place, plural
from validator.verdict.model import Finding, Location, Severity, Status, Verdict

__all__ = [
    "ORDER",
    "Family",
    "alike",
    "all_findings",
    "apart",
    "blocking",
    "by_status",
    "counted_words",
    "families",
    "family_name",
    "group_name",
    "headline",
    "isa_words",
    "launch_unknown",
    "line_words",
    "not_covered",
    "open_findings",
    "param_words",
    "rest_of",
    "row_words",
    "spot_words",
    "title_of",
    "unexamined_apart",
    "verdict_of",
]

_PARAMETERS = re.compile(r"\((?!anonymous namespace\))")

COUNTED = 3
"""Kernels of which nothing but the launch is open that are still shown one by one."""

ORDER = (Status.REFUTED, Status.UNPROVEN, Status.PROVEN, Status.WAIVED, Status.NOT_APPLICABLE, Status.NOT_ASKED)
"""Outcomes in the order in which a reader needs them."""


def all_findings(audit: Audit) -> Iterator[Finding]:
    """Every finding: those of kernels, then those over the whole set."""
    for kernel in audit.kernels:
        yield from kernel.findings
    yield from audit.findings


def verdict_of(audit: Audit) -> Verdict:
    """Fail when anything is refuted; pass only when something was examined and all of it is settled."""
    if any(k.status is Status.REFUTED for k in audit.kernels) or _has(audit.findings, Severity.ERROR):
        return Verdict.FAIL
    open_ends = any(k.status is Status.UNPROVEN for k in audit.kernels) or _has(audit.findings, Severity.UNPROVEN)
    return Verdict.UNPROVEN if open_ends or audit.skipped or not audit.kernels else Verdict.PASS


def _has(findings: Iterable[Finding], severity: Severity) -> bool:
    return any(f.severity is severity and f.status is not Status.WAIVED for f in findings)


def by_status(audit: Audit) -> dict[Status, list[KernelAudit]]:
    """Kernels by outcome, in `ORDER`; outcomes without kernels are left out."""
    found: dict[Status, list[KernelAudit]] = {status: [] for status in ORDER}
    for kernel in audit.kernels:
        found[kernel.status].append(kernel)
    return {status: kernels for status, kernels in found.items() if kernels}


def headline(audit: Audit) -> str:
    """`2 kernels refuted, 40 proven, of 42 in 3 files`, with what could not be read."""
    parts = [f"{len(kernels):,} {status.value}" for status, kernels in by_status(audit).items()]
    files = len({_file(k) for k in audit.kernels})
    text = f"{plural(len(audit.kernels), 'kernel')} in {plural(files, 'file')}: {', '.join(parts)}"
    if not audit.kernels:
        text = "no kernel was examined"
    if audit.skipped:
        text += f"; {plural(len(audit.skipped), 'input')} could not be audited"
    return text


def _file(kernel: KernelAudit) -> str:
    """The file that was named, whatever it holds."""
    return kernel.artifact.partition("!")[0]


def not_covered(audit: Audit) -> list[str]:
    """What the audit does not show, each a sentence."""
    said = []
    if any(k.isa is Isa.PTX for k in audit.kernels):
        said.append(
            "PTX is not what runs: the driver or ptxas compiles it and may move non-coherent loads; audit every "
            "cubin that ships"
        )
    unknown = sum(1 for k in audit.kernels if k.pdl is None and k.status is not Status.NOT_APPLICABLE)
    if unknown:
        said.append(
            f"how {plural(unknown, 'kernel')} {'is' if unknown == 1 else 'are'} launched was not declared "
            "(`launch = { pdl = … }`)"
        )
    return said


def open_findings(audit: Audit) -> list[Finding]:
    """Errors and undecided ones over the whole audit, heaviest first."""
    return [f for f in by_weight(all_findings(audit)) if f.severity in (Severity.ERROR, Severity.UNPROVEN)]


def blocking(kernel: KernelAudit) -> list[Finding]:
    """What keeps a kernel from being proven, heaviest first."""
    return [f for f in by_weight(kernel.findings) if f.severity in (Severity.ERROR, Severity.UNPROVEN)]


def alike(kernels: Iterable[KernelAudit]) -> list[list[KernelAudit]]:
    """Builds and template instances that break the same rules, together; machine code, which speaks louder, first."""
    groups: dict[tuple[str, ...], list[KernelAudit]] = {}
    for kernel in kernels:
        rules = sorted({f.rule for f in blocking(kernel)}) or list(kernel.reasons[:1])
        groups.setdefault((family_name(title_of(kernel)), *rules), []).append(kernel)
    return [sorted(group, key=lambda k: k.isa is Isa.PTX) for group in groups.values()]


def group_name(group: Sequence[KernelAudit]) -> str:
    """The kernel's name where it is one, else that of the template."""
    title = title_of(group[0])
    return title if len({k.name for k in group}) == 1 else family_name(title)


def rest_of(group: Sequence[KernelAudit]) -> str:
    """What stands behind the first kernel of a group: `39 more kernels of this template …`; empty: nothing."""
    rest = group[1:]
    if not rest:
        return ""
    same = len({k.name for k in group}) == 1
    what = plural(len(rest), "more build") if same else plural(len(rest), "more kernel") + " of this template"
    return f"and {what} that break the same rules: {', '.join(dict.fromkeys(map(isa_words, rest)))}"


def launch_unknown(kernel: KernelAudit) -> bool:
    """Whether all that is open is how it is launched: nearly every kernel of a library that knows no PDL."""
    found = blocking(kernel)
    return bool(found) and all(f.rule == no_wait.RULE.id and f.severity is Severity.UNPROVEN for f in found)


def apart(kernels: Iterable[KernelAudit]) -> tuple[list[KernelAudit], list[KernelAudit]]:
    """(to be shown one by one, to be counted only because nothing but their launch is open)."""
    kept: list[KernelAudit] = []
    counted: list[KernelAudit] = []
    for kernel in kernels:
        (counted if launch_unknown(kernel) else kept).append(kernel)
    return (kept, counted) if len(counted) > COUNTED else ([*kept, *counted], [])


def unexamined_apart(kernels: Iterable[KernelAudit]) -> tuple[list[KernelAudit], list[KernelAudit]]:
    """(kernels that were examined, those for which there was no time)."""
    done: list[KernelAudit] = []
    left: list[KernelAudit] = []
    for kernel in kernels:
        (left if is_unexamined(kernel) else done).append(kernel)
    return done, left


def counted_words(kernels: Sequence[KernelAudit]) -> str:
    return f"{plural(len(kernels), 'kernel')} neither wait nor trigger: right only when launched without PDL"


def title_of(kernel: KernelAudit) -> str:
    return kernel.demangled or kernel.name


def isa_words(kernel: KernelAudit) -> str:
    """`PTX for sm_90a`, `machine code for sm_90a`."""
    return f"{'PTX' if kernel.isa is Isa.PTX else 'machine code'} for {kernel.arch}"


def param_words(params: tuple[ParamRef, ...]) -> str:
    """`w`, `w or bias`, with the chain of loads where there is one."""
    if not params:
        return "an address of unknown source"
    return " or ".join(p.name + "".join(_link(c) for c in p.chain) for p in params)


def _link(offset: int | None) -> str:
    return "[…]" if offset is None else f"[+{offset}]"


def line_words(line: Line) -> str:
    """The most useful place: source line, else PTX line, else byte offset."""
    if line.file is not None and line.line is not None:
        return f"{line.file}:{line.line}"
    if line.text is not None:
        return f"PTX line {line.text}"
    return f"0x{line.pc:x}" if line.pc is not None else "unknown place"


def spot_words(where: Location) -> str:
    """The source line where it is known, and the place in the artifact."""
    spot = place(where)
    return f"{where.source}, {spot}" if where.source and where.source not in spot else spot


def row_words(row: AccessRow) -> str:
    """`read of w (weight), 2 LDG.E, kernel.cu:8: declared weight`."""
    role = row.role.value if row.role else "no role declared" if row.params else "source unknown"
    places = list(dict.fromkeys(line_words(line) for line in row.lines))
    where = f", {', '.join(places[:3])}{' …' if len(places) > 3 else ''}" if places else ""
    reason = f": {row.reason}" if row.reason else ""
    return f"{row.access} of {param_words(row.params)} ({role}), {row.count:,} x {row.instruction}{where}{reason}"


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels that one template, or one name in several files, gave."""

    name: str
    kernels: int
    files: int
    archs: tuple[str, ...]


def family_name(name: str) -> str:
    """A demangled name without template arguments and parameters: `void gemm<…>`."""
    out: list[str] = []
    depth = 0
    for character in name:
        if character == "<":
            out += [] if depth else ["<…>"]
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif depth == 0:
            out.append(character)
    bare = _PARAMETERS.split("".join(out), maxsplit=1)[0]
    return bare.strip() or name


def families(kernels: Iterable[KernelAudit]) -> list[Family]:
    """Largest family first, then by name."""
    members: dict[str, list[KernelAudit]] = {}
    for kernel in kernels:
        members.setdefault(family_name(title_of(kernel)), []).append(kernel)
    found = [
        Family(name, len(ks), len({_file(k) for k in ks}), tuple(sorted(Counter(k.arch for k in ks))))
        for name, ks in members.items()
    ]
    return sorted(found, key=lambda f: (-f.kernels, f.name))
