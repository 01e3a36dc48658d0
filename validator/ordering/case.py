"""What the ordering audits of a change add up to: one obligation a kernel, one for the artifacts as a whole.

Machine code speaks louder than PTX for the architecture it was built for, and an architecture that no artifact serves
is unproven.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from validator.change.written import Compiled, WrittenKernel
from validator.manifest.contract import KernelContract
from validator.manifest.matching import match_contract
from validator.manifest.model import Manifest
from validator.ordering.ahead import SHIP_MACHINE_CODE
from validator.ordering.architecture import serves
from validator.ordering.details import kernel_details
from validator.ordering.program import Isa
from validator.ordering.result import Audit, KernelAudit, Skipped
from validator.ordering.supply import Supply
from validator.policy.model import Policy
from validator.verdict.model import Evidence, Finding, Obligation, Severity, StageResult, Status, Strength, worst

__all__ = ["FAMILY", "STATEMENT", "Case", "settle_movable"]

FAMILY = "ordering"
STATEMENT = "nothing is read or written before the wait that makes it valid"
_STRENGTH = {Isa.SASS: Strength.MACHINE_CODE, Isa.PTX: Strength.PTX}
_CODE = {Isa.SASS: "machine code", Isa.PTX: "PTX"}


def settle_movable(audit: Audit, manifest: Manifest) -> Audit:
    """A load that ptxas *may* move is settled where the machine code of the same kernel shows that it did not."""
    kernels = tuple(_settled(k, audit.kernels, manifest) for k in audit.kernels)
    return replace(audit, kernels=kernels)


def _settled(kernel: KernelAudit, kernels: Iterable[KernelAudit], manifest: Manifest) -> KernelAudit:
    errors = [f for f in kernel.findings if f.severity is Severity.ERROR]
    if kernel.isa is not Isa.PTX or not errors or any(f.rule != "order/movable-load" for f in errors):
        return kernel
    wanted = [a for a in manifest.scope.architectures if serves(Isa.PTX, kernel.arch, a)]
    code = [k for k in kernels if k.isa is Isa.SASS and k.name == kernel.name]
    shown = [any(serves(Isa.SASS, k.arch, a) for k in code) for a in wanted]
    if not wanted or not all(shown):
        return kernel
    findings = tuple(
        replace(f, severity=Severity.WARNING, message=f"{f.message}; the machine code decides") if f in errors else f
        for f in kernel.findings
    )
    undecided = any(f.severity is Severity.UNPROVEN for f in findings)
    status = Status.UNPROVEN if undecided else Status.PROVEN
    reason = "the machine code for every architecture in scope is audited and decides about movable loads"
    return replace(kernel, findings=findings, status=status, reasons=(reason, *kernel.reasons))


@dataclass(frozen=True, slots=True)
class Case:
    """Everything known, to be added up."""

    manifest: Manifest
    policy: Policy
    supply: Supply
    audit: Audit
    written: tuple[WrittenKernel, ...] = ()
    """Kernels that the changed sources define."""

    def result(self) -> StageResult:
        evidence = {id(k): self._evidence(k, key) for k, key in self._keys()}
        obligations = [self._kernel(contract, evidence) for contract in self.manifest.kernels]
        artifacts = self._artifacts(evidence)
        supplied = self._supply_evidence(artifacts)
        obligations.append(replace(artifacts, evidence=(supplied.id, *artifacts.evidence)))
        findings = [f for k in self.audit.kernels for f in k.findings] + list(self.audit.findings)
        return StageResult(tuple(obligations), (*evidence.values(), supplied), tuple(dict.fromkeys(findings)))

    def _keys(self) -> Iterator[tuple[KernelAudit, str]]:
        """Each audit with an id of its own, also where a file holds the same kernel twice."""
        seen: Counter[str] = Counter()
        for kernel in self.audit.kernels:
            key = f"{FAMILY}/{kernel.artifact}/{kernel.isa}/{kernel.arch}/{kernel.name}"
            seen[key] += 1
            yield kernel, key if seen[key] == 1 else f"{key}#{seen[key]}"

    def _contract(self, kernel: KernelAudit) -> KernelContract | None:
        return match_contract(self.manifest.kernels, kernel.name, kernel.demangled)

    def _kernel(self, contract: KernelContract, evidence: dict[int, Evidence]) -> Obligation:
        own = [k for k in self.audit.kernels if self._contract(k) is contract]
        outcomes = [self._on(a, own) for a in self.manifest.scope.architectures]
        findings = self._findings(own)
        # Every artifact that ships counts, also those for hardware nobody named.
        statuses = [o.status for o in outcomes] + [k.status for k in own if k.status is Status.REFUTED]
        statuses += [_OUTCOME[f.severity] for f in findings if f.severity in _OUTCOME]
        status = worst(statuses)
        return Obligation(
            id=f"{FAMILY}/{contract.match}",
            statement=f"{STATEMENT}, in {contract.match}, in every artifact and on every architecture in scope",
            status=status,
            reason=self._reason(status, outcomes, own, findings),
            evidence=tuple(evidence[id(k)].id for k in own),
            findings=tuple(f.id for f in findings),
            strength=_weakest(o.strength for o in outcomes if o.strength),
            denial=f"in {contract.match}, memory is touched where nothing orders it as it has to be",
        )

    def _on(self, architecture: str, own: list[KernelAudit]) -> _Outcome:
        """What the audits say for one architecture."""
        code = [k for k in own if k.isa is Isa.SASS and serves(Isa.SASS, k.arch, architecture)]
        ptx = [k for k in own if k.isa is Isa.PTX and serves(Isa.PTX, k.arch, architecture)]
        if code:
            return _Outcome(architecture, worst([k.status for k in code]), Strength.MACHINE_CODE, _why(code))
        if not ptx:
            return _Outcome(architecture, Status.UNPROVEN, None, self._nothing_for(architecture, own))
        status, why = worst([k.status for k in ptx]), _why(ptx)
        demanded = self.policy.ordering.min_strength is Strength.MACHINE_CODE
        if demanded and status is not Status.REFUTED:
            why = f"only PTX was audited and the policy asks for {Strength.MACHINE_CODE.value}{self._tools()}"
            return _Outcome(architecture, Status.UNPROVEN, Strength.PTX, why)
        return _Outcome(architecture, status, Strength.PTX, why)

    def _nothing_for(self, architecture: str, own: list[KernelAudit]) -> str:
        if not self.supply.blobs:
            return "the manifest's [[artifacts]] name no file that could be read"
        if not own:
            return f"no artifact holds a kernel of this name{self._tools()}"
        built = ", ".join(sorted({f"{k.arch} ({_CODE[k.isa]})" for k in own}))
        return f"no artifact serves {architecture}: built for {built}{self._tools()}"

    def _tools(self) -> str:
        skipped = self.audit.skipped
        return f"; not audited: {skipped[0].artifact}: {skipped[0].reason}" if skipped else ""

    def _reason(self, status: Status, outcomes: list[_Outcome], own: list[KernelAudit], findings: list[Finding]) -> str:
        if status in (Status.PROVEN, Status.NOT_APPLICABLE):
            return "; ".join(dict.fromkeys(o.why for o in outcomes))
        deciding = (
            [f"{o.architecture}: {o.why}" for o in outcomes if o.status is status]
            or [f"{k.artifact} ({k.arch} {_CODE[k.isa]}): {_why([k])}" for k in own if k.status is status]
            or [f.message for f in findings if _OUTCOME.get(f.severity) is status]
        )
        more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
        return (deciding[0] if deciding else status.value) + more

    def _findings(self, own: list[KernelAudit]) -> list[Finding]:
        """Findings of these kernels, and those over the whole set that point at one of them."""
        names = {k.name for k in own}
        found = [f for k in own for f in k.findings]
        found += [f for f in self.audit.findings if f.where.kernel in names]
        return list(dict.fromkeys(found))

    def _artifacts(self, evidence: dict[int, Evidence]) -> Obligation:
        """Everything that ships was read, and no kernel in it is left undeclared."""
        strangers = [k for k in self.audit.kernels if self._contract(k) is None]
        findings = self._findings_elsewhere(strangers)
        reasons = self._gaps(strangers)
        statuses = [Status.PROVEN if self.supply.blobs and not reasons else Status.UNPROVEN]
        statuses += [k.status for k in strangers]
        statuses += [_OUTCOME[f.severity] for f in findings if f.severity in _OUTCOME]
        reasons = reasons or [f"{len(self.supply.blobs)} artifacts read in full"]
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return Obligation(
            id=f"{FAMILY}/all artifacts",
            statement="the manifest names every compiled file, each was audited, and every kernel in it is declared; "
            "the kernels that were found in changed sources are among them",
            status=worst(statuses),
            reason=reasons[0] + more,
            evidence=tuple(evidence[id(k)].id for k in strangers),
            findings=tuple(f.id for f in findings),
            strength=Strength.SOURCE,
            denial="a compiled file that the manifest does not name, or a kernel that nobody declared, breaks a rule",
        )

    def _gaps(self, strangers: list[KernelAudit]) -> list[str]:
        """What was not examined, or not as the manifest says, each in a sentence."""
        skipped = [s for s in (*self.supply.missing, *self.audit.skipped) if not self._excused(s)]
        gaps = [f"{s.artifact}: {s.reason}" + (f"; {s.fix}" if s.fix else "") for s in skipped]
        gaps += self._untrue()
        open_ = [k for k in strangers if k.status in _OUTCOME.values()]
        gaps += [f"{k.artifact}: no [[kernels]] table means {k.demangled}: {_why([k])}" for k in open_]
        if not self.supply.blobs and not gaps:
            gaps = ["the manifest names no [[artifacts]]"]
        return [*gaps, *self._compiled_nowhere()]

    def _compiled_nowhere(self) -> Iterator[str]:
        """Kernels of the changed sources that nothing audited holds: they are compiled when somebody calls them."""
        compiled = Compiled(name for k in self.audit.kernels for name in (k.name, k.demangled))
        for kernel in self.written:
            if not compiled.holds(kernel):
                yield (
                    f"{kernel.path}:{kernel.line} defines the kernel {kernel.name}, and nothing that was audited holds "
                    "it; say in a [[builds]] table how it is built, or commit what it is compiled to and name that "
                    "in an [[artifacts]] table"
                )

    def _findings_elsewhere(self, strangers: list[KernelAudit]) -> list[Finding]:
        """Findings of undeclared kernels, and those over the whole set that no declared kernel's obligation shows."""
        shown = {k.name for k in self.audit.kernels if self._contract(k) is not None}
        found = [f for k in strangers for f in k.findings]
        return [*found, *(f for f in self.audit.findings if f.where.kernel not in shown)]

    def _untrue(self) -> Iterator[str]:
        """What `[[artifacts]]` tables say of their files and the files do not bear out."""
        for artifact, paths in self.supply.declared:
            held = [k for k in self.audit.kernels if self.supply.source(k.artifact) in paths]
            built = sorted({k.arch for k in held})
            if artifact.arch is not None and built and artifact.arch not in built:
                yield f"{artifact.path} is declared for {artifact.arch} and was built for {', '.join(built)}"
            for glob in artifact.kernels:
                if held and not any(fnmatch.fnmatchcase(n, glob) for k in held for n in (k.name, k.demangled)):
                    yield f"{artifact.path} is declared to hold {glob} and does not"

    def _excused(self, skipped: Skipped) -> bool:
        """Machine code that no tool here can read or that is not made yet, where the policy is content with PTX."""
        # Imported here: the front end for machine code is heavy, and most checks have nothing that was skipped.
        from validator.binary.tools import INSTALL_HINT

        known = skipped.fix in (INSTALL_HINT, SHIP_MACHINE_CODE)
        return known and self.policy.ordering.min_strength is Strength.PTX

    def _supply_evidence(self, obligation: Obligation) -> Evidence:
        blobs = self.supply.blobs
        excused = [s for s in self.audit.skipped if self._excused(s)]
        versions = {f"{tool} version": version for tool, version in self.audit.tools.items()}
        return Evidence(
            id=obligation.id,
            kind="ordering-artifacts",
            strength=Strength.SOURCE,
            summary=f"{len(blobs)} artifacts, {len(self.audit.kernels)} kernels audited in them",
            status=obligation.status,
            inputs=dict(self.supply.digests),
            figures={"artifacts": len(blobs), "bytes": sum(len(d) for _, d in blobs), **versions},
            not_covered=tuple(f"the machine code in {s.artifact}: {s.reason}; {s.fix}" for s in excused),
        )

    def _evidence(self, kernel: KernelAudit, key: str) -> Evidence:
        allowed = sum(row.count for row in kernel.early if row.allowed)
        early = sum(row.count for row in kernel.early)
        figures: dict[str, int | float | str] = {
            "kernel": kernel.name,
            "artifact": kernel.artifact,
            "isa": kernel.isa.value,
            "arch": kernel.arch,
            "waits": kernel.wait_count,
            "triggers": kernel.trigger_count,
            "early": early,
            "early allowed": allowed,
            "accesses": sum(row.count for row in kernel.accesses),
            "unresolved": kernel.unresolved,
        }
        source = self.supply.source(kernel.artifact)
        waits = f"{kernel.wait_count} grid wait{'s' if kernel.wait_count != 1 else ''}"
        counts = f"{waits}; {_early(early - allowed, allowed)}"
        return Evidence(
            id=key,
            kind="ordering-audit",
            strength=_STRENGTH[kernel.isa],
            summary=f"{kernel.arch} {_CODE[kernel.isa]} of {kernel.demangled} in {kernel.artifact}: {counts}",
            status=kernel.status,
            inputs={source: self.supply.digests[source]} if source in self.supply.digests else {},
            figures=figures,
            not_covered=self._not_covered(kernel),
            assumptions=tuple(f"{kernel.demangled}: {text}" for text in kernel.assumptions),
            details=kernel_details(kernel),
        )

    def _not_covered(self, kernel: KernelAudit) -> tuple[str, ...]:
        if kernel.isa is not Isa.PTX:
            return ()
        code = [k for k in self.audit.kernels if k.isa is Isa.SASS and k.name == kernel.name]
        served = [a for a in self.manifest.scope.architectures if serves(Isa.PTX, kernel.arch, a)]
        open_ = [a for a in served if not any(serves(Isa.SASS, k.arch, a) for k in code)]
        return tuple(f"the machine code that ptxas makes of {kernel.demangled} for {a}" for a in open_)


@dataclass(frozen=True, slots=True)
class _Outcome:
    architecture: str
    status: Status
    strength: Strength | None
    why: str


def _early(refused: int, allowed: int) -> str:
    """What can come before the wait, in words."""
    if not refused:
        many = "accesses" if allowed != 1 else "access"
        return f"{allowed} {many} before the wait, allowed" if allowed else "no access before the wait"
    are = "is" if refused == 1 else "are"
    told = f"{refused} access{'es' if refused != 1 else ''} before the wait that {are} not allowed"
    return told + (f", {allowed} that {'is' if allowed == 1 else 'are'}" if allowed else "")


_OUTCOME = {Severity.ERROR: Status.REFUTED, Severity.UNPROVEN: Status.UNPROVEN}


def _why(kernels: list[KernelAudit]) -> str:
    """The first reason of the worst of them."""
    status = worst([k.status for k in kernels])
    decisive = next(k for k in kernels if k.status is status)
    return decisive.reasons[0] if decisive.reasons else status.value


def _weakest(strengths: Iterable[Strength]) -> Strength | None:
    order = list(Strength)
    return max(strengths, key=order.index, default=None)
