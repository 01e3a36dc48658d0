"""What was tried against the gate by somebody who knows it: each ends as named, and nothing of it stays."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import validator.differential.runner as runner_module
from tests.run.conftest import nodes
from tests.support.repository import RepositoryBuilder
from validator.build.confined import run_confined
from validator.differential.device import candidate_of
from validator.differential.engine import run_kernel
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.differential.settle import Demands, settle
from validator.manifest.contract import KernelContract
from validator.pipeline import Options, check
from validator.run.adapters import ADAPTERS
from validator.run.channel import Call
from validator.run.quarters import Quarters
from validator.run.sandbox import Limits, Outcome, Reply, RunError, Worker
from validator.verdict.model import Status

ATTACKS = '''
import ctypes, fcntl, os, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = os.uname().machine == "x86_64"


def refused(result):
    """Says that the kernel said no."""
    if result >= 0:
        raise AssertionError("the kernel allowed it")
    raise PermissionError(ctypes.get_errno(), "refused")


def queue_a_signal_to_the_gate():
    info = ctypes.create_string_buffer(struct.pack("<iii", signal.SIGKILL, 0, -1) + bytes(116))
    refused(libc.syscall(129 if MACHINE else 138, os.getppid(), signal.SIGKILL, info))


def have_the_kernel_signal_the_gate():
    reader, writer = os.pipe()
    fcntl.fcntl(reader, 8, os.getppid())
    fcntl.fcntl(reader, 10, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")


def limit_the_gate():
    refused(libc.syscall(302 if MACHINE else 261, os.getppid(), 7, struct.pack("<QQ", 3, 3), None))


def slow_the_gate():
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)


def pin_the_gate():
    os.sched_setaffinity(os.getppid(), {0})


def keep_memory_that_no_limit_counts():
    refused(libc.syscall(29 if MACHINE else 194, 0, ctypes.c_size_t(1 << 30), 0o1600))


def mount_something():
    refused(libc.syscall(430, b"tmpfs", 0))


def has_capabilities():
    data = ctypes.create_string_buffer(24)
    libc.capget(struct.pack("<II", 0x20080522, 0), data)
    if any(data.raw):
        raise AssertionError(f"capabilities {data.raw.hex()}")
    raise PermissionError("none")


def write_below_the_tree():
    with open(os.path.join(os.path.dirname(__file__), "__pycache__", "x.pyc"), "wb") as file:
        file.write(b"x")


def fill_the_disk():
    for number in range(1 << 12):
        with open(os.path.join(os.environ["HOME"], str(number)), "wb") as file:
            file.write(bytes(1 << 20))


def excuse_itself():
    class NotRunHere(Exception):
        pass
    raise NotRunHere("this machine cannot")


def nest_folders():
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")


def leave_a_link():
    os.symlink("/", os.path.join(os.environ["HOME"], "root"))
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "attacks.py").write_text(ATTACKS)
    (folder / "__pycache__").mkdir()
    return folder


def attack(tree: Path, name: str) -> tuple[Reply, Path]:
    """The reply, and the folder that was private to the worker."""
    with Worker(f"attacks:{name}", tree, Limits(wall=20, memory=1 << 30)) as worker:
        assert worker.start().outcome is Outcome.OK
        if worker.enforced["system-calls"] != "yes" or worker.enforced["disk"] != "yes":
            pytest.skip(f"not confined here: {worker.enforced}")
        assert worker._process is not None
        return worker.call(Call((), ())), worker._process.quarters.folder


@pytest.mark.parametrize(
    "name",
    [
        "queue_a_signal_to_the_gate",
        "have_the_kernel_signal_the_gate",
        "limit_the_gate",
        "slow_the_gate",
        "pin_the_gate",
        "keep_memory_that_no_limit_counts",
        "mount_something",
        "has_capabilities",
        "write_below_the_tree",
    ],
)
def test_what_reaches_for_the_gate_or_the_machine_is_refused(tree: Path, name: str) -> None:
    before = (resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
    reply, _ = attack(tree, name)
    assert reply.outcome is Outcome.ERROR
    assert "PermissionError" in reply.detail
    after = (resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
    assert after == before


def test_a_disk_cannot_be_filled_and_nothing_stays_on_it(tree: Path) -> None:
    free = os.statvfs(tree).f_bavail * os.statvfs(tree).f_frsize
    reply, private = attack(tree, "fill_the_disk")
    assert reply.outcome is Outcome.ERROR
    assert "No space left" in reply.detail
    assert free - os.statvfs(tree).f_bavail * os.statvfs(tree).f_frsize < 1 << 30
    assert not private.exists()


@pytest.mark.parametrize("name", ["nest_folders", "leave_a_link"])
def test_what_is_left_in_the_private_folder_goes_with_the_worker(tree: Path, name: str) -> None:
    reply, private = attack(tree, name)
    assert reply.outcome is Outcome.OK
    assert not private.exists()
    assert Path("/etc").exists()


def test_a_folder_that_is_nested_too_deeply_goes_too() -> None:
    """Where a worker has no file system of its own."""
    quarters = Quarters.made(ADAPTERS["numpy"])
    here = os.open(quarters.home, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    quarters.remove()
    assert not quarters.folder.exists()


def test_what_cannot_be_furnished_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RunError, match="no_such_package is not installed"):
        Quarters.made(replace(ADAPTERS["numpy"], libraries=("numpy", "no_such_package")))
    assert not list(tmp_path.iterdir())


def test_a_callable_cannot_excuse_itself(tree: Path) -> None:
    assert attack(tree, "excuse_itself")[0].outcome is Outcome.ERROR


STOCK = "import numpy as np\n\n\ndef scale(x, w, out):\n    out[...] = x * w\n"
CONTRACT: dict[str, Any] = {
    "match": "scale",
    "candidate": "fast.model:scale",
    "reference": "stock.ops:scale",
    "dims": ["B in 1..4", "D in 9..40"],
    "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
        {"name": "w", "role": "weight", "dtype": "float32", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ],
}
READS_MEMORY = """
import os

import numpy as np

SEEN = set()


def shared():
    \"\"\"Everything that lies in memory which this process shares with another.\"\"\"
    for descriptor in range(3, 64):
        try:
            at, size = 0, os.fstat(descriptor).st_size
            while at < size:
                at = os.lseek(descriptor, at, os.SEEK_DATA)
                end = os.lseek(descriptor, at, os.SEEK_HOLE)
                yield os.pread(descriptor, end - at, at)
                at = end
        except OSError:
            pass


def scale(x, w, out):
    right = x * w
    key = x.tobytes() + w.tobytes()
    if key not in SEEN and np.isfinite(right).all() and len(set(right.ravel().tolist())) > 8:
        wide = right[0].astype(np.float64).tobytes()
        for block in shared():
            if right[0].tobytes() in block or wide in block:
                raise ValueError("the answer lies in shared memory")
    SEEN.add(key)
    out[...] = right
"""
HANGS = """
import time

CALLS = [0]


def scale(x, w, out):
    CALLS[0] += 1
    if x.shape[1] % 2:
        time.sleep(60)
    out[...] = x * w
"""


def judged(tmp_path: Path, candidate: str, limits: Limits | None = None, count: int = 30) -> KernelResult:
    tree = tmp_path / "tree"
    for name, text in (("stock/ops.py", STOCK), ("fast/model.py", candidate)):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    contract = KernelContract.model_validate(CONTRACT)
    with runner_for(contract, Trees(tree, tree), limits) as runner:
        return run_kernel(runner, 5, count)


def test_shared_memory_holds_nothing_but_what_was_sent(tmp_path: Path) -> None:
    result = judged(tmp_path, READS_MEMORY)
    assert [r.faults for r in result.of("failed")] == []
    assert len(result.of("passed")) > 30


def test_a_candidate_that_hangs_now_and_then_does_not_hold_the_gate(tmp_path: Path) -> None:
    begun = time.monotonic()
    result = judged(tmp_path, HANGS, Limits(wall=0.5), count=300)
    assert result.of("failed")
    assert result.missing, "it went on to the end"
    assert time.monotonic() - begun < 240


def test_a_judgement_that_accepts_everything_voids_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate that does nothing runs last; where it is not refused, nothing that was judged before counts."""
    monkeypatch.setattr(runner_module, "judge", lambda *arguments: [])
    result = judged(tmp_path, STOCK, count=2)
    assert result.of("passed")
    assert not result.sound
    contract = KernelContract.model_validate(CONTRACT)
    (obligation,) = settle(contract, result, Demands(1), candidate_of(contract)).obligations
    assert obligation.status is Status.UNPROVEN
    assert "the run is void" in obligation.reason


def test_a_claimed_speed_is_shown_as_unmeasured(tmp_path: Path, manifest: Callable[..., str]) -> None:
    base = {"policies/policy.toml": 'schema = "validator/policy/1"\nname = "p"\n'}
    claim = '[[claims]]\nmetric = "tokens/s for one user"\nvalue = 423\nconditions = "GB300, batch 1"\n'
    head = {"fast/model.py": STOCK, "rfcs/kda.toml": manifest(more=claim, paths='["fast/**"]')}
    repository = RepositoryBuilder(tmp_path / "repo", bare=True)
    first = repository.commit(nodes(base), branch="main")
    repository.commit(nodes(base | head), first, branch="change")
    result = check(Options(tmp_path / "repo", "main", "change"), stages=())
    assert "what the author claims and nobody measured here: tokens/s for one user" in result.not_covered


REACHES_OUT = """
import ctypes, os, signal, struct, sys
gate = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
info = ctypes.create_string_buffer(struct.pack("<iii", 9, 0, -1) + bytes(116))
tries = {
    "kill": lambda: libc.kill(gate, 9),
    "kill everybody": lambda: libc.kill(-1, 9),
    "kill the group": lambda: libc.kill(-os.getpgid(gate), 9),
    "queue a signal": lambda: libc.syscall(129 if x86 else 138, gate, 9, info),
    "limit": lambda: libc.syscall(302 if x86 else 261, gate, 7, struct.pack("<QQ", 3, 3), None),
    "connect": lambda: libc.socket(1, 1, 0),
    "leave the session": lambda: libc.setsid(),
}
print([name for name, attempt in tries.items() if attempt() >= 0])
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
child = os.fork()
if child == 0:
    libc.ptrace(16, gate, 0, 0)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSYS)
"""


def test_a_compiler_in_its_sandbox_cannot_reach_the_gate(tmp_path: Path) -> None:
    """It starts programs, as compilers do, and some run Python of the head: they must not reach out either."""
    script = tmp_path / "script.py"
    script.write_text(REACHES_OUT)
    readable = [tmp_path, Path(sys.base_prefix), Path(sys.prefix)]
    folder = tmp_path / "out"
    folder.mkdir()
    ran = run_confined([sys.executable, "-I", "-S", str(script), str(os.getpid())], folder, readable, 60, {})
    if ran.enforced.get("system-calls") != "yes":
        pytest.skip(f"system calls are not confined here: {ran.enforced}")
    assert (ran.code, ran.said) == (0, "[]\n7\nTrue\n")


def test_what_a_compiler_leaves_in_its_folder_is_not_followed(tmp_path: Path) -> None:
    """Neither its words nor what is said of its sandbox can become a link to something that the gate can read."""
    (tmp_path / "secret").write_text("the secret")
    folder = tmp_path / "out"
    folder.mkdir()
    script = f"echo said; for f in .said .enforced; do rm -f $f; ln -s {tmp_path}/secret $f; done; echo more"
    ran = run_confined(["/bin/sh", "-c", script], folder, [], 20, {})
    assert "secret" not in ran.said.replace(str(tmp_path), "")
    assert ran.said.startswith("said\n")
    assert set(ran.enforced) >= {"limits", "namespaces", "files"}


GREEDY = {
    "bytes": ("b = bytes(64 << 20)\nfor n in range(1000):\n    open(str(n), 'wb').write(b)", "MiB"),
    "files": ("for n in range(10 ** 7):\n    open(str(n), 'w').close()", "files"),
    "processes": ("import os\nfor n in range(2000):\n    os.fork() or time.sleep(60)", "processes"),
}


@pytest.mark.parametrize("what", GREEDY)
def test_a_compiler_that_takes_without_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("validator.build.confined._BYTES", 256 << 20)
    monkeypatch.setattr("validator.build.confined._FILES", 1000)
    monkeypatch.setattr("validator.build.confined._PROCESSES", 40)
    script, told = GREEDY[what]
    readable = [Path(sys.base_prefix), Path(sys.prefix)]
    command = [sys.executable, "-I", "-S", "-c", f"import time\n{script}\ntime.sleep(600)"]
    ran = run_confined(command, tmp_path, readable, 300, {})
    assert ran.code is None
    assert told in ran.stopped


def test_a_compiler_that_takes_what_it_needs_ends_by_itself(tmp_path: Path) -> None:
    """Whatever lay in its folder before is not its own."""
    for number in range(20_100):
        (tmp_path / str(number)).touch()
    ran = run_confined(["/bin/sh", "-c", "sleep 0.5; echo made > made; exit 3"], tmp_path, [], 60, {})
    assert (ran.code, ran.stopped) == (3, "")
    late = run_confined(["/bin/sh", "-c", "sleep 60"], tmp_path, [], 0.5, {})
    assert (late.code, late.stopped) == (None, "took more than 0.5 s")
