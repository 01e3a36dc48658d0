"""The audit's word against launches: every combination, with an observer that is played."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validator.change.model import ChangeError
from validator.manifest.contract import KernelContract
from validator.pipeline import crosscheck
from validator.pipeline.crosscheck import cross_check, judged
from validator.report.story import series
from validator.stage import StageContext
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

SEEN = {
    "shown": False, "arguments": [], "least_delay_us": None, "blind": [], "ordinary": 0, "late_producer": [0, 0],
    "by_argument": {"act": 0}, "late_reader": [], "publisher": [], "chain": None,
}  # fmt: skip
SHOWN = SEEN | {"shown": True, "arguments": ["act"], "least_delay_us": 5, "late_producer": [0, 200]}
MACHINE = {"device": "NVIDIA H200", "capability": [9, 0], "cuda": 13000}


@pytest.mark.parametrize(
    ("static", "early", "seen", "status", "words"),
    [
        (Status.REFUTED, ("act",), SHOWN, Status.REFUTED, "(act), shown dynamically at ≥ 5 µs delay, argument act"),
        (Status.REFUTED, ("act",), SEEN, Status.UNPROVEN, "refuted statically (act), no delay showed it"),
        (Status.PROVEN, (), SEEN, Status.PROVEN, "no early access found statically, and no delay showed one"),
        (Status.PROVEN, (), SHOWN, Status.REFUTED, "the audit missed act is a defect of the audit"),
        (Status.REFUTED, ("out",), SHOWN, Status.REFUTED, "the audit missed act is a defect of the audit"),
        (Status.REFUTED, ("ws",), SEEN | {"blind": ["ws"]}, Status.UNPROVEN, "nothing would show of ws"),
        (Status.PROVEN, (), SEEN | {"ordinary": 3}, Status.UNPROVEN, "3 of the ordinary launches differ"),
        (Status.REFUTED, ("act",), {"not_launchable": "a mailbox"}, Status.UNPROVEN, "not launched: a mailbox"),
        (Status.PROVEN, (), {"failed": "no answer within 60 s"}, Status.UNPROVEN, "the launch failed: no answer"),
        (Status.UNPROVEN, (), {"not_here": "no driver"}, Status.UNPROVEN, "not run here: no driver"),
    ],
)  # fmt: skip
def test_both_are_said(static: Status, early: tuple[str, ...], seen: Any, status: Status, words: str):
    said = judged(static, early, seen)
    assert said[0] is status
    assert words in said[1]


def audited(name: str, *early: str, arch: str = "sm_90a", isa: str = "sass") -> Evidence:
    rows = [{"memory": f"tensors.{argument}", "allowed": False} for argument in early]
    return Evidence(
        id=f"ordering/{name}/{isa}/{arch}",
        kind="ordering-audit",
        strength=Strength.MACHINE_CODE,
        summary="",
        status=Status.REFUTED if early else Status.PROVEN,
        inputs={"k.cubin": "sha256:1"},
        figures={"kernel": name, "artifact": "k.cubin", "isa": isa, "arch": arch},
        details={"early": [*rows, {"memory": "w", "allowed": True}]},
    )


class Played:
    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, []

    def ask(self, request: Any) -> Any:
        if not request:
            return self.answers.get("", MACHINE)
        assert Path(request["image"]).read_bytes() == b"cubin"
        self.asked.append((request["kernel"], request["contract"]))
        return self.answers[request["kernel"]]


def crossed(tmp_path: Path, evidence: list[Evidence], observer: Played | None) -> StageResult:
    tree = SimpleNamespace(read=lambda path, limit: b"cubin")
    manifest = SimpleNamespace(kernels=(KernelContract(match="first*"), KernelContract(match="second")))
    context: Any = StageContext(
        change=SimpleNamespace(head_tree=tree),  # type: ignore[arg-type]
        policy=None,  # type: ignore[arg-type]
        manifest=manifest,  # type: ignore[arg-type]
        today=date(2026, 11, 29),
        seed=1,
        workdir=tmp_path,
        progress=lambda line: None,
    )

    @contextmanager
    def opened(folder: Path) -> Iterator[Played]:
        assert observer is not None
        yield observer

    # Mangled names are the audit's: what belongs to a contract is what its own obligation rests on.
    settled = tuple(
        Obligation(f"ordering/{match}", "", Status.PROVEN, "", evidence=tuple(e.id for e in evidence if start in e.id))
        for match, start in (("first*", "/_Z5first"), ("second", "/second"))
    )
    so_far = StageResult(settled, tuple(evidence))
    return cross_check(context, so_far, opened if observer is not None else None)


def test_each_kernel_is_launched_from_the_build_for_this_device(tmp_path: Path):
    observer = Played({"_Z5first_a": SHOWN, "second": SEEN})
    evidence = [
        audited("_Z5first_a", "act"),
        audited("_Z5first_b", arch="sm_100a"),
        audited("_Z5first_a", isa="ptx"),
        audited("second"),
    ]
    result = crossed(tmp_path, evidence, observer)
    assert [(o.id, o.status) for o in result.obligations] == [
        ("neighbour/first*", Status.REFUTED),
        ("neighbour/second", Status.PROVEN),
    ]
    assert "shown dynamically at ≥ 5 µs delay, argument act" in result.obligations[0].reason
    assert [name for name, _ in observer.asked] == ["_Z5first_a", "second"]
    assert observer.asked[0][1] == {"match": "first*"}
    assert [e.strength for e in result.evidence] == [Strength.GPU_RUN] * 2
    assert result.evidence[0].figures["wrong launches at most"] == 200
    assert result.obligations[0].evidence == (result.evidence[0].id,)
    (curve,) = series(result.evidence[0])
    assert [(line.name, line.points) for line in curve.lines] == [("late producer", ((0.0, 0.0), (2.0, 200.0)))]


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

    context: Any = SimpleNamespace(change=SimpleNamespace(head_tree=SimpleNamespace(read=read)))
    image = crosscheck._image(context, "kernels.zip!h02_ok.cubin")
    assert image == (folder / "h02_ok/sm_90a.cubin").read_bytes()
    assert crosscheck._image(context, "kernels.zip!nobody.cubin") is None
    assert crosscheck._image(context, "built/here.cubin") is None


def test_a_kernel_with_no_build_for_this_device_is_unproven(tmp_path: Path):
    result = crossed(tmp_path, [audited("second", arch="sm_100a")], Played({}))
    assert {o.status for o in result.obligations} == {Status.UNPROVEN}
    assert all(o.reason.startswith("not run here: no audited machine code for NVIDIA H200") for o in result.obligations)


@pytest.mark.parametrize("answer", [{"not_here": "no usable CUDA driver"}, {"failed": "the worker ended"}])
def test_without_a_device_one_obligation_says_so(tmp_path: Path, answer: Any):
    (obligation,) = crossed(tmp_path, [audited("second")], Played({"": answer})).obligations
    assert (obligation.id, obligation.status) == ("neighbour", Status.UNPROVEN)
    assert obligation.reason.startswith("not run here: ")


def test_where_a_package_or_a_device_is_missing_no_process_is_started(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(crosscheck, "_lacking", lambda: "this machine has no NVIDIA device")
    (obligation,) = crossed(tmp_path, [audited("second")], None).obligations
    assert obligation.reason == "not run here: this machine has no NVIDIA device"


def test_what_was_not_audited_is_not_crossed(tmp_path: Path):
    assert cross_check(SimpleNamespace(manifest=None), StageResult()) == StageResult()  # type: ignore[arg-type]
