"""Where a command's reports go: stdout, files written whole or not at all, and progress on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from validator.errors import Problem, ValidatorError
from validator.text import nearest, visible

__all__ = ["Output", "OutputError", "Progress", "abandon_stdout", "emit", "parse_outputs", "write_outputs"]


class OutputError(ValidatorError):
    """A report cannot be written where it was asked for."""


@dataclass(frozen=True, slots=True)
class Output:
    """One `--output FORMAT=PATH`."""

    format: str
    path: Path


def parse_outputs(values: Sequence[str], formats: Sequence[str]) -> tuple[Output, ...]:
    """Read and check every `FORMAT=PATH` before any work is done; all problems at once."""
    outputs: list[Output] = []
    problems: list[Problem] = []
    for value in values:
        kind, equals, path = value.partition("=")
        if not equals or not path:
            problems.append(Problem("is not FORMAT=PATH", f"--output {value}", "write for example json=result.json"))
        elif kind not in formats:
            meant = nearest(kind, list(formats))
            hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(formats)}"
            problems.append(Problem(f"there is no format {kind!r}", f"--output {value}", hint))
        else:
            outputs.append(Output(kind, Path(path)))
    problems += _targets(outputs)
    if problems:
        raise OutputError(*problems)
    return tuple(outputs)


def _targets(outputs: Sequence[Output]) -> list[Problem]:
    problems, seen = [], set()
    for output in outputs:
        path = output.path.resolve()
        where = f"--output {output.format}={output.path}"
        if path in seen:
            problems.append(Problem("is named twice", where))
        elif path.is_dir():
            problems.append(Problem("is a folder", where, "name a file"))
        elif not path.parent.is_dir():
            problems.append(Problem("there is no such folder", where, f"create it: mkdir -p {path.parent}"))
        elif not os.access(path.parent if not path.exists() or path.is_file() else path, os.W_OK):
            problems.append(Problem("cannot be written", where, "choose another place"))
        seen.add(path)
    return problems


def write_outputs(outputs: Sequence[Output], render: Callable[[str], str | Iterable[str]]) -> None:
    """Write every format, then put all files in place by renames: an error or Ctrl-C before leaves nothing behind.

    `render`: the text of a format, or its pieces where it is too long to be held.
    """
    # A device or a pipe cannot be replaced: it takes the text last, when the files are complete.
    replaced = [(o, not o.path.exists() or o.path.is_file()) for o in outputs]
    with contextlib.ExitStack() as stack:
        staged = [(_stage(o.path, render(o.format), stack), o.path) for o, file in replaced if file]
        for output in (o for o, file in replaced if not file):
            with _said(output.path), output.path.open("w", encoding="utf-8") as stream:
                _write(stream, render(output.format))
        for name, path in staged:
            os.replace(name, path)


def _stage(path: Path, text: str | Iterable[str], stack: contextlib.ExitStack) -> str:
    """Write beside the target, to be removed when anything fails."""
    with _said(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        stack.callback(Path(name).unlink, missing_ok=True)
        with open(handle, "w", encoding="utf-8", newline="\n") as stream:
            _write(stream, text)
        os.chmod(name, 0o666 & ~_umask())
    return name


def _write(stream: TextIO, text: str | Iterable[str]) -> None:
    stream.writelines((text,) if isinstance(text, str) else text)


@contextlib.contextmanager
def _said(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(Problem(f"cannot be written ({error.strerror})", str(path))) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def emit(text: str | Iterable[str]) -> None:
    """Print a report, or its pieces.

    A reader that leaves early (`| head`) changes nothing about the exit code; a full disk does."""
    try:
        _write(sys.stdout, text)
        sys.stdout.flush()
    except OSError as error:
        abandon_stdout()
        if not isinstance(error, BrokenPipeError):
            raise OutputError(Problem(f"cannot be written ({error.strerror})", "stdout")) from None


def abandon_stdout() -> None:
    """Whoever read stdout has seen enough: point it elsewhere so that the interpreter's own flush stays quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress:
    """One line that is overwritten on an interactive stderr, a plain line at most every 30 s elsewhere."""

    EVERY = 30.0
    """Seconds."""

    def __init__(
        self, *, quiet: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._interactive = self._stream.isatty()
        self._clock = clock
        self._last = clock()
        self._shown = False

    def __call__(self, line: str) -> None:
        if self._quiet:
            return
        text = visible(line)
        if self._interactive:
            self._write(f"\r\x1b[K{text[:99]}")
            self._shown = True
        elif self._clock() - self._last >= self.EVERY:
            self._last = self._clock()
            self._write(f"{text}\n")

    def close(self) -> None:
        """Clear the line before the report is printed."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
