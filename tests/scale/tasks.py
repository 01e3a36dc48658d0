"""Tasks that the tests run in cells, in this process or in others."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from validator.errors import ValidatorError
from validator.scale.cell import Cell, Content, Needs

HERE = "tests.scale.tasks"


def cell(n: int, task: str = "echo", payload: bytes | None = None, **more: object) -> Cell:
    """A cell of one of these tasks."""
    return Cell(f"test/{task}/{n:05}", f"{HERE}:{task}", payload if payload is not None else b"%d" % n, **more)


def cells(count: int, task: str = "echo", **more: object) -> list[Cell]:
    return [cell(n, task, **more) for n in range(count)]


def gpu_cells(count: int) -> list[Cell]:
    return cells(count, "visible", needs=Needs(gpu="any"), seconds=1.0)


def echo(payload: bytes, content: Content) -> bytes:
    return b"did " + payload


def pid(payload: bytes, content: Content) -> bytes:
    return b"%d" % os.getpid()


def visible(payload: bytes, content: Content) -> bytes:
    time.sleep(0.05)
    return os.environ.get("CUDA_VISIBLE_DEVICES", "none").encode()


def read(payload: bytes, content: Content) -> bytes:
    """Everything below the content of that name, with its path."""
    path = content(payload.decode())
    if path.is_file():
        return path.read_bytes()
    found = sorted(p for p in path.rglob("*") if p.is_file())
    return b"".join(f"{p.relative_to(path)}=".encode() + p.read_bytes() + b";" for p in found)


def slow(payload: bytes, content: Content) -> bytes:
    """`seconds` → the same, later."""
    time.sleep(float(payload))
    return payload


def refuse(payload: bytes, content: Content) -> bytes:
    raise ValidatorError(f"will not do {payload.decode()}")


def break_(payload: bytes, content: Content) -> bytes:
    raise KeyError(payload.decode())


def die(payload: bytes, content: Content) -> bytes:
    """Takes its process with it: always (`always`), or until a file of that name exists."""
    flag = Path(payload.decode())
    if payload != b"always" and flag.exists():
        return b"survived"
    if payload != b"always":
        flag.write_text("")
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def sometimes_die(payload: bytes, content: Content) -> bytes:
    """`kill` dies, everything else is done."""
    if payload == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return b"did " + payload


def count(payload: bytes, content: Content) -> bytes:
    """Adds a line to a file: how often it was really run. `path|seconds`."""
    path, _, seconds = payload.decode().partition("|")
    time.sleep(float(seconds or 0))
    with open(path, "a") as out:
        out.write("x")
    return b"done"


def compile_forever(payload: bytes, content: Content) -> bytes:
    """A compiler that starts another program and never ends; their process ids are left in that folder."""
    from validator.build.confined import run_confined

    folder = Path(payload.decode())
    run_confined(["/bin/sh", "-c", "sleep 600 & echo $! $$ > pids; wait"], folder, [], 600, {})
    return b""


def stay(payload: bytes, content: Content) -> bytes:
    """Notes in a file which process it runs in, and stays there for a while. `path|seconds`."""
    path, _, seconds = payload.decode().partition("|")
    with open(path, "a") as out:
        out.write(f"{os.getpid()}\n")
    time.sleep(float(seconds))
    return path.encode()
