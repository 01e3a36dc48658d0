"""Isolation, scope and gate as stages: what they settle when there is little, nothing or something odd to look at."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import validator.gate
import validator.isolation
import validator.scope
from tests.support.repository import Node, RepositoryBuilder, Tree
from tests.support.rule_fixtures import open_context, rule_fixture
from validator.change.git import open_change
from validator.policy.load import policy_from_tree
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity, StageResult, Status, Strength

HONEST = rule_fixture("isolation/path-not-isolated", "good")
MANIFEST = b"rfcs/fused-scale.toml"

Opener = Callable[..., StageContext]


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    def open_(head: Tree = HONEST.head, base: Tree = HONEST.base, rfc: str | None = None) -> StageContext:
        return open_context(replace(HONEST, head=head, base=base, rfc=rfc), tmp_path)

    return open_


def settle(context: StageContext) -> tuple[dict[str, Status], list[Finding]]:
    results: list[StageResult] = [s.run(context) for s in (validator.isolation, validator.scope, validator.gate)]
    wanted = ("isolation/paths", "isolation/content", "scope/", "gate/")
    statuses = {o.id: o.status for r in results for o in r.obligations if o.id.startswith(wanted)}
    return statuses, [f for r in results for f in r.findings]


def test_an_honest_change_is_proven_from_source_with_counts(opened: Opener) -> None:
    context = opened()
    statuses, _ = settle(context)
    assert set(statuses.values()) == {Status.PROVEN}
    for stage in (validator.scope, validator.gate):
        result = stage.run(context)
        evidence = {e.id: e for e in result.evidence}
        for obligation in result.obligations:
            (proof,) = (evidence[i] for i in obligation.evidence)
            assert obligation.strength is proof.strength is Strength.SOURCE
            assert proof.figures
            assert proof.inputs["change"].startswith("sha256:")


def test_the_same_change_gives_the_same_result(opened: Opener) -> None:
    context = opened()
    assert validator.gate.run(context) == validator.gate.run(context)
    assert validator.scope.run(context) == validator.scope.run(context)


def test_without_a_manifest_nothing_that_it_would_declare_is_proven(opened: Opener) -> None:
    statuses, findings = settle(opened({p: n for p, n in HONEST.head.items() if p != MANIFEST}))
    assert statuses["scope/manifest"] is Status.REFUTED
    assert statuses["scope/bounds"] is Status.UNPROVEN
    assert statuses["isolation/paths"] is Status.UNPROVEN
    assert statuses["gate/policy"] is Status.PROVEN
    assert {f.rule for f in findings if f.severity == "error"} == {"scope/manifest-missing"}


def test_nothing_changed_is_not_applicable(opened: Opener) -> None:
    statuses, findings = settle(opened(dict(HONEST.base)))
    assert findings == []
    assert statuses["gate/tests"] is statuses["isolation/content"] is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (Node(b"../../etc/passwd", 0o120000), "is a symlink, not a file"),
        (Node(b"1" * 40, 0o160000), "is a submodule, not a file"),
        (Node(b"#" * (2 << 20)), "2,097,152 bytes, more than the 1,048,576 that are read"),
        (Node(b"\xff"), "byte 0 (0xff) is not UTF-8"),
        (Node(b""), "missing key `schema`"),
        (Node(b"a = [\n"), "not valid TOML"),
        (Node(b"x = " + b"[" * 5000), "nested too deep"),
    ],
    ids=range(7),
)
def test_a_manifest_that_is_none_is_a_finding_not_a_crash(opened: Opener, node: Node, says: str) -> None:
    statuses, findings = settle(opened({**HONEST.head, MANIFEST: node}))
    assert statuses["scope/manifest"] is Status.REFUTED
    (found,) = (f for f in findings if f.rule == "scope/manifest-invalid")
    assert says in found.message
    assert found.where.path == MANIFEST.decode()


def test_a_manifest_that_is_asked_for_but_is_not_there(opened: Opener) -> None:
    statuses, findings = settle(opened(rfc="rfcs/absent.toml"))
    assert statuses["scope/manifest"] is Status.REFUTED
    assert "there is no rfcs/absent.toml in the head" in [f.message for f in findings]


def test_a_second_manifest_beside_the_one_that_is_asked_for_is_said_not_to_be_judged(opened: Opener) -> None:
    second = Node(HONEST.head[MANIFEST].data.replace(b'id = "fused-scale"', b'id = "other"'))
    statuses, findings = settle(opened({**HONEST.head, b"rfcs/other.toml": second}, rfc=MANIFEST.decode()))
    assert statuses["scope/manifest"] is Status.PROVEN
    (found,) = (f for f in findings if f.rule == "scope/several-manifests")
    assert (found.where.path, found.severity) == ("rfcs/other.toml", Severity.WARNING)
    assert "was not judged" in found.message


def test_a_file_moved_out_of_shared_code_counts_under_its_old_name(opened: Opener) -> None:
    head = {p: n for p, n in HONEST.head.items() if p != b"serving/kernels.py"}
    head[b"fastpath/kernels.py"] = HONEST.base[b"serving/kernels.py"]
    _, findings = settle(opened(head))
    assert [f.where.path for f in findings if f.rule == "isolation/path-not-isolated"] == ["serving/kernels.py"]


def test_moving_or_deleting_a_trusted_file_is_an_edit(opened: Opener) -> None:
    head = dict(HONEST.head)
    head[b"fastpath/test_scale.py"] = head.pop(b"tests/test_scale.py")
    head[b"fastpath/scale_reference.py"] = head.pop(b"stock/scale.py")
    del head[b".github/workflows/tests.yml"]
    del head[b"policies/waivers/earlier.toml"]
    _, findings = settle(opened(head))
    errors = {f.rule: f.message for f in findings if f.severity == "error" and f.rule.startswith("gate/")}
    ci = "the change deletes .github/workflows/tests.yml, which decides what is checked or who reviews"
    assert errors == {
        "gate/test-edited": "the change moves tests/test_scale.py to fastpath/test_scale.py, an existing test",
        "gate/reference-edited": "the change moves stock/scale.py to fastpath/scale_reference.py, a reference",
        "gate/ci-edited": ci,
        "gate/waiver-edited": "the change deletes policies/waivers/earlier.toml, a waiver file",
    }


def test_gate_findings_are_not_waivable() -> None:
    assert not any(check.RULE.waivable for check in validator.gate.RULES)


def test_a_test_that_the_base_gained_since_the_fork_is_not_the_changes_own(tmp_path: Path) -> None:
    builder = RepositoryBuilder(tmp_path, bare=True)
    fork = builder.commit(HONEST.base)
    path = b"tests/test_fused_later.py"
    builder.commit({**HONEST.base, path: Node(b"def test_a():\n    assert 1\n")}, fork, branch="main")
    builder.commit({**HONEST.head, path: Node(b"def test_a():\n    pass\n")}, fork, branch="change")
    change = open_change(tmp_path, "main", "change")
    policy = policy_from_tree(change.base_tree)
    manifest = validator.scope.look_up(change, policy).manifest
    context = StageContext(change, policy, manifest, HONEST.today, 0, tmp_path, lambda _: None)
    (found,) = (f for f in validator.gate.run(context).findings if f.where.path == os.fsdecode(path))
    assert (found.rule, found.severity) == ("gate/test-edited", "error")


def test_additions_to_a_test_in_another_language_cannot_be_told(opened: Opener) -> None:
    path = b"tests/kernel_test.cu"
    base = {**HONEST.base, path: Node(b"EXPECT_EQ(a, b);\n")}
    head = {**HONEST.head, path: Node(b"EXPECT_EQ(a, b);\nEXPECT_EQ(c, d);\n")}
    statuses, _ = settle(opened(head, base=base))
    assert statuses["gate/tests"] is Status.UNPROVEN


def test_the_modules_a_kernel_is_judged_by_are_references(opened: Opener) -> None:
    manifest = HONEST.head[MANIFEST].data.replace(
        b'match = "scale"', b'match = "scale"\nbaseline = "serving.kernels:scale"'
    )
    head = {**HONEST.head, MANIFEST: Node(manifest), b"serving/kernels.py": Node(b"KERNELS = (1,)\n")}
    context = opened(head)
    if context.manifest is None:
        pytest.fail(str(validator.scope.look_up(context.change, context.policy).problems))
    _, findings = settle(context)
    assert "serving/kernels.py" in [f.where.path for f in findings if f.rule == "gate/reference-edited"]
