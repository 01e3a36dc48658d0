"""Runs a compiler in a sandbox and waits no longer than agreed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
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
_TOLD = 16 << 10
"""Bytes of what a compiler printed that are kept."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How it ended."""

    code: int | None
    """Exit code; negative: by that signal; None: out of time."""
    said: str
    """What it printed; untrusted text."""
    enforced: Mapping[str, str] = field(default_factory=dict)
    """What of the confinement is in force."""


def run_confined(
    command: Sequence[str],
    folder: Path,
    readable: Sequence[Path],
    seconds: float,
    environment: Mapping[str, str],
    cwd: Path | None = None,
) -> Ran:
    """`command` with `folder` as the only place it can write to. `cwd`: where it starts; None: there."""
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
        code: int | None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)  # the file itself: its name may mean another one by now
        words = out.read(_TOLD).decode("utf-8", "replace")
    with open(report, "rb") as stream:
        written = stream.read(_TOLD)
    try:
        enforced = {str(k): str(v) for k, v in json.loads(written).items()}
    except (ValueError, AttributeError):
        enforced = {}
    return Ran(code, words, enforced)
