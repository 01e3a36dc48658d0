"""Hostile workers: each ends in its named outcome, within its time, and the next call starts afresh."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from validator.run.channel import HEADER, Array, Call, Kind, ProtocolError, Result, pack_frame, unpack_header
from validator.run.pool import Pool, PoolFull
from validator.run.sandbox import Limits, Outcome, RunError, Worker
from validator.run.tree import write_tree

SOURCE = """
import os, signal, socket, stat, sys, time
import numpy as np

def add(x, y, out):
    out[...] = x + y

def returns(x, y, out):
    return x + y, "text"

def hang(x, y, out):
    while True:
        pass

calls = 0

def counts(x, y, out):
    global calls
    calls += 1
    out[...] = calls

def naps(x, y, out):
    time.sleep(0.05)

def sleep(x, y, out):
    time.sleep(60)

def fork(x, y, out):
    while True:
        os.fork()

def execute(x, y, out):
    os.execv("/bin/true", ["true"])

def leave(x, y, out):
    os._exit(0)

def leave_politely(x, y, out):
    raise SystemExit(0)

def segfault(x, y, out):
    os.kill(os.getpid(), signal.SIGSEGV)

def abort(x, y, out):
    os.abort()

def memory(x, y, out):
    kept = []
    while True:
        kept.append(np.ones(1 << 20))

def flood(x, y, out):
    while True:
        os.write(1, b"x" * 65536)

def flood_errors(x, y, out):
    while True:
        sys.stderr.write("x" * 65536)

def _channel():
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                yield descriptor
        except OSError:
            pass

def wrong_header(x, y, out):
    for descriptor in _channel():
        os.write(descriptor, b"not a frame at all, not at all, not at all")
    time.sleep(60)

def huge_answer(x, y, out):
    for descriptor in _channel():
        os.write(descriptor, b"VRC1" + bytes([18, 0, 0, 0]) + bytes(8) + bytes(7) + bytes([16]))
    time.sleep(60)

def closes_channel(x, y, out):
    for descriptor in _channel():
        os.close(descriptor)
    time.sleep(60)

def deletes_home(x, y, out):
    import shutil
    shutil.rmtree(os.environ["HOME"], ignore_errors=True)
    out[...] = 7

def fills_disk(x, y, out):
    with open(os.path.join(os.environ["HOME"], "f"), "wb") as file:
        while True:
            file.write(bytes(1 << 20))

def network(x, y, out):
    socket.create_connection(("127.0.0.1", 9), 1)

def other_files(x, y, out):
    open("/etc/passwd").read()

def kill_parent(x, y, out):
    os.kill(os.getppid(), signal.SIGKILL)

def writes_tree(x, y, out):
    open(__file__, "a").write("x")

def environment(x, y, out):
    out[...] = 0
    names = set(os.environ) - {"HOME", "TMPDIR", "PATH", "LANG", "TZ", "LC_CTYPE"}
    names -= {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
    if names or sys.argv != [""] or "validator" in sys.modules:
        raise ValueError(f"{names} {sys.argv}")

def shrinks(x, y, out):
    for number in os.listdir("/proc/self/fd") if os.access("/proc/self/fd", os.R_OK) else range(3, 64):
        try:
            os.ftruncate(int(number), 0)
        except OSError:
            pass
    raise ValueError("tried")

def imports_validator(x, y, out):
    import validator

def shadowed(x, y, out):
    import json
    out[...] = len(json.dumps([1]))

def raises_strangely(x, y, out):
    class Strange(Exception):
        def __str__(self):
            raise RuntimeError
    raise Strange
"""

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "hostile.py").write_text(SOURCE)
    (folder / "json.py").write_text("raise RuntimeError('shadow')")
    (folder / "numpy.py").write_text("raise RuntimeError('shadow')")
    (folder / "sitecustomize.py").write_text("raise RuntimeError('start-up hook')")
    return folder


VIEWS = tuple(Array(1, (2, 3), (12, 4), arena, 0) for arena in range(3))


def a_call(w: Worker, first: int = 0) -> Call:
    """X, X and zeros, in three slots of the worker's memory."""
    for slot, data in enumerate((X.tobytes(), X.tobytes(), bytes(24)), first):
        w.lend(slot, 24)[:] = data
    return Call(tuple(w.arena(slot) for slot in range(first, first + 3)), VIEWS)


def worker(tree: Path, function: str, **limits: float) -> Worker:
    chosen = {"wall": 20.0, "memory": 1 << 30, **limits}
    return Worker(f"hostile:{function}", tree, Limits(**chosen))  # type: ignore[arg-type]


def test_an_ordinary_callable_gives_its_result(tree: Path) -> None:
    with worker(tree, "add") as w:
        reply = w.call(a_call(w))
        assert reply.outcome is Outcome.OK
        assert reply.result is not None
        np.testing.assert_array_equal(np.frombuffer(w.lend(2, 24), np.float32), (X + X).ravel())
        many = w.call_many([a_call(w, 3 * i) for i in range(5)])
        assert [r.outcome for r in many] == [Outcome.OK] * 5
        assert w.starts == 1


def test_a_call_that_is_made_many_times_is_answered_once(tree: Path) -> None:
    with worker(tree, "counts") as w:
        reply = w.call(replace(a_call(w), times=5))
        assert reply.outcome is Outcome.OK
        assert np.frombuffer(w.lend(2, 24), np.float32)[0] == 5.0
        assert w.call(a_call(w)).outcome is Outcome.OK
        assert np.frombuffer(w.lend(2, 24), np.float32)[0] == 6.0


def test_a_call_that_was_announced_finds_what_stands_there_when_it_comes(tree: Path) -> None:
    with worker(tree, "add") as w:
        w.coming(a_call(w))  # nobody is there to map anything
        assert w.call(a_call(w)).outcome is Outcome.OK
        w.coming(a_call(w, 3))
        w.coming(Call(((1 << 31, 1 << 60, 1 << 60),), ()))  # what cannot be mapped is nobody's answer
        call = a_call(w, 3)
        w.lend(3, 24)[:] = (2 * X).tobytes()
        assert w.call(call).outcome is Outcome.OK
        np.testing.assert_array_equal(np.frombuffer(w.lend(5, 24), np.float32), (3 * X).ravel())
        assert w.starts == 1


def test_what_is_not_sent_at_once_goes_before_the_next_question(tree: Path) -> None:
    """More announcements than a socket takes while nobody reads them."""
    with worker(tree, "naps") as w:
        assert w.call(a_call(w)).outcome is Outcome.OK
        begun = w.begin(a_call(w), 7)
        for _ in range(3000):
            w.coming(a_call(w))
        assert w.finish(begun) is not None
        assert w.call(a_call(w)).outcome is Outcome.OK
        assert w.starts == 1


def test_what_is_no_array_is_said_so(tree: Path) -> None:
    with worker(tree, "returns") as w:
        result = w.call(a_call(w)).result
        assert result is not None
        assert [array.form for array in result.returns] == [0, 4]


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        ("hang", Outcome.HANG),
        ("sleep", Outcome.HANG),
        ("fork", Outcome.FORBIDDEN),
        ("execute", Outcome.FORBIDDEN),
        ("leave", Outcome.MISSING),
        ("leave_politely", Outcome.ERROR),
        ("segfault", Outcome.SIGNAL),
        ("abort", Outcome.SIGNAL),
        ("memory", Outcome.MEMORY),
        ("flood", Outcome.FLOOD),
        ("flood_errors", Outcome.FLOOD),
        ("wrong_header", Outcome.PROTOCOL),
        ("huge_answer", Outcome.PROTOCOL),
        ("closes_channel", Outcome.PROTOCOL),
        ("fills_disk", Outcome.ERROR),
        ("network", Outcome.ERROR),
        ("other_files", Outcome.ERROR),
        ("kill_parent", Outcome.ERROR),
        ("writes_tree", Outcome.ERROR),
        ("imports_validator", Outcome.ERROR),
        ("raises_strangely", Outcome.ERROR),
        ("no_such_function", Outcome.UNLOADABLE),
    ],
)
def test_a_hostile_callable_ends_in_its_outcome(tree: Path, function: str, outcome: Outcome) -> None:
    wall = 2.0 if outcome is Outcome.HANG else 20.0
    with worker(tree, function, wall=wall) as w:
        w.start()
        if function == "fork" and w.enforced.get("system-calls") != "yes":
            pytest.skip(f"system calls are not confined here: {w.enforced}")
        begun = time.monotonic()
        reply = w.call(a_call(w))
        assert reply.outcome is outcome, reply
        assert time.monotonic() - begun < 30
    assert w._process is None
    assert (tree / "hostile.py").read_text() == SOURCE


@pytest.mark.parametrize("function", ["deletes_home", "environment", "shadowed"])
def test_what_does_no_harm_goes_on(tree: Path, function: str) -> None:
    with worker(tree, function) as w:
        assert [w.call(a_call(w)).outcome for _ in range(2)] == [Outcome.OK, Outcome.OK]


def test_the_next_call_starts_a_new_process(tree: Path) -> None:
    with worker(tree, "leave") as w:
        assert [r.outcome for r in w.call_many([a_call(w)] * 3)] == [Outcome.MISSING] * 3
        assert w.call(a_call(w)).outcome is Outcome.MISSING
        assert w.starts == 2


def test_a_killed_worker_is_noticed(tree: Path) -> None:
    with worker(tree, "sleep") as w:
        w.start()
        assert w._process is not None
        os.kill(w._process.pid, 9)
        assert w.call(a_call(w)).outcome in (Outcome.SIGNAL, Outcome.HANG, Outcome.OK, Outcome.MISSING)


def test_the_yardstick_raises_inside_the_candidates_process(tree: Path) -> None:
    (tree / "copy.py_").write_text("")
    (tree / "thin.py").write_text("from hostile import add\n\ndef run(x, y, out):\n    add(x, y, out)\n")
    with Worker("thin:run", tree, Limits(), forbidden=("hostile:add",)) as w:
        reply = w.call(a_call(w))
        assert w.bound == ("hostile:add",)
        assert reply.outcome is Outcome.ERROR
        assert "compared with" in reply.detail


def test_confinement_is_reported_as_values(tree: Path) -> None:
    with worker(tree, "add") as w:
        w.start()
        assert set(w.enforced) == {"limits", "namespaces", "disk", "no-new-privileges", "files", "system-calls"}
        assert all(state == "yes" or state.startswith("no: ") for state in w.enforced.values())


class Files:
    """A tree of plain entries, written by hand."""

    def __init__(self, entries: dict[str, tuple[int, bytes]]) -> None:
        self.entries = entries

    def list(self, prefix: str = "") -> list[object]:
        from types import SimpleNamespace

        return [
            SimpleNamespace(path=p, mode=m)
            for p, (m, _) in sorted(self.entries.items())
            if not prefix or p.startswith(prefix + "/")
        ]

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        return self.entries[path][1]


def test_a_tree_is_written_read_only_without_links(tmp_path: Path) -> None:
    files = Files({"src/a/b.py": (0o100644, b"1"), "src/l": (0o120000, b"/etc"), "other.py": (0o100644, b"2")})
    assert write_tree(files, tmp_path, "src") == 1  # type: ignore[arg-type]
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()] == ["a/b.py"]
    assert (tmp_path / "a/b.py").stat().st_mode & 0o222 == 0


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "a//x"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(RunError, match="not a plain path"):
        write_tree(Files({path: (0o100644, b"")}), tmp_path / "in")  # type: ignore[arg-type]
    assert list(tmp_path.rglob("x")) == []


def test_a_tree_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="import_root"):
        write_tree(Files({"x": (0o100644, bytes(100))}), tmp_path, limit=10)  # type: ignore[arg-type]


def test_frames_survive_a_round_trip() -> None:
    call = Call(((0, 4096, 24), (7, 8192, 24), (2, 0, 24)), VIEWS, keep=True, room=True)
    parts = pack_frame(Kind.CALL, 7, call.pack())
    data = b"".join(bytes(p) for p in parts)
    assert unpack_header(data[: HEADER.size]) == (Kind.CALL, 7, len(data) - HEADER.size)
    assert Call.unpack(memoryview(data)[HEADER.size :]) == call
    told = replace(call, numbers=tuple(range(len(call.arenas))))
    assert Call.unpack(memoryview(b"".join(map(bytes, told.pack())))) == told


@pytest.mark.parametrize("in_room", [False, True])
def test_every_truncated_or_altered_result_is_refused_or_well_formed(in_room: bool) -> None:
    """Deterministic fuzzing of the one reader of a candidate's bytes: nothing but `ProtocolError` may come out."""
    result = Result((Array(1, (1,), (4,), 0, 4), Array(1, (1,), (4,), 0, 4)), (b"wxyz", b"abcd"), in_room)
    good, room = b"".join(bytes(p) for p in result.pack()), memoryview(bytes(100))
    assert Result.unpack(memoryview(good), room).returns[0].shape == (1,)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(20_000):
        data = bytearray(good[: int(rng.integers(0, len(good) + 1))] if rng.random() < 0.3 else good)
        for _ in range(int(rng.integers(0, 4))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            result = Result.unpack(memoryview(bytes(data)), room)
        except ProtocolError:
            refused += 1
            continue
        assert len(result.data) == len(result.returns)
        assert sum(map(len, result.data)) <= len(data) + len(room)
        assert all(size >= 0 for array in result.returns for size in array.shape)
    assert refused > 5_000


def test_a_room_that_was_not_given_is_refused() -> None:
    data = b"".join(bytes(p) for p in Result((Array(1, (1,), (4,)),), (b"wxyz",), True).pack())
    for room in (None, memoryview(bytes(3))):
        with pytest.raises(ProtocolError, match="room"):
            Result.unpack(memoryview(data), room)


def test_slots_keep_their_place_and_share_it_when_asked() -> None:
    pool = Pool(1 << 20)
    first = pool.lend(0, 5000)
    first[:3] = b"abc"
    place = pool.where(0)
    assert pool.lend(1, 300) is not None
    assert (pool.lend(0, 5000)[:3], pool.where(0)) == (b"abc", place)
    pool.lend(2, 5000, over=0)[:3] = b"xyz"
    assert (bytes(first[:3]), pool.where(2)) == (b"xyz", place)
    pool.lend(0, 9000)
    assert pool.where(1)[0] // 4096 not in {at // 4096 for at in range(*(pool.where(0)[0], sum(pool.where(0))))}
    assert pool.lend(2, 5000)[:1] is not None  # on its own again: nobody else's memory
    spans = sorted(pool.where(slot) for slot in range(3))
    assert all(a + n <= b // 4096 * 4096 for (a, n), (b, _) in pairwise(spans))
    with pytest.raises(PoolFull):
        pool.lend(3, 1 << 20)
    for slot in range(3):
        pool.empty(slot)
    pool.close()


def test_nobody_can_shrink_the_shared_memory(tree: Path) -> None:
    with worker(tree, "shrinks") as w:
        reply = w.call(a_call(w))
        assert reply.outcome is Outcome.ERROR
        assert bytes(w.lend(0, 24)) == X.tobytes()


def test_a_header_that_is_none_is_refused() -> None:
    for header in (bytes(HEADER.size), struct.pack("<4sHHQQ", b"VRC1", 99, 0, 0, 0), b"VRC1" + b"\xff" * 20):
        with pytest.raises(ProtocolError):
            unpack_header(header)


def test_files_are_asked_for_together_where_a_tree_can_do_that(tmp_path: Path) -> None:
    class Bulk(Files):
        asked: ClassVar[list[list[str]]] = []

        def read(self, path: str, limit: int = 1 << 20) -> bytes:
            raise AssertionError("one at a time")

        def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
            self.asked.append(list(paths))
            return ((path, self.entries[path][1]) for path in reversed(self.asked[-1]) if path != "a/gone.py")

    names = [f"a/b{number}.py" for number in range(2500)]
    files = Bulk({"a/gone.py": (0o100644, b""), **{name: (0o100644, name.encode()) for name in names}})
    assert write_tree(files, tmp_path) == 2500  # type: ignore[arg-type]
    assert [len(asked) for asked in Bulk.asked] == [2000, 501]
    assert {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.glob("a/*")} == {
        name: name.encode() for name in names
    }


def test_a_file_too_large_to_read_is_left_out(tmp_path: Path) -> None:
    class Large(Files):
        def read(self, path: str, limit: int = 1 << 20) -> bytes:
            if path == "weights.bin":
                raise RunError("has more than is read")
            return super().read(path, limit)

    files = Large({"weights.bin": (0o100644, b""), "model.py": (0o100644, b"1")})
    assert write_tree(files, tmp_path) == 1  # type: ignore[arg-type]
