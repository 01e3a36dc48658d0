"""git's plumbing, run so that nothing of the repository under examination is ever executed.

A repository's configuration can name programs: `core.fsmonitor`, `diff.external`, `diff.*.textconv`, `filter.*`,
`core.hooksPath`, `core.sshCommand`, aliases; a partial clone fetches by itself. So every command but name resolution
runs in a *git directory of our own*: an empty one, with a configuration written here, that borrows nothing but the
repository's object store. It has no refs, index, attributes, hooks, replacements, grafts or remotes to obey.
Name resolution (`rev-parse`) has to look at the repository's refs; it runs none of the above, and they are overridden
on top of that. The environment is built from nothing, so no `GIT_*` variable of the caller gets through either.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from validator.change.model import ChangeError
from validator.errors import Problem

__all__ = ["BIG_FILE", "TIMEOUT", "Git", "Store", "resolver"]

TIMEOUT = 300.0
"""Seconds one git command may take."""
BIG_FILE = 16 * 1024 * 1024
"""Bytes above which git treats a file as binary and never reads it whole for a diff."""
_BUFFER = 64 * 1024
"""Bytes that are taken out of a pipe at once: as many as it holds."""

_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sshCommand": "false",
    "core.pager": "cat",
    "core.attributesFile": os.devnull,
    "core.warnAmbiguousRefs": "true",
    "diff.external": "",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.directory": "*",
}

_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tbare = true
\tbigFileThreshold = {big}
\tquotePath = true
[extensions]
\tobjectFormat = {format}
"""


def _environment(home: str) -> dict[str, str]:
    """All a git process gets to know; `safe.directory` is honoured because it comes with the command."""
    overrides = {"GIT_CONFIG_COUNT": str(len(_OVERRIDES))}
    for number, (key, value) in enumerate(_OVERRIDES.items()):
        overrides |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        **overrides,
    }


class Git:
    """Runs git with a fixed directory and environment."""

    def __init__(self, cwd: Path, environment: dict[str, str]) -> None:
        executable = shutil.which("git")
        if executable is None:
            raise ChangeError(Problem("git is not installed", "PATH", "install git 2.31 or newer"))
        self._executable = executable
        self._cwd = cwd
        self._environment = environment

    def run(self, *args: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Runs to the end; the exit status is the caller's to judge."""
        try:
            return subprocess.run(
                [self._executable, *args],
                cwd=self._cwd,
                env=self._environment,
                input=b"" if data is None else data,
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            raise ChangeError(Problem(f"git {args[0]} took longer than {TIMEOUT:.0f} s")) from expired

    def output(self, *args: str, data: bytes | None = None) -> bytes:
        """Standard output of a command that must succeed."""
        done = self.run(*args, data=data)
        if done.returncode:
            raise failure(args[0], done.returncode, done.stderr)
        return done.stdout

    def start(
        self, *args: str, stdin: int | IO[bytes] = subprocess.PIPE, stderr: int | IO[bytes] = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """A process that stays, spoken to through its pipes."""
        return subprocess.Popen(
            [self._executable, *args],
            cwd=self._cwd,
            env=self._environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=_BUFFER,
        )

    @contextmanager
    def stream(self, *args: str, data: bytes = b"") -> Iterator[IO[bytes]]:
        """Standard output while the command runs, for output that may be large. Fails at the end if git did.

        `data` goes in from a file: a pipe would fill up in both directions at once.
        """
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(data)
            given.seek(0)
            process = self.start(*args, stdin=given, stderr=errors)
            assert process.stdout is not None
            timer = threading.Timer(TIMEOUT, process.kill)
            timer.start()
            finished = False
            try:
                yield process.stdout
                finished = True
            finally:
                timer.cancel()
                if not finished:
                    process.kill()
                process.stdout.close()
                status = process.wait()
            if status:
                errors.seek(0)
                raise failure(args[0], status, errors.read(4000))


def failure(command: str, status: int, stderr: bytes) -> ChangeError:
    """git's own words, as data: they may quote names from the repository."""
    said = stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
    return ChangeError(Problem(f"git {command} failed: {said or f'exit status {status}'}"))


def resolver(repository: Path) -> Git:
    """git in the repository itself: for `rev-parse` and nothing else."""
    return Git(repository, _environment(os.devnull))


class Store:
    """A private git directory over a repository's objects. Removed when the store is no longer used."""

    def __init__(self, objects: Path, object_format: str, shallow: bytes | None) -> None:
        folder = tempfile.mkdtemp(prefix="validator-git-")
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        home = Path(folder)
        (home / "refs").mkdir()
        (home / "HEAD").write_text("ref: refs/heads/none\n")
        version = 0 if object_format == "sha1" else 1
        config = _CONFIG.format(version=version, big=BIG_FILE, format=object_format)
        (home / "config").write_text(config if version else config.split("[extensions]")[0])
        if shallow is not None:
            (home / "shallow").write_bytes(shallow)
        environment = _environment(folder) | {"GIT_DIR": folder, "GIT_OBJECT_DIRECTORY": os.fspath(objects)}
        self.git = Git(home, environment)
        self.object_format = object_format

    @property
    def empty_tree(self) -> str:
        """Id of the tree without files."""
        if self.object_format == "sha1":
            return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"

    def start(self, processes: Sequence[str]) -> subprocess.Popen[bytes]:
        """A process that ends with the store."""
        process = self.git.start(*processes)
        weakref.finalize(self, _end, process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
