"""The audit's word against launches: every combination, with a launcher that is played."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validator.change.model import ChangeError
from validator.manifest.contract import Argument, KernelContract, Launch
from validator.pipeline.audited import Build, bytes_of, launchable_builds
from validator.pipeline.audited import audited as builds_of
from validator.pipeline.crosscheck import HERE, Launcher, cross_check
from validator.pipeline.launched import Outcome, beside_neighbours, delayed, under_sanitizer
from validator.report.story import series
from validator.rules import all_rules
from validator.stage import StageContext
from validator.verdict.compute import apply_waivers
from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, StageResult, Status, Strength

SEEN = {
    "shown": False, "arguments": [], "least_delay_us": None, "blind": [], "ordinary": 0, "late_producer": [0, 0],
    "by_argument": {"act": 0}, "late_reader": [], "publisher": [], "chain": None,
}  # fmt: skip
SHOWN = SEEN | {"shown": True, "arguments": ["act"], "least_delay_us": 5, "late_producer": [0, 200]}
STEADY = {
    "sites": 4, "launches": 160, "undelayed": 0, "wrong": 0, "nanoseconds": 20000, "seed": None, "chosen": [],
    "where": [],
}  # fmt: skip
HELD = STEADY | {"wrong": 40, "launches": 40, "seed": 0, "chosen": [3], "where": ["after line 12: bar.sync 0"]}
QUIET = [{"tool": tool, "errors": 0, "reports": []} for tool in ("memcheck", "racecheck", "initcheck", "synccheck")]
MACHINE = {"device": "NVIDIA H200", "capability": [9, 0], "cuda": 13000}
EXACT = KernelContract(match="k*")
X = Argument(name="x", role="activation", dtype="float32", shape=(512,))
N = Argument(name="n", role="scalar", dtype="int32", value=512)
WHOLE = KernelContract(match="k*", launch=Launch(grid=(4,), block=(128,)), args=(X, N))
SPREAD = WHOLE.model_copy(update={"deterministic": "spread"})


def audited(name: str, *early: str, arch: str = "sm_90a", isa: str = "sass", artifact: str = "k.cubin") -> Evidence:
    rows = [{"memory": f"tensors.{argument}", "allowed": False} for argument in early]
    return Evidence(
        id=f"ordering/{name}/{isa}/{arch}",
        kind="ordering-audit",
        strength=Strength.MACHINE_CODE,
        summary="",
        status=Status.REFUTED if early else Status.PROVEN,
        inputs={"k.cubin": "sha256:1"},
        figures={"kernel": name, "artifact": artifact, "isa": isa, "arch": arch},
        details={"early": [*rows, {"memory": "w", "allowed": True}]},
    )


def build(*early: str, isa: str = "sass", status: Status | None = None) -> Build:
    evidence = audited("k1", *early, isa=isa)
    return Build(evidence if status is None else replace(evidence, status=status), early)


def rules(outcome: Outcome) -> list[str]:
    return [finding.rule for finding in outcome.findings]


@pytest.mark.parametrize(
    ("one", "seen", "status", "words"),
    [
        (build("act"), SHOWN, Status.REFUTED, "(act), shown dynamically at ≥ 5 µs delay, argument act"),
        (build("act"), SEEN, Status.UNPROVEN, "refuted statically (act), no delay showed it"),
        (build(), SEEN, Status.PROVEN, "no early access found statically, and no delay showed one"),
        (build(), SHOWN, Status.REFUTED, "the audit missed act is a defect of the audit"),
        (build("out"), SHOWN, Status.REFUTED, "the audit missed act is a defect of the audit"),
        (build("ws"), SEEN | {"blind": ["ws"]}, Status.UNPROVEN, "nothing would show of ws"),
        (build(), SEEN | {"ordinary": 3}, Status.UNPROVEN, "3 of the ordinary launches differ"),
        (build("act"), {"not_launchable": "a mailbox"}, Status.UNPROVEN, "not launched: a mailbox"),
        (build(), {"failed": "no answer within 60 s"}, Status.UNPROVEN, "the launch failed: no answer"),
        (build(status=Status.UNPROVEN), {"not_here": "no driver"}, Status.UNPROVEN, "not run here: no driver"),
        (build(isa="ptx"), SHOWN, Status.REFUTED, "nobody the machine code that the driver makes of it"),
    ],
)  # fmt: skip
def test_both_are_said(one: Build, seen: Any, status: Status, words: str):
    outcome = beside_neighbours(EXACT, one, seen)
    assert outcome.status is status
    assert words in outcome.said
    assert bool(outcome.findings) is (status is Status.REFUTED)


@pytest.mark.parametrize(
    ("one", "seen", "fires"),
    [
        # Each pair differs in one thing: what the audit named, or what the launches did.
        (build(), SHOWN, "gpu/missed-by-audit"),
        (build("act"), SHOWN, "gpu/shown-early-access"),
        (build("out", "act"), SHOWN, "gpu/shown-early-access"),
        (build("out"), SHOWN, "gpu/missed-by-audit"),
        (build("act", status=Status.PROVEN), SHOWN, "gpu/missed-by-audit"),
        (build(isa="ptx"), SHOWN, "gpu/shown-early-access"),
        # Refuted for another fault, and no argument by itself shows one: nothing was missed.
        (build(status=Status.REFUTED), SHOWN | {"arguments": []}, "gpu/shown-early-access"),
        (build(status=Status.REFUTED), SHOWN, "gpu/missed-by-audit"),
        (build(), SEEN, None),
        (build("act"), SEEN, None),
        (build(), SHOWN | {"ordinary": 1}, None),
    ],
)
def test_a_launch_that_the_audit_did_not_foresee_is_its_defect(one: Build, seen: Any, fires: str | None):
    found = beside_neighbours(EXACT, one, seen).findings
    assert [f.rule for f in found] == ([fires] if fires else [])
    assert all(f.severity is Severity.ERROR and f.where.kernel == "k1" and f.fix and f.why for f in found)


def test_the_same_fault_has_the_same_id_whatever_the_delay():
    first, second = (beside_neighbours(EXACT, build(), SHOWN | {"least_delay_us": d}).findings for d in (2, 100))
    assert first[0].id == second[0].id
    assert first[0].id != beside_neighbours(EXACT, build(), SHOWN | {"arguments": ["x"]}).findings[0].id


@pytest.mark.parametrize(("contract", "status"), [(WHOLE, Status.REFUTED), (SPREAD, Status.UNPROVEN)])
def test_other_bytes_prove_nothing_where_none_are_promised(contract: KernelContract, status: Status):
    assert beside_neighbours(contract, build(), SHOWN).status is status
    assert delayed(contract, build(isa="ptx"), HELD).status is status
    # What the code says and the launches show needs no promise.
    assert beside_neighbours(contract, build("act"), SHOWN).status is Status.REFUTED


@pytest.mark.parametrize(
    ("seen", "status", "words"),
    [
        (HELD, Status.REFUTED, "1 of 4 sites delayed by 20 µs (after line 12: bar.sync 0; seed 0)"),
        (STEADY, Status.PROVEN, "160 delayed launches compute the same"),
        (STEADY | {"undelayed": 2}, Status.UNPROVEN, "2 undelayed launches differ"),
        (STEADY | {"sites": 0, "launches": 0}, Status.PROVEN, "no instruction that orders threads"),
        ({"failed": "no answer"}, Status.UNPROVEN, "the launch failed: no answer"),
    ],
)
def test_delays_inside(seen: Any, status: Status, words: str):
    outcome = delayed(WHOLE, build(isa="ptx"), seen)
    assert outcome.status is status
    assert words in outcome.said
    assert rules(outcome) == (["gpu/delayed-inside"] if status is Status.REFUTED else [])


def reporting(tool: str, *reports: str) -> list[Any]:
    return [row | {"errors": len(reports), "reports": list(reports)} if row["tool"] == tool else row for row in QUIET]


@pytest.mark.parametrize(
    ("rows", "status", "words"),
    [
        (QUIET, Status.PROVEN, "memcheck, racecheck, initcheck, synccheck report nothing"),
        (reporting("memcheck", "Invalid __global__ read of size 4"), Status.REFUTED, "memcheck reports Invalid"),
        (reporting("racecheck", "Error: Race"), Status.UNPROVEN, "racecheck reports Error: Race"),
        ([*QUIET[:3], {"tool": "synccheck", "not_here": "too slow"}], Status.UNPROVEN, "not run here: too slow"),
        ([{"not_here": "compute-sanitizer is not installed"}], Status.UNPROVEN, "is not installed"),
    ],
)
def test_the_sanitizer_is_further_evidence(rows: list[Any], status: Status, words: str):
    outcome = under_sanitizer(WHOLE, build(), rows)
    assert outcome.status is status
    assert words in outcome.said
    assert rules(outcome) == ["gpu/sanitizer-report"] * any(row.get("errors") for row in rows)


@pytest.mark.parametrize(
    "change",
    [
        {"launch": Launch(block=(128,))},
        {"launch": Launch(grid=(4,))},
        {"args": ()},
        {"args": (X.model_copy(update={"shape": None}), N)},
        {"args": (X.model_copy(update={"dtype": ()}), N)},
        {"args": (X, N.model_copy(update={"value": None}))},
    ],
)
def test_what_guessed_sizes_may_have_made_refutes_nothing(change: dict[str, Any]):
    contract = WHOLE.model_copy(update=change)
    rows = reporting("memcheck", "Invalid __global__ read of size 4")
    for outcome in (under_sanitizer(contract, build(), rows), delayed(contract, build(isa="ptx"), HELD)):
        assert outcome.status is Status.UNPROVEN
        assert {f.severity for f in outcome.findings} == {Severity.UNPROVEN}


def test_a_false_alarm_is_waived_by_an_id_that_outlives_a_compilation():
    def report(text: str) -> Any:
        return under_sanitizer(EXACT, build(), reporting("racecheck", text)).findings[0]

    one = report("Error: Race reported between Write access at k()+0x10 and Read access at k()+0x20 [32 hazards]")
    other = report("Error: Race reported between Write access at k()+0x30 and Read access at k()+0x90 [8 hazards]")
    assert one.id == other.id
    assert one.id != report("Error: Race reported between Read access at k()+0x10 and Write access at k()+0x20").id
    assert {rule.id for rule in all_rules() if rule.id.startswith("gpu/") and not rule.waivable} == set()


class Played:
    """Answers by kernel and kind of launch."""

    def __init__(self, answers: dict[str, Any], tools: list[Any] | None = None) -> None:
        self.answers, self.asked = answers, []
        self.tools = QUIET if tools is None else tools

    def ask(self, request: Any) -> Any:
        if not request:
            return self.answers.get("", MACHINE)
        assert Path(request["image"]).read_bytes() == b"image"
        self.asked.append((request["what"], request["kernel"], request["contract"]))
        return self.answers[request["kernel"]] if request["what"] == "neighbour" else STEADY

    def launcher(self) -> Launcher:
        @contextmanager
        def opened(folder: Path) -> Iterator[Played]:
            yield self

        def watched(folder: Path, request: Path) -> list[Any]:
            asked = json.loads(request.read_text())
            assert Path(asked["image"]).read_bytes() == b"image"
            self.asked.append(("sanitizer", asked["kernel"], asked["contract"]))
            return self.tools

        return Launcher(lambda: "", opened, watched)


def crossed(tmp_path: Path, evidence: list[Evidence], launcher: Launcher, **keys: Any) -> StageResult:
    def read(path: str, limit: int) -> bytes:
        if path != "k.cubin":
            raise ChangeError(path)
        return b"image"

    manifest = SimpleNamespace(kernels=(KernelContract(match="first*"), KernelContract(match="second")))
    context: Any = StageContext(
        change=SimpleNamespace(head_tree=SimpleNamespace(read=read)),  # type: ignore[arg-type]
        policy=None,  # type: ignore[arg-type]
        manifest=manifest,  # type: ignore[arg-type]
        today=date(2026, 11, 29),
        seed=1,
        workdir=tmp_path,
        progress=lambda line: None,
        **keys,
    )
    # Mangled names are the audit's: what belongs to a contract is what its own obligation rests on.
    settled = tuple(
        Obligation(f"ordering/{match}", "", Status.PROVEN, "", evidence=tuple(e.id for e in evidence if start in e.id))
        for match, start in (("first*", "/_Z5first"), ("second", "/second"))
    )
    return cross_check(context, StageResult(settled, tuple(evidence)), launcher)


def stands(result: StageResult) -> dict[str, Status]:
    return {o.id: o.status for o in result.obligations}


def test_each_kernel_is_launched_from_the_build_for_this_device(tmp_path: Path):
    played = Played({"_Z5first_a": SHOWN, "second": SEEN})
    evidence = [
        audited("_Z5first_a", "act"),
        audited("_Z5first_b", arch="sm_100a"),
        audited("_Z5first_a", isa="ptx"),
        audited("second"),
    ]
    result = crossed(tmp_path, evidence, played.launcher())
    assert stands(result) == {
        "neighbour/first*": Status.REFUTED,
        "delays/first*": Status.PROVEN,
        "sanitizer/first*": Status.PROVEN,
        "neighbour/second": Status.PROVEN,
        "delays/second": Status.UNPROVEN,
        "sanitizer/second": Status.PROVEN,
    }
    reasons = {o.id: o.reason for o in result.obligations}
    assert "shown dynamically at ≥ 5 µs delay, argument act" in reasons["neighbour/first*"]
    assert reasons["delays/second"].startswith("not run here: no PTX of it")
    assert [(what, name) for what, name, _ in played.asked] == [
        ("neighbour", "_Z5first_a"), ("delays", "_Z5first_a"), ("sanitizer", "_Z5first_a"),
        ("neighbour", "second"), ("sanitizer", "second"),
    ]  # fmt: skip
    assert played.asked[0][2] == {"match": "first*"}
    assert {e.strength for e in result.evidence} == {Strength.GPU_RUN}
    first, *_ = result.evidence
    assert first.figures["wrong launches at most"] == 200
    obligation = next(o for o in result.obligations if o.id == "neighbour/first*")
    assert obligation.evidence == (first.id,)
    assert [f.id for f in result.findings] == list(obligation.findings)
    (curve,) = series(first)
    assert [(line.name, line.points) for line in curve.lines] == [("late producer", ((0.0, 0.0), (2.0, 200.0)))]


def test_a_kernel_that_ships_as_ptx_alone_is_launched_as_the_driver_compiles_it(tmp_path: Path):
    played = Played({"second": SHOWN})
    result = crossed(tmp_path, [audited("second", isa="ptx", arch="sm_90")], played.launcher())
    assert stands(result)["neighbour/second"] is Status.REFUTED
    assert [f.rule for f in result.findings] == ["gpu/shown-early-access"]


def test_what_was_built_here_is_launched_too(tmp_path: Path):
    played = Played({"second": SEEN})
    evidence = [audited("second", artifact="built/k.cubin")]
    result = crossed(tmp_path, evidence, played.launcher(), made={"built/k.cubin": b"image"})
    assert stands(result)["neighbour/second"] is Status.PROVEN
    lost = crossed(tmp_path, evidence, played.launcher())
    assert stands(lost)["neighbour/second"] is Status.UNPROVEN
    assert "built/k.cubin is not in the head" in next(o.reason for o in lost.obligations if o.id == "neighbour/second")


def test_what_the_steps_settle_is_never_late(tmp_path: Path):
    row = {"memory": "residual", "allowed": True, "role": "activation"}
    evidence = audited("second")
    evidence = replace(evidence, details={"early": [*evidence.details["early"], row]})
    asked: list[Any] = []
    played = Played({"second": SEEN})
    played.ask = lambda request: asked.append(request) or (SEEN if request else MACHINE)  # type: ignore[method-assign, func-returns-value]
    crossed(tmp_path, [evidence], played.launcher())
    assert [request.get("settled") for request in asked if request] == [("residual",)]


@pytest.mark.parametrize(
    ("rule", "early"), [("order/mailbox-used-before-check", ("inbox", "x", "ready")), ("order/movable-load", ())]
)
def test_what_the_audit_finds_of_a_mailbox_or_a_flag_is_no_miss(rule: str, early: tuple[str, ...]):
    arguments = [
        ("inbox", "mailbox", None),
        ("x", "activation", "ready"),
        ("ready", "flag", None),
        ("w", "weight", None),
    ]
    args = tuple(Argument(name=n, role=r, guarded_by=g) for n, r, g in arguments)
    evidence = audited("k1")
    said = Finding(rule, Severity.ERROR, "", Location("k.cubin", kernel="k1"))
    settled = Obligation("ordering/k*", "", Status.REFUTED, "", evidence=(evidence.id,))
    so_far = StageResult((settled,), (evidence,), (said,))
    (build,) = builds_of(KernelContract(match="k*", args=args), so_far)
    assert build.early == early


def test_ptx_beside_machine_code_of_the_same_kernel_is_not_launched():
    code, text, other = (Build(e, ()) for e in (audited("a"), audited("a", isa="ptx"), audited("b", isa="ptx")))
    assert launchable_builds([text, code, other], (9, 0)) == [code, other]
    assert launchable_builds([code], (10, 0)) == []
    assert launchable_builds([Build(audited("a", isa="ptx", arch="sm_80"), ())], (10, 0)) != []


@pytest.mark.sass
def test_a_kernel_inside_a_library_is_taken_out_of_it(tmp_path: Path):
    folder = Path(__file__).parents[2] / "fixtures/ordering/labelled"
    archive = tmp_path / "kernels.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("h01_ok", "h02_ok"):
            file.write(folder / name / "sm_90a.cubin", f"{name}.cubin")

    def read(path: str, limit: int) -> bytes:
        if path != "kernels.zip":
            raise ChangeError(path)
        return archive.read_bytes()

    def image(artifact: str) -> bytes | None:
        head: Any = SimpleNamespace(read=read)
        return bytes_of(Build(audited("k", artifact=artifact), ()), head, {})

    assert image("kernels.zip!h02_ok.cubin") == (folder / "h02_ok/sm_90a.cubin").read_bytes()
    assert image("kernels.zip!nobody.cubin") is None
    assert image("built/here.cubin") is None


def test_a_kernel_with_no_build_for_this_device_is_unproven(tmp_path: Path):
    result = crossed(tmp_path, [audited("second", arch="sm_100a")], Played({}).launcher())
    assert set(stands(result).values()) == {Status.UNPROVEN}
    assert all(o.reason.startswith("not run here: no ") for o in result.obligations)


@pytest.mark.parametrize("answer", [{"not_here": "no usable CUDA driver"}, {"failed": "the worker ended"}])
def test_without_a_device_every_family_says_so(tmp_path: Path, answer: Any):
    result = crossed(tmp_path, [audited("second")], Played({"": answer}).launcher())
    assert stands(result) == dict.fromkeys(("neighbour", "delays", "sanitizer"), Status.UNPROVEN)
    assert all(o.reason.startswith("not run here: ") for o in result.obligations)


def test_where_a_package_or_a_device_is_missing_no_process_is_started(tmp_path: Path):
    lacking = replace(HERE, lacking=lambda: "this machine has no NVIDIA device")
    result = crossed(tmp_path, [audited("second")], lacking)
    assert {o.reason for o in result.obligations} == {"not run here: this machine has no NVIDIA device"}


def test_what_was_not_audited_is_not_crossed():
    assert cross_check(SimpleNamespace(manifest=None), StageResult()) == StageResult()  # type: ignore[arg-type]


def test_a_waiver_of_every_report_settles_the_obligation(tmp_path: Path):
    """What the tools that know false alarms report is set aside by name, and nothing else with it."""
    played = Played({"second": SEEN}, reporting("racecheck", "Error: Race one", "Error: Race two"))
    result = crossed(tmp_path, [audited("second")], played.launcher())
    first, second = (f.id for f in result.findings)
    assert stands(apply_waivers(result, [first]))["sanitizer/second"] is Status.UNPROVEN
    assert stands(apply_waivers(result, [first, second]))["sanitizer/second"] is Status.WAIVED
