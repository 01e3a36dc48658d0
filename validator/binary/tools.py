"""NVIDIA's `nvdisasm` and `cuobjdump`: where they are, which version, and how they are run on untrusted files.

Both come with a CUDA toolkit or from the package index (no GPU needed). They read files that a change brought, so each
runs without a shell, in a private folder, with limits on time, memory and output; what it says is then checked.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from validator.binary.errors import BinaryError
from validator.errors import Problem

__all__ = ["INSTALL_HINT", "Tools", "run_tool"]

INSTALL_HINT = "pip install 'validator[sass]'"

_MEMORY = 16 << 30
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Tools:
    """The two programs; None where one was not found."""

    nvdisasm: Path | None = None
    cuobjdump: Path | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Tool → version, such as `13.5.37`."""

    @staticmethod
    def find() -> Tools:
        """Looks in this Python environment first (its version is pinned by the extra), then on PATH."""
        return _find()


@cache
def _find() -> Tools:
    found = {name: _locate(name) for name in ("nvdisasm", "cuobjdump")}
    versions = {name: _version(path) for name, path in found.items() if path}
    return Tools(found["nvdisasm"], found["cuobjdump"], versions)


def _locate(name: str) -> Path | None:
    for entry in sys.path:
        for candidate in sorted(Path(entry).glob(f"nvidia/*/bin/{name}"), reverse=True) if entry else ():
            if candidate.is_file():
                return candidate
    on_path = shutil.which(name)
    return Path(on_path) if on_path else None


def _version(tool: Path) -> str:
    try:
        text = run_tool([str(tool), "--version"], timeout=20, output_limit=1 << 16).decode("utf-8", "replace")
    except BinaryError:
        return "unknown"
    found = _VERSION.search(text)
    return found[1] if found else "unknown"


def run_tool(
    command: Sequence[str], *, timeout: float, output_limit: int, folder: Path | None = None, check: bool = True
) -> bytes:
    """Runs one tool and hands back what it printed on stdout (with `check=False`: stdout or else stderr).

    Args:
        timeout: seconds.
        output_limit: bytes that any file it writes, stdout included, may have.
        folder: working directory; a private temporary one when None.

    Raises:
        BinaryError: it failed, took too long, or printed more than it may.
    """
    name = Path(command[0]).name
    with tempfile.TemporaryDirectory(prefix="validator-sass-") as private, tempfile.TemporaryFile() as out:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=folder or private, close_fds=True
            )
            _limit(process.pid, output_limit)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise BinaryError(Problem(f"took longer than {timeout:.0f} s", name)) from None
            except BaseException:
                process.kill()
                process.wait()
                raise
            errors.seek(0)
            said = errors.read(min(output_limit, 16 << 20))
        out.seek(0)
        text = out.read(output_limit)
    if status and check:
        reason = said.decode("utf-8", "backslashreplace").strip() or f"exit status {status}"
        raise BinaryError(Problem(f"failed: {reason[:2000]}", name))
    return text or (b"" if check else said)


def _limit(pid: int, output_limit: int) -> None:
    """Bounds what the child may take; the process may already be gone, which is fine."""
    prlimit = getattr(resource, "prlimit", None)
    if prlimit is None:
        return
    for what, most in ((resource.RLIMIT_FSIZE, output_limit), (resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0)):
        try:
            prlimit(pid, what, (most, most))
        except (ProcessLookupError, PermissionError, ValueError):
            return
