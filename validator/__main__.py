"""Entry point. `--version` answers before anything is imported; everything else goes to `validator.cli`."""

from __future__ import annotations

import gc
import signal
import sys

from validator import __version__

__all__ = ["main"]


def main() -> int:
    """Run the command line and return its exit code: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted."""
    if sys.argv[1:] == ["--version"]:
        try:
            print(f"validator {__version__}", flush=True)
            return 0
        except OSError:
            pass  # the command line says why
    # Stages build large trees that live until the verdict; looking for cycles among them again and again frees nothing.
    gc.set_threshold(100_000, 20, 20)
    for number in (signal.SIGTERM, signal.SIGHUP):  # nohup has the second ignored, and means it
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _ended)
    try:
        from validator.cli import command_line

        return command_line(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were still being imported
        sys.stderr.write("interrupted before the end\n")
        return 130


def _ended(number: int, frame: object) -> None:
    """Ended from outside: as little is left behind as with Ctrl-C, and as much is told."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
