"""Runs a compiler in a sandbox and waits no longer than agreed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from validator.run import confine

__all__ = ["Ran", "run_confined"]

_SYSTEM = (
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec",
    "/usr/include", "/usr/share", "/usr/local/lib", "/etc/alternatives", "/etc/ld.so.cache",
    "/dev/urandom", "/dev/zero", "/proc/cpuinfo", "/proc/meminfo", "/proc/self", "/sys/devices/system",
)  # fmt: skip
"""What a compiler and the host compiler under it read."""
_LIMITS = {"as": 16 << 30, "cpu": 600, "fsize": 256 << 20, "core": 0, "nofile": 1024}
_NEUTRAL = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "SOURCE_DATE_EPOCH": "0"}
_LOOKED = 0.2
"""Seconds between two looks at what it takes."""
_BYTES, _FILES, _PROCESSES = 4 << 30, 20_000, 512
"""What it may write, and have at work at a time: limits of the kernel are each process's, or not for root."""
_TOLD = 16 << 10
"""Bytes of what a compiler printed that are kept."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How it ended."""

    code: int | None
    """Exit code; negative: by that signal; None: it was stopped."""
    said: str
    """What it printed; untrusted text."""
    enforced: Mapping[str, str] = field(default_factory=dict)
    """What of the confinement is in force."""
    stopped: str = ""
    """Why it was; empty: it ended by itself."""


def run_confined(
    command: Sequence[str],
    folder: Path,
    readable: Sequence[Path],
    seconds: float,
    environment: Mapping[str, str],
    cwd: Path | None = None,
) -> Ran:
    """`command` with `folder` as the only place it can write to. `cwd`: where it starts; None: there."""
    before = _written(folder)
    said = folder / ".said"
    report, told = os.pipe()
    asked = {
        "command": list(command),
        "limits": _LIMITS,
        "readable": [*(p for p in _SYSTEM if os.path.exists(p)), *map(str, readable)],
        "writable": [str(folder), "/dev/null"],
        "environment": {**_NEUTRAL, "HOME": str(folder), "TMPDIR": str(folder), **environment},
        "report": told,
    }
    launcher = [sys.executable, "-I", "-S", "-B", str(Path(__file__).with_name("launch.py"))]
    with said.open("w+b") as out:
        process = subprocess.Popen(
            [*launcher, str(confine.__file__), json.dumps(asked)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd or folder,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
            pass_fds=(told,),
        )
        os.close(told)
        try:
            stopped = _watched(process, folder, seconds, before)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        out.seek(0)  # the file itself: its name may mean another one by now
        words = out.read(_TOLD).decode("utf-8", "replace")
    with open(report, "rb") as stream:
        written = stream.read(_TOLD)
    try:
        enforced = {str(k): str(v) for k, v in json.loads(written).items()}
    except (ValueError, AttributeError):
        enforced = {}
    return Ran(None if stopped else code, words, enforced, stopped)


def _watched(process: subprocess.Popen[bytes], folder: Path, seconds: float, before: tuple[int, int]) -> str:
    """Waits for its end. Returns why it has to be stopped; empty: it ended."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(left, _LOOKED))
            return ""
        files, size = (now - then for now, then in zip(_written(folder), before, strict=True))
        if files > _FILES or size > _BYTES:
            return f"wrote {files:,} files of {size >> 20:,} MiB; {_FILES:,} and {_BYTES >> 20:,} are allowed"
        if _processes(process.pid) > _PROCESSES:
            return f"had more than {_PROCESSES} processes"
    return f"took more than {seconds:g} s"


def _written(folder: Path) -> tuple[int, int]:
    """(files and folders, bytes on disk) below it."""
    count, size = 0, 0
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(here, name)).st_blocks * 512
            count += 1
    return count, size


def _processes(session: int) -> int:
    """Processes of a session, which nothing in a sandbox can leave."""
    count = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError):
                count += os.getsid(int(name)) == session
    return count
