"""What the audits add up to, per kernel and architecture. The audits themselves are handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from validator.binary.tools import INSTALL_HINT
from validator.change.model import Change, ChangeStatus, Entry, FileChange, FileKind, MissingFile
from validator.manifest.model import Artifact, Manifest
from validator.ordering.architecture import serves
from validator.ordering.program import Isa
from validator.ordering.result import Audit, KernelAudit, Skipped
from validator.ordering.stage import run_with
from validator.ordering.supply import Supply
from validator.policy.model import Policy
from validator.stage import StageContext
from validator.verdict.model import Finding, Location, Obligation, Severity, StageResult, Status, Strength


class Files:
    """A tree held in memory; a `str` is a symbolic link."""

    revision = "f" * 40

    def __init__(self, files: Mapping[str, bytes | str]) -> None:
        self.files = files

    def entry(self, path: str) -> Entry | None:
        if path not in self.files:
            return None
        return Entry(path, 0o120000 if isinstance(self.files[path], str) else 0o100644, "1" * 40)

    def list(self, prefix: str = "") -> Sequence[Entry]:
        return [e for p in sorted(self.files) if p.startswith(prefix) and (e := self.entry(p))]

    def read(self, path: str, limit: int = 1 << 23) -> bytes:
        content = self.files.get(path)
        if not isinstance(content, bytes):
            raise MissingFile("no such file")
        return content


def manifest(archs: Sequence[str] = ("sm_100a",), artifacts: Sequence[str] = ("k.ptx", "k.cubin"), **more: Any) -> Any:
    return Manifest.model_validate(
        {
            "id": "k",
            "title": "t",
            "created": "2026-11-01",
            "expires": "2026-12-01",
            "summary": "s",
            "isolation": {"paths": ["k/**"]},
            "scope": {"models": ["m"], "architectures": list(archs), "dtypes": ["f"], "batch": {"max": 1}},
            "kernels": [{"match": "kern*"}],
            "artifacts": [{"path": path} for path in artifacts],
            **more,
        }
    )


TREE = {"k.ptx": b"ptx", "k.cubin": b"elf", "fat/a.cubin": b"a", "link.cubin": "elsewhere"}


def kernel(
    isa: Isa, arch: str = "sm_100a", status: Status = Status.PROVEN, name: str = "kern", **more: Any
) -> KernelAudit:
    artifact = "k.ptx" if isa is Isa.PTX else "k.cubin"
    return KernelAudit(name, name, artifact, isa, arch, status, (f"{isa} {arch} is {status}",), **more)


PTX, SASS = kernel(Isa.PTX), kernel(Isa.SASS)
MOVABLE = Finding("order/movable-load", Severity.ERROR, "x may move", Location("k.ptx", kernel="kern"))
EARLY = Finding("order/early-read", Severity.ERROR, "x is read early", Location("k.ptx", kernel="kern"))


def stage(
    *kernels: KernelAudit,
    declared: Manifest | None,
    policy: Mapping[str, Any] | None = None,
    skipped: Sequence[Skipped] = (),
    findings: Sequence[Finding] = (),
    changed: Sequence[str] = (),
    tree: Mapping[str, bytes | str] = TREE,
) -> StageResult:
    files = Files(tree)
    changes = tuple(FileChange(path, ChangeStatus.ADDED, new_id="1", kind=FileKind.REGULAR) for path in changed)
    context = StageContext(
        change=Change("a", "b", "a", changes, files, files, files),
        policy=Policy.model_validate({"ordering": policy or {}}),
        manifest=declared,
        today=date(2026, 11, 29),
        seed=1,
        workdir=Path("/nowhere"),
        progress=lambda line: None,
    )

    def auditor(supply: Supply, declared: Manifest) -> Audit:
        return Audit(tuple(kernels), tuple(skipped), tuple(findings))

    return run_with(context, auditor)


def of(result: StageResult, id_: str = "ordering/kern*") -> Obligation:
    return next(o for o in result.obligations if o.id == id_)


ARTIFACTS = "ordering/all artifacts"


def test_machine_code_proves_its_architecture() -> None:
    result = stage(PTX, SASS, declared=manifest(), policy={"min_strength": "proof-on-machine-code"})
    assert [o.status for o in result.obligations] == [Status.PROVEN, Status.PROVEN]
    assert of(result).strength is Strength.MACHINE_CODE
    assert {e.id for e in result.evidence} >= set(of(result).evidence)
    assert all(e.inputs["k.ptx"].startswith("sha256:") for e in result.evidence if "k.ptx" in e.inputs)


@pytest.mark.parametrize(
    ("path", "text", "status"),
    [
        ("k/more.cu", b"__global__ void other(int *p) { *p = 1; }", Status.UNPROVEN),
        ("k/more.py", b"import triton\n@triton.jit\ndef other(p):\n    pass\nother[(1,)](0)\n", Status.UNPROVEN),
        ("k/more.cu", b"__global__ void kern(int *p) { *p = 1; }", Status.PROVEN),
        ("k/more.py", b"import triton\n@triton.jit\ndef inlined(p):\n    pass\n", Status.PROVEN),
    ],
)
def test_a_kernel_of_a_changed_source_that_nothing_audited_holds_is_a_gap(
    path: str, text: bytes, status: Status
) -> None:
    result = stage(PTX, SASS, declared=manifest(), changed=[path], tree={**TREE, path: text})
    assert of(result, ARTIFACTS).status is status
    assert ("defines the kernel other" in of(result, ARTIFACTS).reason) is (status is Status.UNPROVEN)
    assert of(result).status is Status.PROVEN


def test_ptx_alone_is_as_much_as_the_policy_says() -> None:
    weak = stage(PTX, declared=manifest(artifacts=["k.ptx"]))
    assert of(weak).status is Status.PROVEN
    assert of(weak).strength is Strength.PTX
    assert any("the machine code that ptxas makes" in text for e in weak.evidence for text in e.not_covered)
    strong = stage(PTX, declared=manifest(artifacts=["k.ptx"]), policy={"min_strength": "proof-on-machine-code"})
    assert of(strong).status is Status.UNPROVEN
    assert "asks for proof-on-machine-code" in of(strong).reason


@pytest.mark.parametrize("status", [Status.REFUTED, Status.UNPROVEN])
def test_the_worst_audit_decides(status: Status) -> None:
    result = stage(PTX, kernel(Isa.SASS, status=status), declared=manifest())
    assert of(result).status is status
    assert f"sass sm_100a is {status}" in of(result).reason


def test_an_architecture_that_nothing_serves_is_unproven() -> None:
    result = stage(SASS, declared=manifest(["sm_100a", "sm_90a"]))
    assert of(result).status is Status.UNPROVEN
    assert "no artifact serves sm_90a" in of(result).reason


def test_what_ships_for_other_hardware_still_counts_when_it_is_wrong() -> None:
    bad = kernel(Isa.SASS, "sm_90a", Status.REFUTED)
    assert of(stage(SASS, bad, declared=manifest())).status is Status.REFUTED


def test_a_movable_load_is_settled_by_machine_code_for_every_architecture() -> None:
    ptx = kernel(Isa.PTX, "sm_90", Status.REFUTED, findings=(MOVABLE,))
    here, there = kernel(Isa.SASS, "sm_90"), kernel(Isa.SASS, "sm_100a")
    both = stage(ptx, here, there, declared=manifest(["sm_90", "sm_100a"]))
    assert of(both).status is Status.PROVEN
    assert [f.severity for f in both.findings] == [Severity.WARNING]
    assert of(stage(ptx, here, declared=manifest(["sm_90", "sm_100a"]))).status is Status.REFUTED
    early = replace(ptx, findings=(MOVABLE, EARLY))
    assert of(stage(early, here, there, declared=manifest(["sm_90", "sm_100a"]))).status is Status.REFUTED


def test_machine_code_that_no_tool_reads_is_excused_only_where_ptx_will_do() -> None:
    skip = Skipped("k.cubin", "nvdisasm was not found", INSTALL_HINT)
    weak = stage(PTX, declared=manifest(), skipped=[skip])
    assert of(weak).status is Status.PROVEN
    assert of(weak, ARTIFACTS).status is Status.PROVEN
    assert any("the machine code in k.cubin" in text for e in weak.evidence for text in e.not_covered)
    strong = stage(PTX, declared=manifest(), skipped=[skip], policy={"min_strength": "proof-on-machine-code"})
    assert of(strong).status is Status.UNPROVEN
    assert of(strong, ARTIFACTS).status is Status.UNPROVEN
    alone = stage(declared=manifest(artifacts=["k.cubin"]), skipped=[skip])
    assert of(alone).status is Status.UNPROVEN
    assert "nvdisasm was not found" in of(alone).reason


def test_an_artifact_that_cannot_be_read_is_never_excused() -> None:
    result = stage(PTX, declared=manifest(), skipped=[Skipped("k.cubin", "is truncated")])
    assert of(result, ARTIFACTS).status is Status.UNPROVEN
    assert "k.cubin: is truncated" in of(result, ARTIFACTS).reason


@pytest.mark.parametrize(
    ("path", "said"), [("gone.ptx", "no file of the head has this path"), ("link.cubin", "is a symlink")]
)
def test_an_artifact_that_is_not_there_is_unproven(path: str, said: str) -> None:
    result = stage(PTX, declared=manifest(artifacts=["k.ptx", path]))
    assert of(result, ARTIFACTS).status is Status.UNPROVEN
    assert said in of(result, ARTIFACTS).reason


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"arch": "sm_90a"}, "k.ptx is declared for sm_90a and was built for sm_100a"),
        ({"kernels": ["kern", "gone*"]}, "k.ptx is declared to hold gone* and does not"),
        ({"arch": "sm_100a", "kernels": ["k*"]}, ""),
    ],
)
def test_what_the_manifest_says_of_an_artifact_has_to_be_so(said: dict[str, Any], reason: str) -> None:
    table = Artifact.model_validate({"path": "k.ptx", **said})
    result = stage(PTX, declared=manifest().model_copy(update={"artifacts": (table,)}))
    assert of(result, ARTIFACTS).status is (Status.UNPROVEN if reason else Status.PROVEN)
    assert reason in of(result, ARTIFACTS).reason


def test_the_same_kernel_twice_in_a_file_is_two_audits() -> None:
    result = stage(PTX, replace(PTX, status=Status.REFUTED), declared=manifest(artifacts=["k.ptx"]))
    assert of(result).status is Status.REFUTED
    assert len(set(of(result).evidence)) == 2


@pytest.mark.parametrize("path", ["k2.PTX", "deep/lib.so", "x.cubin"])
def test_a_compiled_file_that_the_manifest_does_not_name_is_unproven(path: str) -> None:
    result = stage(PTX, declared=manifest(artifacts=["k.ptx"]), changed=["k.ptx", path])
    assert of(result, ARTIFACTS).status is Status.UNPROVEN
    assert f"{path}: is a compiled file that the manifest does not name" in of(result, ARTIFACTS).reason
    assert of(stage(PTX, declared=manifest(artifacts=["k.ptx"]), changed=["k.ptx"]), ARTIFACTS).status is Status.PROVEN


def test_artifacts_may_be_globs() -> None:
    seen: list[str] = []

    def remember(supply: Supply, declared: Manifest) -> Audit:
        seen.extend(path for path, _ in supply.blobs)
        return Audit(())

    files = Files(TREE)
    context = StageContext(
        Change("a", "b", "a", (), files, files, files),
        Policy(),
        manifest(artifacts=["fat/*.cubin", "*.ptx"]),
        date(2026, 11, 29),
        1,
        Path("/nowhere"),
        lambda line: None,
    )
    run_with(context, remember)
    assert seen == ["fat/a.cubin", "k.ptx"]


def test_a_kernel_that_no_table_means_has_to_be_harmless() -> None:
    harmless = kernel(Isa.PTX, name="fill")
    assert of(stage(PTX, harmless, declared=manifest()), ARTIFACTS).status is Status.PROVEN
    unknown = kernel(Isa.PTX, name="other", status=Status.UNPROVEN)
    result = stage(PTX, unknown, declared=manifest())
    assert of(result).status is Status.PROVEN
    assert of(result, ARTIFACTS).status is Status.UNPROVEN
    assert "no [[kernels]] table means other" in of(result, ARTIFACTS).reason


def test_a_table_that_means_no_kernel_is_unproven() -> None:
    result = stage(kernel(Isa.PTX, name="other"), declared=manifest())
    assert of(result).status is Status.UNPROVEN
    assert "no artifact holds a kernel of this name" in of(result).reason


def test_findings_over_the_whole_set_reach_the_kernel_they_point_at() -> None:
    step = Finding("order/step", Severity.ERROR, "declared too generously", Location("m.toml", kernel="kern"))
    loose = replace(step, where=Location("m.toml"), severity=Severity.UNPROVEN, identity=("x",))
    result = stage(PTX, declared=manifest(artifacts=["k.ptx"]), findings=[step, loose])
    assert of(result).status is Status.REFUTED
    assert step.id in of(result).findings
    assert of(result, ARTIFACTS).status is Status.UNPROVEN


def test_without_kernels_only_a_change_without_kernel_code_is_not_applicable() -> None:
    bare = manifest(artifacts=[], kernels=[])
    quiet = stage(declared=bare, changed=["a.py"], tree={"a.py": b"x = 1"})
    assert of(quiet, "ordering").status is Status.NOT_APPLICABLE
    for path, content in (("a.py", b"import triton"), ("a.cu", b""), ("lib.so", b"\x7fELF"), ("gone.py", b"")):
        tree = {} if path == "gone.py" else {path: content}
        loud = stage(declared=bare, changed=[path], tree=tree)
        assert of(loud, "ordering").status is Status.UNPROVEN
        assert path in of(loud, "ordering").reason


def test_kernels_without_artifacts_are_unproven() -> None:
    result = stage(declared=manifest(artifacts=[]))
    assert {o.status for o in result.obligations} == {Status.UNPROVEN}


@pytest.mark.parametrize(
    ("declared", "policy", "status"),
    [(None, {}, Status.UNPROVEN), (None, {"required": False}, Status.NOT_APPLICABLE)],
)
def test_without_manifest(declared: None, policy: dict[str, bool], status: Status) -> None:
    (obligation,) = stage(declared=declared, policy=policy).obligations
    assert obligation.status is status
    assert obligation.reason


@pytest.mark.parametrize(
    ("isa", "built", "wanted", "expected"),
    [
        (Isa.SASS, "sm_90a", "sm_90", True),
        (Isa.SASS, "sm_90", "sm_90a", True),
        (Isa.SASS, "sm_100", "sm_103", True),
        (Isa.SASS, "sm_100f", "sm_103", True),
        (Isa.SASS, "sm_100a", "sm_103", False),
        (Isa.SASS, "sm_103", "sm_100", False),
        (Isa.SASS, "sm_90", "sm_100", False),
        (Isa.PTX, "sm_90", "sm_100a", True),
        (Isa.PTX, "sm_90a", "sm_100a", False),
        (Isa.PTX, "sm_100f", "sm_120", False),
        (Isa.PTX, "compute_80", "sm_120", True),
        (Isa.PTX, "gfx942", "gfx942", True),
        (Isa.PTX, "gfx942", "sm_90", False),
    ],
)
def test_which_hardware_code_serves(isa: Isa, built: str, wanted: str, expected: bool) -> None:
    assert serves(isa, built, wanted) is expected
