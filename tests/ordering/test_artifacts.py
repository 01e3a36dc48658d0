"""Whole files: which front end, what is skipped, processes, patterns that stand elsewhere."""

from __future__ import annotations

from pathlib import Path

from validator.manifest.contract import Argument, KernelContract, Launch, Role
from validator.ordering.artifacts import Artifact, audit_artifacts
from validator.verdict.model import Severity, Status

KERNEL = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry NAME(.param .u64 out, .param .u64 x)
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<2>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [x];
	ld.global.f32 %f1, [%rd2];
	griddepcontrol.wait;
	st.global.f32 [%rd1], %f1;
	ret;
}
"""
CONTRACT = KernelContract(
    match="*",
    launch=Launch(pdl=True),
    args=(Argument(name="out", role=Role.OUTPUT), Argument(name="x", role=Role.ACTIVATION)),
)


def kernel(name):
    return KERNEL.replace("NAME", name).encode()


def test_what_cannot_be_read_is_said_and_the_rest_goes_on(tmp_path):
    audit = audit_artifacts(
        [
            Artifact("good.ptx", kernel("one")),
            Artifact("torn.ptx", kernel("two")[:-40]),
            Artifact("noise.bin", b"\0\1\2\3" * 64),
            Artifact("gone.ptx", None, tmp_path / "gone.ptx"),
        ],
        (CONTRACT,),
    )
    assert [k.name for k in audit.kernels] == ["one"]
    assert sorted(s.artifact.partition(":")[0] for s in audit.skipped) == ["gone.ptx", "noise.bin", "torn.ptx"]
    assert all(s.reason for s in audit.skipped)


def test_a_function_of_another_file_may_wait():
    """What comes before its call is early for certain, what comes behind it is left open."""
    calls = kernel("one").replace(b"griddepcontrol.wait;", b"call elsewhere;")
    calls = calls.replace(b".visible", b".extern .func elsewhere();\n.visible")
    (audited,) = audit_artifacts([("k.ptx", calls)], (CONTRACT,)).kernels
    severities = {f.message.partition(" ")[0]: f.severity for f in audited.findings if f.rule.startswith("order/early")}
    assert severities == {"'x'": Severity.ERROR, "'out'": Severity.UNPROVEN}
    printing = calls.replace(b"elsewhere", b"vprintf")
    (audited,) = audit_artifacts([("k.ptx", printing)], (CONTRACT,)).kernels
    assert {f.severity for f in audited.findings if f.rule.startswith("order/early")} == {Severity.ERROR}


def test_ptx_is_known_by_its_content():
    audit = audit_artifacts([("kernels", kernel("one"))], (CONTRACT,))
    assert audit.kernels[0].status is Status.REFUTED


def test_only_the_kernels_asked_for():
    data = kernel("one") + kernel("two").partition(b".address_size 64\n")[2]
    assert [k.name for k in audit_artifacts([("k.ptx", data)], (CONTRACT,), kernel_glob="t*").kernels] == ["two"]
    assert [k.name for k in audit_artifacts([("k.ptx", data)], (CONTRACT,), kernel_glob=("o*", "t*")).kernels] == [
        "one",
        "two",
    ]


def test_processes_give_the_same_answer(tmp_path: Path):
    files = []
    for number in range(3):
        path = tmp_path / f"{number}.ptx"
        path.write_bytes(kernel(f"k{number}"))
        files.append(Artifact(path.name, None, path))
    lines: list[str] = []
    alone = audit_artifacts(files, (CONTRACT,), progress=lines.append)
    assert lines[-1] == "3 of 3 files, 3 kernels: 2.ptx"
    assert audit_artifacts(reversed(files), (CONTRACT,), jobs=2) == alone


def test_the_same_pattern_elsewhere_is_one_note():
    audit = audit_artifacts([(f"{n}.ptx", kernel(n)) for n in ("a", "b", "c")], (CONTRACT,))
    notes = [f for f in audit.findings if f.severity is Severity.NOTE]
    assert [f.rule for f in notes] == ["order/early-read"]
    assert notes[0].count == 3
    assert "in 3 kernels" in notes[0].message
    assert len(notes[0].others) == 2


def test_a_file_without_kernels_is_no_pass():
    audit = audit_artifacts([("empty.ptx", b".version 8.8\n.target sm_90a\n.address_size 64\n")], ())
    assert not audit.kernels
    assert "no kernel" in audit.skipped[0].reason
