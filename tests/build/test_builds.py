"""Builds in the sandbox: what is made, what fails and how, and what a hostile source gets."""

from __future__ import annotations

import fcntl
import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scale.demo import ARCHITECTURES
from tests.scale.demo import build as demo_repository
from tests.scale.tasks import cell
from validator.build import cells
from validator.build import compile as module
from validator.build.cells import Result, cell_of, read_result, run_build
from validator.build.confined import run_confined
from validator.build.toolchains import Toolchain, find_toolchains, with_interpreter
from validator.manifest.model import Build
from validator.pipeline import Options, check
from validator.pipeline.stages import STAGES
from validator.scale.budget import Budget
from validator.scale.cell import InPlace, State, perform
from validator.scale.engine import Engine
from validator.scale.local import Local
from validator.scale.shard import Shard
from validator.scale.store import Store
from validator.verdict.model import Status

ORDERING = Path(__file__).parents[2] / "fixtures/ordering"
NVCC = find_toolchains("nvcc")
needs_nvcc = [pytest.mark.nvcc, pytest.mark.skipif(not NVCC, reason="there is no nvcc")]
GOOD = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] *= 2.f; }\n'


def built(tmp_path: Path, source: str, arch: str = "sm_90a", **more: object):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "k.cu").write_text(source)
    work = InPlace()
    asked = Build.model_validate({"source": "k.cu", "toolchain": "nvcc", **more})
    outcome = perform(cell_of(0, asked, arch, NVCC[0], work.keep(tree)), work.places.__getitem__)
    assert outcome.state is State.DONE, outcome.why
    return read_result(outcome.data)


class TestNvcc:
    pytestmark = needs_nvcc

    def test_ptx_and_machine_code_with_lines_and_without_this_machines_paths(self, tmp_path):
        made = built(tmp_path, GOOD)
        assert made.result is Result.BUILT
        assert set(made.files) == {"k.ptx", "k.cubin"}
        assert b'.file\t1 "k.cu"' in made.files["k.ptx"]
        assert b".loc\t1 1" in made.files["k.ptx"]
        assert made.files["k.cubin"][:4] == b"\x7fELF"
        assert all(str(tmp_path).encode() not in data and b"/usr/local" not in data for data in made.files.values())

    def test_a_source_that_does_not_compile_is_an_outcome_with_its_line(self, tmp_path):
        made = built(tmp_path, "__global__ void k() { nonsense; }\n")
        assert made.result is Result.FAILED
        assert made.why.startswith('k.cu(1): error: identifier "nonsense" is undefined')
        assert not made.files

    def test_an_architecture_that_the_compiler_does_not_know(self, tmp_path):
        assert built(tmp_path, GOOD, "sm_777").result is Result.FAILED

    def test_a_build_that_takes_too_long(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "_SECONDS", 0.05)
        made = built(tmp_path, GOOD)
        assert (made.result, made.why) == (Result.FAILED, "took more than 0.05 s")

    def test_a_source_reads_nothing_outside_its_tree(self, tmp_path):
        (tmp_path / "secret.h").write_text("#define SECRET 42\n")
        made = built(tmp_path, f'#include "{tmp_path}/secret.h"\n{GOOD}')
        if made.enforced["files"] != "yes":
            pytest.skip(f"this machine does not confine files ({made.enforced['files']})")
        assert made.result is Result.FAILED
        assert "secret.h" in made.why


def python_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str):
    """What a Python source makes that dumps compiled files as CuTe DSL does."""
    roots = tuple(p for p in sys.path if p and Path(p).is_dir())
    here = Toolchain("cutedsl", "0.0", sys.executable, with_interpreter(sys.executable, roots))
    monkeypatch.setattr(cells, "find_toolchains", lambda name: (here,))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "k.py").write_text("import os, pathlib\nout = pathlib.Path(os.environ['CUTE_DSL_DUMP_DIR'])\n" + source)
    work = InPlace()
    asked = Build.model_validate({"source": "k.py", "toolchain": "cutedsl"})
    outcome = perform(cell_of(0, asked, "sm_100a", here, work.keep(tree)), work.places.__getitem__)
    assert outcome.state is State.DONE, outcome.why
    return read_result(outcome.data)


def test_a_python_source_dumps_what_it_compiles(tmp_path, monkeypatch):
    made = python_build(tmp_path, monkeypatch, "(out / 'k.ptx').write_text('.target ' + os.environ['CUTE_DSL_ARCH'])")
    assert (made.result, made.files) == (Result.BUILT, {"k.ptx": b".target sm_100a"})


def test_a_build_that_is_not_reproducible(tmp_path, monkeypatch):
    made = python_build(tmp_path, monkeypatch, "(out / 'k.ptx').write_bytes(os.urandom(8).hex().encode())")
    assert (made.result, made.why, made.files) == (Result.DIFFERS, "two builds differ in k.ptx", {})


def test_a_build_that_makes_nothing_and_one_that_raises(tmp_path, monkeypatch):
    nothing = python_build(tmp_path, monkeypatch, "")
    assert nothing.result is Result.FAILED
    assert "nothing was made" in nothing.why
    (tmp_path / "b").mkdir()
    raising = python_build(tmp_path / "b", monkeypatch, "raise RuntimeError('no such tile')")
    assert raising.result is Result.FAILED
    assert "no such tile" in raising.why


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("name", "source", "more"),
    [
        (
            "triton",
            "labelled/ht1_ok/kernel.py",
            {
                "entry": "kernel",
                "signature": {"y": "*fp32", "x": "*fp32", "w": "*fp32", "n": "i32", "BLOCK": "constexpr"},
                "constants": {"BLOCK": 1024},
            },
        ),
        ("cutedsl", "ptx/tma.py", {}),
    ],
)
def test_a_kernel_of_a_python_compiler(tmp_path, name, source, more, arch):
    found = find_toolchains(name)
    if not found:
        pytest.skip(f"there is no {name} here (VALIDATOR_BUILD_PYTHON names the interpreter that has it)")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "kernel.py").write_bytes((ORDERING / source).read_bytes())
    work = InPlace()
    asked = Build.model_validate({"source": "kernel.py", "toolchain": name, **more})
    outcome = perform(cell_of(0, asked, arch, found[0], work.keep(tree)), work.places.__getitem__)
    assert outcome.state is State.DONE, outcome.why
    made = read_result(outcome.data)
    assert made.result is Result.BUILT, made.why
    assert any(arch.encode() in data for file, data in made.files.items() if file.endswith(".ptx"))
    assert any(data[:4] == b"\x7fELF" for data in made.files.values())


def test_a_compiler_that_is_gone_is_said(tmp_path):
    (tmp_path / "k.cu").write_text(GOOD)
    asked = Build.model_validate({"source": "k.cu", "toolchain": "nvcc"})
    gone = Toolchain("nvcc", "1.2.3", "/nowhere/nvcc", ())
    outcome = perform(cell_of(0, asked, "sm_90a", gone, "tree"), lambda name: tmp_path)
    assert outcome.state is State.RAISED
    assert outcome.why == "nvcc 1.2.3 is not on the machine that should run it"
    with pytest.raises(Exception, match="not on the machine"):
        run_build(cell_of(0, asked, "sm_90a", gone, "tree").payload, lambda name: tmp_path)


def test_the_sandbox_of_a_compiler(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    (tmp_path / "outside").write_text("secret")
    script = f"cat {tmp_path}/outside; echo more > {tmp_path}/outside; echo mine > here; cat here; env"
    ran = run_confined(["/bin/sh", "-c", script], folder, [], 20, {"GIVEN": "yes"})
    assert "mine" in ran.said
    assert "GIVEN=yes" in ran.said
    assert "VIRTUAL_ENV" not in ran.said
    if ran.enforced["files"] == "yes":
        assert "secret" not in ran.said
        assert (tmp_path / "outside").read_text() == "secret"
    slow = run_confined(["/bin/sh", "-c", "sleep 60"], folder, [], 0.3, {})
    assert slow.code is None


def test_a_build_that_is_ended_leaves_no_program_behind(tmp_path):
    work = [cell(1, "compile_forever", str(tmp_path).encode(), seconds=60.0)]
    with Local(jobs=1, gpus=()) as local:
        (outcome,) = Engine(local, budget=Budget(2.5)).run(work, 1)
    assert outcome.why.endswith("spent while it ran")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}/cwd").exists()]


def test_what_a_killed_build_left_is_taken_away_and_nothing_that_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED", 0.0)
    for name in ("left", "runs"):
        (tmp_path / f"validator-build-{name}").mkdir()
        (tmp_path / f"validator-build-{name}/.lock").touch()
    with (tmp_path / "validator-build-runs/.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        module._sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["validator-build-runs"]


# -- in a check --------------------------------------------------------------------------------------------------------


def obligations(repo: Path, family: str = "build"):
    stages = [entry for entry in STAGES if entry.name in ("build", "ordering")]
    result = check(Options(repo, "main", "change", seed=1), stages=stages)
    found = {o.id.rpartition("@")[2]: o for o in result.obligations if o.id.startswith(family)}
    return result, found


@pytest.mark.nvcc
@pytest.mark.skipif(not NVCC, reason="there is no nvcc")
def test_a_source_that_is_not_what_ships_is_refuted(tmp_path):
    """The source is edited, the compiled files are not: what was audited is not what the source says."""
    from validator.resources import resource

    kernel = resource("fixtures/demo") / "good/fastpath/kda_decode/kernels/kda_decode.cu"
    edited = kernel.read_bytes().replace(b"fj > 20.f", b"fj > 10.f")
    assert edited != kernel.read_bytes()
    built = ("sm_90a", "sm_103a")
    result, found = obligations(demo_repository(tmp_path / "r", compiled=True, source=edited, built=built))
    assert {arch: o.status for arch, o in found.items()} == {"sm_90a": Status.REFUTED, "sm_103a": Status.PROVEN}
    assert {f.rule for f in result.findings} >= {"build/shipped-differs"}
    assert "other instructions than" in found["sm_90a"].reason
    assert result.verdict.value == "fail"


def test_what_ships_compiled_and_is_not_built_is_no_proof_of_anything_but_is_audited(tmp_path):
    result, found = obligations(demo_repository(tmp_path / "r", compiled=False))
    assert len(found) == 4
    assert all(o.status is Status.NOT_ASKED for o in found.values())  # this policy does not ask for builds
    assert all("nobody knows what it was made from" in o.reason for o in found.values())
    ordering = next(o for o in result.obligations if o.id == "ordering/kda_decode")
    assert ordering.status in (Status.PROVEN, Status.UNPROVEN)
    audited = [e.figures["arch"] for e in result.evidence if e.kind == "ordering-audit"]
    assert set(audited) >= {"sm_90a", "sm_100a", "sm_103a", "sm_120a"}
    assert json.dumps([o.reason for o in found.values()])


def test_a_policy_can_demand_builds(tmp_path):
    result, found = obligations(demo_repository(tmp_path / "r", compiled=False, demanded=True))
    assert {o.status for o in found.values()} == {Status.UNPROVEN}
    assert result.verdict.value == "unproven"


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.skipif(not NVCC, reason="there is no nvcc")
def test_shards_put_together_audit_what_each_of_them_built(tmp_path):
    """What is built in one shard is audited there: no other has it."""
    built = ("sm_103a", "sm_120a")
    repository = demo_repository(tmp_path / "r", compiled=True, demanded=True, built=built)
    options = Options(repository, "main", "change", seed=1)
    stages = [entry for entry in STAGES if entry.name in ("build", "ordering")]
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(tmp_path / str(n))) for n in (1, 2)]
        local = stack.enter_context(Local(jobs=2))
        for number, store in enumerate(stores, 1):
            part = Engine(local, keep_in=[store], whole=store, shard=Shard(number, 2))
            result = check(options, stages=stages, work=part)
            assert result.verdict.value == "unproven"
            assert all("not run" in o.reason or o.status is Status.PROVEN for o in result.obligations if "@" in o.id)
        result = check(options, stages=stages, work=Engine(local, stores, absent=lambda cell: f"{cell.id} is missing"))
    settled = {o.id: (o.status, o.reason) for o in result.obligations if o.id.startswith(("build/", "ordering/"))}
    assert len(settled) == 2 + 2
    assert {status for status, _ in settled.values()} == {Status.PROVEN}, settled
    assert result.verdict.value == "pass"
    assert {e.figures["arch"] for e in result.evidence if e.kind == "ordering-audit"} == set(ARCHITECTURES)
