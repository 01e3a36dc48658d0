"""`--device ptx`: compiled kernels as candidates of the differential engine; `validator run` as a person runs it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from tests.emulate.support import source
from tests.support.command_line import Ran, Warm
from validator.differential.examine import _write_artifact
from validator.emulate.adapter import prepare
from validator.emulate.hazard import HazardKind
from validator.emulate.hoisted import beside
from validator.report.schemas import schema_of

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "fixtures/emulate"
PATTERNS = ROOT / "fixtures/ordering/patterns"


Command = Callable[..., Ran]


@pytest.fixture(scope="module")
def validator() -> Iterator[Command]:
    """`validator(folder, "run", …)`"""
    warm = Warm()
    yield lambda folder, *args: warm(args, folder, None, 300)
    warm.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A candidate with its reference, and few sizes to try."""
    for name in ("kernels.sm_90a.ptx", "stock.py"):
        shutil.copy(KERNELS / name, tmp_path)
    few = (KERNELS / "contracts.toml").read_text().replace("T in 1..6", "T in 1..2").replace("..2048", "..1024")
    (tmp_path / "contracts.toml").write_text(few)
    return tmp_path


DIFF = ("diff", "--manifest", "contracts.toml", "--device", "ptx", "--cases", "1", "--seed", "1", "--quiet")


@pytest.mark.slow
def test_a_right_kernel_passes_as_ptx(validator: Command, tree: Path) -> None:
    done = validator(tree, *DIFF, "--format", "json")
    assert done.code == 0, done.out[-2000:] + done.err
    assert json.loads(done.out)["verdict"] == "pass"


@pytest.mark.slow
def test_a_kernel_without_its_wait_is_refused_and_its_case_can_be_replayed(validator: Command, tree: Path) -> None:
    file = tree / "kernels.sm_90a.ptx"
    file.write_bytes(file.read_bytes().replace(b"griddepcontrol.wait;", b""))
    done = validator(tree, *DIFF, "--format", "json")
    assert done.code == 1
    failed = next(c for c in json.loads(done.out)["cases"] if c["status"] == "failed")
    assert "early-read" in json.dumps(failed)
    story = failed["error"][0]["story"]
    assert any("the true value is" in step for step in story)
    assert any("'out' comes out wrong" in step for step in story)
    again = validator(tree, "replay", failed["reproduce"], "--manifest", "contracts.toml", "--device", "ptx")
    assert again.code == 1
    assert "early-read" in again.out


@pytest.fixture
def run(validator: Command) -> Command:
    """`run("pattern", "--schedules", "3", …)`"""
    return lambda name, *args: validator(PATTERNS / name, "run", "sm_90a.ptx", "--contract", "contract.toml", *args)


def test_run_tells_the_story_of_a_fault_and_traces_a_thread_of_it(run: Command) -> None:
    done = run("bad-volatile-read-early", "--schedules", "3", "--launch", "grid=2 block=64", "--trace")
    assert done.code == 1, done.err
    lines = done.out.splitlines()
    assert lines[0] == "FAIL"
    assert "2 CTAs of 64 threads" in lines[2]
    assert "how it went wrong:" in lines
    assert any("early-read: thread 0 of CTA 0 reads 'x' at byte 0" in line for line in lines)
    assert any("the true value is" in line for line in lines)
    assert any("'out' comes out wrong" in line for line in lines)
    assert any("trace of thread 0 of CTA 0" in line for line in lines)
    assert any("ld.volatile" in line and "-> 0x" in line for line in lines)


def test_launch_takes_the_place_of_what_the_contract_says(validator: Command, tmp_path: Path) -> None:
    body = "mov.u32 %r5, pool;\nmov.u32 %r6, 7;\nst.shared.u32 [%r5+4096], %r6;"
    (tmp_path / "k.ptx").write_bytes(source(body, ["u64"], before=".extern .shared .align 16 .b8 pool[];\n"))
    (tmp_path / "c.toml").write_text(
        'schema = "validator/manifest/1"\n[[kernels]]\nmatch = "k"\n'
        "launch = { pdl = false, grid = [1], block = [1], shared = 8192 }\n"
        'args = [{ name = "out", role = "output", dtype = "float32", shape = [4] }]\n'
    )
    command = ("run", "k.ptx", "--contract", "c.toml", "--schedules", "1")
    assert validator(tmp_path, *command).code == 0
    done = validator(tmp_path, *command, "--launch", "shared=4096 grid=2 cluster=2 block=32")
    assert done.code == 1, done.out + done.err
    assert "2 CTAs of 32 threads" in done.out
    assert "out-of-bounds" in done.out


def test_run_repeats_itself_with_the_same_seed(run: Command) -> None:
    first, second = (
        run("bad-try-wait-gives-up", "--seed", "9", "--schedules", "4", "--format", "json") for _ in range(2)
    )
    assert first.out == second.out
    document = json.loads(first.out)
    jsonschema.validate(document, schema_of("run"))
    assert document["schema"] == "validator/run/1"
    assert document["verdict"] == "fail"
    assert document["hazards"][0]["kind"] == "early-read"
    assert len(document["story"]) <= 12


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--launch", "grid=0"), "grid"),
        (("--launch", "girder=1"), "girder"),
        (("--launch", "grid=1 grid=2"), "twice"),
        (("--launch", ""), "empty"),
        (("--launch", "grid=4000000000"), "grid"),
        (("--launch", "cluster=0"), "cluster"),
        (("--launch", "grid=3 cluster=2"), "no multiple of the cluster"),
        (("--launch", "shared=-1"), "shared=BYTES"),
        (("--launch", "shared=1,2"), "shared=BYTES"),
        (("--launch", "shared=300000"), "300000 bytes of dynamic shared memory"),
        (("--kernel", "nothing"), "0 kernels fit"),
        (("--contract", "absent.toml"), "absent.toml"),
    ],
)
def test_what_cannot_be_run_is_an_error_of_usage(run: Command, args: tuple[str, ...], said: str) -> None:
    done = run("full-empty-ring", *args)
    assert done.code == 2
    assert said in done.err
    assert not done.out


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_file_that_is_cut_off_is_named_with_its_line(validator: Command, tmp_path: Path, cut: float) -> None:
    data = (PATTERNS / "full-empty-ring/sm_90a.ptx").read_bytes()
    (tmp_path / "cut.ptx").write_bytes(data[: int(len(data) * cut)])
    shutil.copy(PATTERNS / "full-empty-ring/contract.toml", tmp_path)
    done = validator(tmp_path, "run", "cut.ptx", "--contract", "contract.toml")
    assert done.code == 2
    assert "cut.ptx" in done.err


def test_a_kernel_that_never_ends_is_stopped_and_nothing_is_claimed(validator: Command, tmp_path: Path) -> None:
    (tmp_path / "loop.ptx").write_text(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry loop(.param .u64 p)\n"
        "{ .reg .b32 %r<2>; mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1; bra L; }\n"
    )
    (tmp_path / "contract.toml").write_text(
        'schema = "validator/manifest/1"\n[[kernels]]\nmatch = "loop"\nargs = [{ name = "out", role = "output" }]\n'
    )
    done = validator(tmp_path, "run", "loop.ptx", "--contract", "contract.toml", "--limit", "2")
    assert done.code == 1
    assert done.out.startswith("UNPROVEN")
    assert "endless" in done.out


def test_the_command_of_the_documentation_runs_as_it_stands(validator: Command, tmp_path: Path) -> None:
    (command,) = re.findall(
        r"<!-- commands: run -->\n```sh\nvalidator (.*?)\n```", (ROOT / "docs/emulate.md").read_text()
    )
    shutil.copy(PATTERNS / "trigger-before-wait/sm_90a.ptx", tmp_path / "kernel.ptx")
    shutil.copy(PATTERNS / "trigger-before-wait/contract.toml", tmp_path)
    done = validator(tmp_path, *shlex.split(command))
    assert done.code == 0, done.out + done.err
    assert done.out.startswith("PASS")


@pytest.mark.sass
@pytest.mark.parametrize("variant", ["hoisted", "good"])
def test_the_demo_gives_a_wrong_number_as_the_documentation_says(validator: Command, variant: str) -> None:
    text = (ROOT / "docs/emulate.md").read_text()
    (command,) = re.findall(r"<!-- commands: replay -->\n```sh\nvalidator (.*?)\n```", text, re.DOTALL)
    done = validator(ROOT, *shlex.split(command.replace("\\\n", "").replace("demo/hoisted", f"demo/{variant}")))
    assert done.code == (variant == "hoisted"), done.out + done.err
    quoted = re.findall(r'"([^"]*come[^"]* wrong[^"]*)"', text)
    assert len(quoted) == 2
    for sentence in quoted:
        assert (" ".join(sentence.split()) in " ".join(done.out.split())) == (variant == "hoisted")


def test_the_documentation_names_every_hazard() -> None:
    text = (ROOT / "docs/emulate.md").read_text()
    assert [kind.value for kind in HazardKind if f"`{kind.value}`" not in text] == []


@pytest.mark.sass
def test_machine_code_beside_the_ptx_says_what_moved(tmp_path: Path) -> None:
    """Asked before the worker starts, which may not start a disassembler."""
    demo = ROOT / "fixtures/demo"
    told = {}
    for variant in ("good", "hoisted"):
        folder = demo / variant / "fastpath/kda_decode/kernels"
        for suffix in ("ptx", "cubin"):
            (tmp_path / f"{variant}.{suffix}").write_bytes((folder / f"kda_decode.sm_90a.{suffix}").read_bytes())
        told[variant] = prepare(f"{variant}.ptx:kda_decode", tmp_path, {})
    assert told["good"] == {"hoisted": "[]"}
    assert len(json.loads(told["hoisted"]["hoisted"])) >= 1
    (tmp_path / "hoisted.cubin").unlink()
    assert prepare("hoisted.ptx:kda_decode", tmp_path, {}) == {}
    assert prepare("absent.ptx:kda_decode", tmp_path, {}) == {}
    assert prepare("../hoisted.ptx:kda_decode", tmp_path / "inner", {}) == {}


def test_check_lays_the_machine_code_beside_the_ptx(tmp_path: Path) -> None:
    """Without it no run of `check` would know what ptxas moved, and every non-coherent load would count as moved."""
    files = {"k/a.ptx": b"ptx", "k/a.cubin": b"cubin", "k/b.ptx": b"other"}
    tree = SimpleNamespace(
        list=lambda path: [SimpleNamespace(path=path)] if path in files else [], read=lambda path: files[path]
    )
    context = SimpleNamespace(workdir=tmp_path, change=SimpleNamespace(head_tree=tree))
    folder = _write_artifact(context, "k/a.ptx")  # type: ignore[arg-type]
    assert beside(folder / "k/a.ptx") == folder / "k/a.cubin"
    assert beside(_write_artifact(context, "k/b.ptx") / "k/b.ptx") is None  # type: ignore[arg-type]
