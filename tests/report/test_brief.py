"""The first four sentences, the ranking of gaps, and how obligations are worded: true, in order, never overstated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.conftest import BASE
from validator.gate.stage import GOALS as GATE
from validator.isolation.stage import GOALS as ISOLATION
from validator.report.brief import _ACCEPTABLE, brief, decision
from validator.report.formats import render
from validator.report.gaps import gaps, largest
from validator.report.standing import by_subject, remark, said, stands
from validator.rules import all_rules
from validator.scope.stage import GOALS as SCOPE
from validator.verdict.compute import compute
from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, Status, Strength, Verdict
from validator.verdict.provenance import not_built_here, not_compiled
from validator.verdict.result import CheckResult, deciding, site, where_to_look


def of(*obligations: Obligation, findings: tuple[Finding, ...] = (), **more: object) -> CheckResult:
    values = {"obligations": obligations, "findings": findings, "verdict": compute(obligations), **more}
    return replace(BASE, **values)  # type: ignore[arg-type]


EARLY = Finding(
    "order/early-read",
    Severity.ERROR,
    "'f' (activation) is read before the dependency wait",
    Location("fast/kda/kernel.cubin", pc=0x150, kernel="kda", source="kernel.cu:41"),
    fix="\nmove it below the wait:\n    wait;\n    load;",
    identity=("f",),
)
REFUTED = Obligation(
    "ordering/kda", "nothing is read early", Status.REFUTED, f"sm_90a: {EARLY.message}", findings=(EARLY.id,)
)
POLICY = Finding(
    "gate/policy-edited", Severity.ERROR, "the change edits p.toml", Location("p.toml", 3), fix="take it out"
)
GATED = Obligation(
    "gate/policy",
    "The change edits no policy.",
    Status.REFUTED,
    POLICY.message,
    findings=(POLICY.id,),
    denial="The change edits a policy.",
)
PATHS = Obligation("isolation/paths", "Every changed file is its own.", Status.PROVEN, "", ("e",), (), Strength.SOURCE)


def test_a_refusal_names_the_rule_the_fact_its_place_and_what_mends_it() -> None:
    told = brief(of(REFUTED, PATHS, findings=(EARLY,)))
    assert told.happened == "Refused: memory is read before the wait that makes it valid, in kda"
    assert told.decided == (
        "sm_90a: 'f' (activation) is read before the dependency wait, at fast/kda/kernel.cu:41 "
        "(fast/kda/kernel.cubin at 0x150)"
    )
    assert told.next == "What mends it: move it below the wait"
    assert told.action.startswith("Do not merge")


@pytest.mark.parametrize(
    ("rule", "waivable"),
    [
        ("order/early-read", False),
        ("differential/wrong-result", False),
        ("isolation/leak", False),
        ("isolation/too-many-shared-lines", True),
        ("scope/wider-than-policy", True),
    ],
)
def test_only_what_a_person_may_accept_is_said_to_be_waivable(rule: str, waivable: bool) -> None:
    finding = replace(EARLY, rule=rule)
    told = brief(of(replace(REFUTED, findings=(finding.id,)), findings=(finding,)))
    assert ("waive" in told.action) is waivable


def test_what_a_person_may_accept_are_rules() -> None:
    assert {rule.id for rule in all_rules()} > _ACCEPTABLE


def test_a_pass_without_a_run_of_the_kernel_says_so_in_its_top_line() -> None:
    (kernel,) = BASE.manifest.kernels[:1]  # type: ignore[union-attr]
    about = replace(REFUTED, id=f"ordering/{kernel.match}", status=Status.PROVEN, evidence=("e",), findings=())
    model = Evidence("e", "run", Strength.CPU_MODEL, "s", Status.PROVEN)
    unrun, run = (of(about, evidence=(replace(model, strength=s),)) for s in (Strength.CPU_MODEL, Strength.PTX_RUN))
    limit = "nothing the policy asks for was refuted; the compiled kernel itself was not run"
    assert brief(unrun).verdict == limit
    assert brief(run).verdict == ""
    assert brief(of(replace(about, status=Status.REFUTED))).verdict == ""
    for kind, line in (("text", 0), ("markdown", 1)):
        assert limit in render(unrun, kind).split("\n")[line]
    assert f"<span>: {limit}</span></p>" in render(unrun, "html")


def test_what_no_waiver_covers_is_not_said_to_be_waivable() -> None:
    told = brief(of(GATED, findings=(POLICY,)))
    assert told.decided == "the change edits p.toml, at p.toml:3"
    assert told.action.endswith("no waiver covers it")


def test_a_pass_says_what_it_rests_on_and_what_is_missing() -> None:
    told = brief(of(PATHS, replace(PATHS, id="x", strength=Strength.PTX), not_covered=("nothing was run on a GPU",)))
    assert told.happened == "Nothing that the policy asks for was refuted or left open: 2 obligations are settled"
    assert told.decided == "It rests on: proof on PTX (1 obligation), read from source (1 obligation)"
    assert told.next == ""
    assert told.gap == "nothing was run on a GPU"
    assert told.action.startswith("Judge the design and the 1 gap below")


def test_an_open_obligation_is_the_largest_gap() -> None:
    open_ = Obligation("differential/k", "it computes the same", Status.UNPROVEN, "no CPU model")
    told = brief(of(PATHS, open_))
    assert told.happened == "Not settled: it computes the same"
    assert told.gap == "it computes the same: no CPU model"
    assert "--accept" in told.action


def test_nothing_examined_is_no_pass() -> None:
    told = brief(of())
    assert "no evidence is never a pass" in told.happened
    assert of().verdict is Verdict.UNPROVEN


@pytest.mark.parametrize("kind", ["text", "markdown", "html"])
def test_the_brief_stands_before_everything_else(kind: str) -> None:
    page = render(of(REFUTED, findings=(EARLY,)), kind)
    places = [page.lower().index(word) for word in ("what happened", "what decided it", "largest gap", "recommended")]
    assert places == sorted(places)
    assert places[-1] < page.lower().index("one decode step")  # the manifest's summary


def test_a_refuted_obligation_never_states_what_does_not_hold() -> None:
    assert stands(GATED) == "The change edits a policy"
    assert said(GATED) == "The change edits a policy: the change edits p.toml"
    assert stands(REFUTED) == "it does not hold that nothing is read early"
    assert stands(replace(GATED, status=Status.UNPROVEN)) == "The change edits no policy"
    for kind in ("text", "markdown", "html", "junit"):
        assert "edits no policy" not in render(of(GATED, findings=(POLICY,)), kind)


@pytest.mark.parametrize("goal", [*GATE, *ISOLATION, *SCOPE], ids=lambda g: g.id)
def test_every_goal_says_what_is_the_case_when_it_is_refuted(goal: object) -> None:
    denial, statement = goal.denial, goal.statement  # type: ignore[attr-defined]
    assert denial.endswith(".")
    assert denial != statement


def test_a_green_isolation_does_not_hide_an_edit_of_the_judges() -> None:
    result = of(GATED, PATHS, findings=(POLICY,))
    assert remark(result, PATHS) == (
        "not counting p.toml: what judges a change is left to the gate, and gate/policy is refuted"
    )
    assert remark(result, GATED) == ""
    assert remark(of(PATHS), PATHS) == ""
    for kind in ("text", "markdown", "html"):
        assert "left to the gate" in " ".join(render(result, kind).split())


def test_kernels_come_before_sources_and_what_is_wrong_before_what_is_right() -> None:
    order = [PATHS, replace(REFUTED, status=Status.PROVEN), replace(GATED, status=Status.UNPROVEN), REFUTED]
    assert [(o.id, o.status.value) for o in by_subject(order)] == [
        ("ordering/kda", "refuted"),
        ("gate/policy", "unproven"),
        ("ordering/kda", "proven"),
        ("isolation/paths", "proven"),
    ]


def evidence(ident: str, strength: Strength, *gaps_: str, kind: str = "k") -> Evidence:
    return Evidence(ident, kind, strength, "s", Status.PROVEN, not_covered=gaps_)


def test_gaps_are_ranked_by_what_leaves_them_open_and_none_is_lost() -> None:
    result = of(
        PATHS,
        evidence=(
            evidence("a", Strength.SOURCE, "imports by a computed name", "both"),
            evidence("b", Strength.CPU_MODEL, "the kernel itself was not run", "both"),
            evidence("c", Strength.PTX, "what ptxas makes of it"),
        ),
        not_covered=(
            "imports by a computed name",
            "what ptxas makes of it",
            "the kernel itself was not run",
            "both",
            "no GPU",
        ),
    )
    ranked = gaps(result)
    assert [(g.title, g.texts) for g in ranked] == [
        ("of the change as a whole", ("no GPU",)),
        ("by the runs", ("the kernel itself was not run", "both")),
        ("by the proofs on compiled code", ("what ptxas makes of it",)),
        ("by reading the source", ("imports by a computed name",)),
    ]
    assert sorted(t for g in ranked for t in g.texts) == sorted(result.not_covered)
    assert largest(result) == "no GPU; the kernel itself was not run"
    assert largest(of(PATHS, evidence=(), not_covered=("that it is fast",))) == "not shown: that it is fast"


def test_compiled_files_that_nobody_here_built_are_a_gap() -> None:
    audit = Evidence(
        "o", "ordering-audit", Strength.PTX, "s", Status.PROVEN, {"a/k.ptx": "sha256:1", "a/l.cubin": "sha256:2"}
    )
    assert not_built_here([audit]) == (
        "that the compiled code comes from the sources of this change: nothing here built k.ptx, l.cubin",
    )
    build = Evidence("b", "build", Strength.SOURCE, "s", Status.PROVEN, details={"outputs": {"x/k.ptx": "sha256:1"}})
    assert not_built_here([audit, build])[0].endswith("nothing here built l.cubin")
    both = replace(build, details={"outputs": {"x": "sha256:1", "y": "sha256:2"}})
    assert not_built_here([audit, both]) == ()
    assert not_built_here([audit, replace(build, details={"outputs": [1]})]) == not_built_here([audit])
    assert not_built_here([build]) == ()


def test_the_source_line_comes_first_where_one_changed_file_has_its_name() -> None:
    change = BASE.change
    assert site(change, EARLY.where) == ("fast/kda/kernel.cu", 41, "fast/kda/kernel.cubin at 0x150")
    elsewhere = replace(EARLY.where, source="other.cu:3")
    assert site(change, elsewhere) == ("fast/kda/kernel.cubin", None, "other.cu:3, fast/kda/kernel.cubin at 0x150")
    two = replace(change, files=(*change.files, replace(change.files[0], path="slow/kernel.cu")))
    assert site(two, EARLY.where)[0] == "fast/kda/kernel.cubin"
    assert site(two, replace(EARLY.where, source="kda/kernel.cu:41"))[:2] == ("fast/kda/kernel.cu", 41)
    plain = Location("a.py", 3)
    assert site(change, plain) == ("a.py", 3, "")
    first = where_to_look(of(REFUTED, findings=(EARLY,)))[0]
    assert (first.path, first.line) == ("fast/kda/kernel.cu", 41)


def test_the_deciding_finding_is_an_open_one_of_that_obligation() -> None:
    waived = replace(EARLY, identity=("0",), status=Status.WAIVED)
    warning = replace(EARLY, identity=("1",), severity=Severity.WARNING)
    obligation = replace(REFUTED, findings=(waived.id, warning.id, EARLY.id))
    assert deciding(of(obligation, findings=(waived, warning, EARLY, POLICY)), obligation) == EARLY
    assert deciding(of(obligation, findings=(waived, warning)), obligation) is None


def test_a_fix_that_is_a_command_is_how_to_see_it_again() -> None:
    again = replace(EARLY, fix="validator replay 'X' --manifest FILE")
    told = brief(of(replace(REFUTED, findings=(again.id,)), findings=(again,)))
    assert told.next == "How to see it again: validator replay 'X' --manifest FILE"
    decided = dict(told.lines())["What decided it"]
    assert "validator replay" not in decided, "broken into lines it could not be pasted"
    assert decided.endswith("The command that shows it again stands with the finding below")
    assert brief(of(replace(REFUTED, findings=(again.id,)), findings=(replace(again, fix=""),))).next == ""


def audited(kernel: str, arch: str, isa: str) -> Evidence:
    figures: dict[str, int | float | str] = {"kernel": kernel, "arch": arch, "isa": isa}
    return Evidence(f"{kernel}{arch}{isa}", "ordering-audit", Strength.PTX, "s", Status.PROVEN, figures=figures)


def test_ptx_without_machine_code_is_a_gap() -> None:
    both = [audited("k", "sm_90a", "ptx"), audited("k", "sm_90a", "sass"), audited("l", "sm_100", "sass")]
    assert not_compiled(both) == ()
    assert not_compiled([*both, audited("k", "sm_100a", "ptx"), audited("m", "sm_90", "ptx")]) == (
        "what the compiler makes of the PTX of k on sm_100; m on sm_90: no machine code of it was examined",
    )
    assert not_compiled([replace(e, kind="differential") for e in both]) == ()


def test_the_commands_of_a_decision_fit_the_verdict() -> None:
    assert decision(of(REFUTED, findings=(EARLY,))) == (
        "validator verify BUNDLE",
        "validator reject BUNDLE --reviewer NAME --reason TEXT",
    )
    open_ = Obligation("differential/k*", "it computes the same", Status.UNPROVEN, "no CPU model")
    _, approve, _ = decision(of(PATHS, open_))
    assert approve.endswith("--reason TEXT --accept 'differential/k*=YYYY-MM-DD'")
    assert decision(of(PATHS))[1] == "validator approve BUNDLE --reviewer NAME --reason TEXT"
    many = [replace(open_, id=f"differential/{n}") for n in range(30)]
    assert decision(of(*many))[1].endswith(" …")
