"""Every format of an ordering audit over the same results: totals true, names escaped, limits kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from validator.manifest.contract import Role
from validator.manifest.load import load_contract
from validator.ordering.program import Isa, Line, Parameter
from validator.ordering.result import AccessRow, Audit, KernelAudit, ParamRef, Skipped
from validator.ordering.rules import no_wait
from validator.report import sarif
from validator.report.audit_contract import render_contract
from validator.report.audit_drift import DriftError, compare, load_audit
from validator.report.audit_json import audit_document, stream_audit_json
from validator.report.audit_markdown import render_audit_markdown
from validator.report.audit_sarif import render_audit_sarif
from validator.report.audit_text import render_audit_text
from validator.report.audit_words import families, family_name, verdict_of
from validator.report.markdown import BUDGET
from validator.report.sarif import findings_log
from validator.report.schemas import schema_of
from validator.verdict.model import Finding, Location, Severity, Status, Verdict

HOSTILE = "k\x1b[31m<img src=x>|`@team`](http://evil)\u202e{0}"


def finding(kernel: str = "scale", severity: Severity = Severity.ERROR, rule: str = "order/early-read") -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        message=f"'x' (activation) is read before the dependency wait by LDG.E in {kernel}",
        where=Location("src/kernel.cu", 7, pc=0xF0, kernel=kernel),
        why="an earlier kernel of the step may still be writing it",
        fix="move it below the wait",
        steps=("kernel.cu:5: entry", "kernel.cu:7: LDG.E reads x"),
        identity=(kernel, "read", "x"),
    )


def row(allowed: bool = True, name: str = "w", count: int = 2) -> AccessRow:
    role = Role.WEIGHT if allowed else Role.ACTIVATION
    line = Line(pc=0xF0, file="src/kernel.cu", line=7)
    return AccessRow("read", (ParamRef(1, 0, name, (), 8),), role, allowed, count, 1, "LDG.E", (line,) * count)


def kernel(name: str = "scale", status: Status = Status.PROVEN, **changes: Any) -> KernelAudit:
    found = {Status.REFUTED: (finding(name),), Status.UNPROVEN: (finding(name, Severity.UNPROVEN),)}.get(status, ())
    base = KernelAudit(
        name=name,
        demangled=name,
        artifact="build/a.cubin",
        isa=Isa.SASS,
        arch="sm_90a",
        status=status,
        reasons=("no access that needs the wait can come before it",),
        wait_count=1,
        early=(row(), row(False, "x", 1)) if status is Status.REFUTED else (row(),),
        findings=found,
        parameters=(
            Parameter(0, 0, 8, None, "float*", True),
            Parameter(1, 8, 8, None, "float const*", True),
            Parameter(2, 16, 4, None, "int", False),
        ),
        pdl=True,
    )
    return replace(base, **changes)


MIXED = Audit(
    (kernel("a", Status.REFUTED), kernel("b", Status.UNPROVEN), kernel("c"), kernel("d")), tools={"nvdisasm": "13.0"}
)


@pytest.mark.parametrize(
    ("audit", "verdict"),
    [
        (Audit((kernel(),)), Verdict.PASS),
        (Audit(()), Verdict.UNPROVEN),
        (Audit((kernel(),), (Skipped("b.cubin", "no disassembler"),)), Verdict.UNPROVEN),
        (Audit((kernel(), kernel("b", Status.UNPROVEN))), Verdict.UNPROVEN),
        (Audit((kernel(), kernel("b", Status.REFUTED), kernel("c", Status.UNPROVEN))), Verdict.FAIL),
        (Audit((kernel(),), findings=(finding(rule="order/role-too-generous"),)), Verdict.FAIL),
        (Audit((kernel(),), findings=(finding(severity=Severity.UNPROVEN),)), Verdict.UNPROVEN),
        (Audit((kernel(),), findings=(finding(severity=Severity.NOTE),)), Verdict.PASS),
        (Audit((kernel(),), findings=(replace(finding(), status=Status.WAIVED),)), Verdict.PASS),
        (Audit((kernel(status=Status.NOT_APPLICABLE),)), Verdict.PASS),
    ],
)
def test_the_verdict_comes_before_any_format(audit: Audit, verdict: Verdict):
    assert verdict_of(audit) is verdict
    assert audit_document(audit)["verdict"] == verdict.value
    assert render_audit_text(audit).startswith(f"{verdict.value.upper()}: ")
    assert verdict.value in render_audit_markdown(audit).split("\n", 1)[0]


def test_text_shows_parameter_role_line_path_and_fix():
    text = render_audit_text(MIXED)
    assert "4 kernels in 1 file: 1 refuted, 1 unproven, 2 proven" in text
    for part in ("'x' (activation)", "src/kernel.cu:7 at 0xf0", "> kernel.cu:5: entry", "fix: move it below the wait"):
        assert part in text
    assert text.index("refuted  1 kernel") < text.index("unproven  1 kernel") < text.index("proven  2 kernels")
    assert max(map(len, text.split("\n"))) <= 100


def thousands(status: Status) -> Audit:
    names = [f"void ns::gemm<{n}, ns::Tile<{n % 7}>>(float*)" for n in range(13_000)]
    return Audit(tuple(kernel(f"_Z{n}", status, demangled=name) for n, name in enumerate(names)))


@pytest.mark.parametrize("status", [Status.PROVEN, Status.REFUTED, Status.UNPROVEN])
def test_thousands_of_kernels_are_a_page_with_true_totals(status: Status):
    audit = thousands(status)
    text = render_audit_text(audit)
    assert text.count("\n") < 130
    assert f"13,000 kernels in 1 file: 13,000 {status.value}" in text
    page = render_audit_markdown(audit)
    assert len(page) <= BUDGET
    assert "13,000" in page


def test_families_are_counted_by_template():
    (group,) = families(thousands(Status.PROVEN).kernels)
    assert (group.name, group.kernels) == ("void ns::gemm<…>", 13_000)


def unlaunched(name: str, demangled: str) -> KernelAudit:
    """A kernel of which nothing but the launch is open."""
    found = replace(finding(name, Severity.UNPROVEN, no_wait.RULE.id), message=no_wait.LAUNCH_UNKNOWN, identity=(name,))
    return kernel(name, Status.UNPROVEN, demangled=demangled, findings=(found,), pdl=None)


def test_kernels_whose_launch_alone_is_open_are_counted_in_one_line():
    many = [unlaunched(f"_Z{n}", f"void gemm<{n}>(float*)" if n % 2 else f"copy{n // 200}(int)") for n in range(1000)]
    audit = Audit((kernel("a", Status.UNPROVEN), *many))
    text = render_audit_text(audit)
    assert "1,000 kernels neither wait nor trigger" in text
    assert "500 x void gemm<…>, 100 x copy0" in text
    assert text.count("order/no-wait") == 0
    assert text.count("\n") < 40
    page = render_audit_markdown(audit)
    assert page.count("neither wait nor trigger") == 1
    results = _check_sarif(json.loads(render_audit_sarif(audit)))
    assert len(results) == 7  # one template, five names, and the kernel that has something else
    assert sum(len(r.get("relatedLocations", ())) > 0 for r in results) == 6
    assert len(json.loads("".join(stream_audit_json(audit)))["kernels"]) == 1001


def test_a_few_of_them_are_shown_one_by_one():
    audit = Audit(tuple(unlaunched(f"k{n}", f"k{n}") for n in range(3)))
    assert render_audit_text(audit).count("order/no-wait") == 3


def test_instances_of_a_template_that_break_the_same_rules_stand_together():
    names = [f"void gemm<{n}>(float*)" for n in range(40)]
    audit = Audit(tuple(kernel(f"_Z{n}", Status.REFUTED, demangled=name) for n, name in enumerate(names)))
    text = render_audit_text(audit)
    assert "and 39 more kernels of this template that break the same rules: machine code for sm_90a" in text
    assert text.count("order/early-read") == 1


def test_files_are_what_was_named_not_what_they_hold():
    audit = Audit(tuple(kernel(f"k{n}", artifact=f"lib.so!{n}.sm_90.cubin") for n in range(4)))
    assert "4 kernels in 1 file" in render_audit_text(audit)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("void a::b<int, c<1>>::d(float*)", "void a::b<…>::d"),
        ("plain", "plain"),
        ("(anonymous namespace)::k(int)", "(anonymous namespace)::k"),
        ("ns::(anonymous namespace)::k<(ns::E)1>(int)", "ns::(anonymous namespace)::k<…>"),
        ("<<<>>>", "<…>"),
        ("operator<", "operator<…>"),
        ("", ""),
    ],
)
def test_family_names(name: str, family: str):
    assert family_name(name) == family


def test_json_follows_its_schema_and_is_the_same_twice():
    once, twice = (
        "".join(stream_audit_json(MIXED)),
        "".join(stream_audit_json(replace(MIXED, kernels=MIXED.kernels[::-1]))),
    )
    document = json.loads(once)
    jsonschema.Draft202012Validator(schema_of("audit")).validate(document)
    assert once == twice
    assert once.isascii()
    assert next(iter(document)) == "schema"
    assert document == json.loads(json.dumps(audit_document(MIXED)))
    early = document["kernels"][0]["early"]
    assert {e["param"]["name"]: (e["allowed"], e["count"], e["level"], e["pc"]) for e in early} == {
        "w": (True, 2, 1, 0xF0),
        "x": (False, 1, 1, 0xF0),
    }
    assert early[0]["source"] == {"file": "src/kernel.cu", "line": 7}


def test_json_of_several_sources_and_of_none():
    two = replace(row(), params=(ParamRef(2, 0, "b"), ParamRef(1, 8, "a.p", (None, 4))))
    none = replace(row(), params=(), role=None, allowed=False)
    document = audit_document(Audit((kernel(early=(two, none)),)))
    params = [e["param"] for e in document["kernels"][0]["early"]]
    deep = {"index": 1, "offset": 8, "name": "a.p", "chain": [None, 4]}
    assert [deep, {"index": 2, "offset": 0, "name": "b", "chain": []}] in params
    assert None in params


def test_hostile_names_reach_no_format_unescaped():
    audit = Audit(
        (kernel(HOSTILE, Status.REFUTED, artifact=HOSTILE, arch=HOSTILE, reasons=(HOSTILE,)),),
        (Skipped(HOSTILE, HOSTILE, HOSTILE),),
        (finding(HOSTILE),),
        {HOSTILE: HOSTILE},
    )
    formats = [
        render_audit_text(audit),
        render_audit_markdown(audit),
        "".join(stream_audit_json(audit)),
        render_audit_sarif(audit),
    ]
    for text in [*formats, render_contract(audit)]:
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<img" not in render_audit_markdown(audit)
    assert not re.search(r"(?<![`\w])@team", render_audit_markdown(audit))
    messages = [r["message"]["text"] for r in _check_sarif(json.loads(render_audit_sarif(audit)))]
    assert not any("](" in text for text in messages)
    load_contract(render_contract(audit).encode(), "skeleton.toml")


# SARIF: what the 2.1.0 schema demands of the parts that are used, and what GitHub demands on top.


def _check_location(location: dict[str, Any]) -> None:
    assert set(location) <= {"id", "physicalLocation", "logicalLocations", "message"}
    physical = location["physicalLocation"]
    assert set(physical) <= {"artifactLocation", "region", "address"}
    uri = physical["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9/_.~%-]+", uri)
    assert not uri.startswith("/")
    assert physical["region"]["startLine"] >= 1
    if "address" in physical:
        assert set(physical["address"]) <= {"relativeAddress", "kind"}
        assert isinstance(physical["address"]["relativeAddress"], int)
    for logical in location.get("logicalLocations", ()):
        assert set(logical) <= {"fullyQualifiedName", "kind"}


def _check_sarif(log: dict[str, Any]) -> list[dict[str, Any]]:
    assert log["version"] == "2.1.0"
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    assert set(run) == {"tool", "automationDetails", "invocations", "columnKind", "results"}
    driver = run["tool"]["driver"]
    assert driver["name"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    assert all(rule["defaultConfiguration"]["level"] in ("error", "warning", "note") for rule in driver["rules"])
    assert all(isinstance(i["executionSuccessful"], bool) for i in run["invocations"])
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        assert set(result["partialFingerprints"]) == {"primaryLocationLineHash"}
        assert len(result["locations"]) == 1
        for location in (*result["locations"], *result.get("relatedLocations", ()), *_flow(result)):
            _check_location(location)
    return run["results"]


def _flow(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for flow in result.get("codeFlows", ()):
        for thread in flow["threadFlows"]:
            assert thread["locations"]
            yield from (step["location"] for step in thread["locations"])


def test_sarif_is_well_formed():
    results = _check_sarif(json.loads(render_audit_sarif(MIXED)))
    assert [r["level"] for r in results] == ["error", "warning"]
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/kernel.cu"


def test_sarif_fingerprints_survive_moved_lines_and_tell_findings_apart():
    moved = replace(finding(), where=Location("src/kernel.cu", 99, kernel="scale"))
    prints = [
        _check_sarif(findings_log([f], "ordering", "", []))[0]["partialFingerprints"]["primaryLocationLineHash"]
        for f in (finding(), moved, finding("other"))
    ]
    assert prints[0] == prints[1] != prints[2]


def test_sarif_keeps_githubs_limit_and_says_what_is_left_out(monkeypatch):
    monkeypatch.setattr(sarif, "MAX_RESULTS", 3)
    notes = [finding(f"n{i}", Severity.NOTE) for i in range(4)]
    log = findings_log([*notes, finding("worst")], "ordering", "", ["b.cubin: unreadable"])
    results = _check_sarif(log)
    assert len(results) == 3
    assert results[0]["level"] == "error"
    said = [n["message"]["text"] for n in log["runs"][0]["invocations"][0]["toolExecutionNotifications"]]
    assert said == ["b.cubin: unreadable", "2 of 5 findings are left out, least severe first"]


def test_sarif_of_a_place_without_a_line_or_with_an_odd_path():
    odd = replace(finding(), where=Location("/abs/na me\udcff#?.cubin", None, pc=16))
    (result,) = _check_sarif(findings_log([odd], "ordering", "", []))
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "abs/na%20me%FF%23%3F.cubin"


@pytest.mark.parametrize(
    ("source", "uri", "line"),
    [
        ("csrc/k.cu:12", "csrc/k.cu", 12),
        ("/src/k.cu:12", "build/a.cubin", 1),
        ("../k.cu:12", "build/a.cubin", 1),
        ("k.cu:12", "build/a.cubin", 1),
        ("", "build/a.cubin", 1),
        ("k.cu:" + "9" * 30, "build/a.cubin", 1),
    ],
)
def test_sarif_points_at_the_source_where_it_lies_in_the_repository(source: str, uri: str, line: int):
    found = replace(finding(), where=Location("build/a.cubin", pc=16, source=source))
    (result,) = _check_sarif(findings_log([found], "ordering", "", []))
    physical = result["locations"][0]["physicalLocation"]
    assert (physical["artifactLocation"]["uri"], physical["region"]["startLine"]) == (uri, line)
    assert result["properties"]["artifact"] == "build/a.cubin"


# Drift.


def test_drift_names_what_changed():
    lost = kernel("c", early=())
    before = Audit((kernel("a"), kernel("b"), kernel("c"), kernel("gone")))
    after = Audit((kernel("a", Status.REFUTED), kernel("b"), lost, kernel("new")))
    drift = compare(audit_document(before), audit_document(after))
    assert drift == {
        "appeared": ["new (sass, sm_90a)"],
        "vanished": ["gone (sass, sm_90a)"],
        "status": ["a (sass, sm_90a): proven before, refuted now"],
        "new_early": ["a (sass, sm_90a): 1 more early read of x"],
        "gone_early": [],
        "lost_prefetch": ["c (sass, sm_90a): 2 fewer early read of w"],
    }
    back = compare(audit_document(after), audit_document(before))
    assert back["gone_early"] == ["a (sass, sm_90a): 1 fewer early read of x"]
    assert "1 more early read of x" in render_audit_text(after, drift)
    assert "vanished" in render_audit_markdown(after, drift)
    assert json.loads("".join(stream_audit_json(after, drift)))["drift"] == drift


def test_drift_of_the_same_audit_is_empty_and_pairs_kernels_of_one_name_by_artifact():
    twins = Audit((kernel(artifact="a.cubin"), kernel(artifact="b.cubin", status=Status.UNPROVEN)))
    document = load_audit("".join(stream_audit_json(twins)).encode(), "old.json")
    drift = compare(document, audit_document(twins))
    assert not any(drift.values())
    assert "Nothing changed" in render_audit_markdown(twins, drift)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has schema None"),
        (b'{"schema": "validator/check/1"}', "has schema 'validator/check/1'"),
        (b'{"schema": "validator/audit/1", "kernels": 3}', "kernels"),
    ],
)
def test_an_earlier_audit_that_is_none_is_an_error(data: bytes, said: str):
    with pytest.raises(DriftError, match=said):
        load_audit(data, "old.json")


# The contract skeleton.


def test_the_skeleton_names_every_parameter_and_claims_no_role():
    struct = replace(row(), params=(ParamRef(0, 24, "arg0+24"),), level=2)
    wide = (Parameter(0, 0, 48, "t", "Tensors", None), Parameter(1, 48, 4, None, "int", False))
    text = render_contract(Audit((kernel(), kernel("boxed", parameters=wide, early=(struct,)))))
    kernels, steps = load_contract(text.encode(), "skeleton.toml")
    assert [(k.match, [a.name for a in k.args]) for k in kernels] == [
        ("boxed", ["t", "arg1"]),
        ("scale", ["arg0", "arg1", "arg2"]),
    ]
    assert [a.role for k in kernels for a in k.args] == [None, Role.SCALAR, None, None, Role.SCALAR]
    assert steps == ()
    assert "# EARLY read by LDG.E at src/kernel.cu:7" in text
    assert '#   { offset = 24, name = "field24", role = "…" },' in text
    assert "through 1 loaded pointer" in text


def test_drift_does_not_depend_on_the_numbers_that_cubins_have_in_a_library():
    def build(first: int, *digests: str) -> Any:
        names = [f"lib.so!{first + n}.sm_90a.cubin" for n in range(len(digests))]
        return audit_document(
            Audit(tuple(kernel("k", artifact=a, digest=d) for a, d in zip(names, digests, strict=True)))
        )

    assert not any(compare(build(1, "a", "b", "c"), build(2, "b", "c", "a")).values())
    drift = compare(build(1, "a", "b", "c"), build(2, "c", "x", "b", "y"))
    assert drift["appeared"] == ["k (sass, sm_90a)"]
    assert not drift["vanished"]
