"""Command line: flags ↔ calls ↔ exit codes, nothing else.

0 pass · 1 fail or unproven · 2 could not run (usage, configuration, environment) · 130 interrupted. The report goes to
stdout, everything else to stderr. Only the module of the command that was asked for is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from validator import __version__
from validator.errors import Problem, ValidatorError
from validator.text import nearest, visible, visible_block

__all__ = ["command_line"]

COMMANDS = {
    "check": "validator.cli.check",
    "plan": "validator.cli.plan",
    "status": "validator.cli.status",
    "merge": "validator.cli.merge",
    "isolate": "validator.cli.isolate",
    "report": "validator.cli.report",
    "audit": "validator.cli.audit",
    "diff": "validator.cli.diff",
    "replay": "validator.cli.diff",
    "run": "validator.cli.run",
    "record": "validator.cli.record",
    "demo": "validator.cli.demo",
    "init": "validator.cli.init",
    "explain": "validator.cli.explain",
    "rules": "validator.cli.rules",
    "schema": "validator.cli.schema",
    "verify": "validator.cli.verify",
    "sign": "validator.cli.sign",
    "approve": "validator.cli.review",
    "reject": "validator.cli.review",
    "waive": "validator.cli.waive",
    "history": "validator.cli.history",
}
"""Command → module that holds a click command of that name, in the order of the help page."""

_PLACES = ("DIR", "FILE", "REF-or-DIR")
"""What an option is a place by; where nothing at all is a value too, an environment variable can say so."""


def _named(context: click.Context, option: click.Parameter, value: object) -> object:
    """An unset variable in a script must not make the working folder, which may be the head's, a journal or a judge."""
    if "" in (value if isinstance(value, tuple) else (value,)):
        what = "a revision or a folder" if option.metavar == "REF-or-DIR" else "a place"
        raise ValidatorError(Problem("is empty", option.opts[0], f"name {what}, or leave the option out"))
    return value


class _Group(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        for option in command.params:
            if option.metavar in _PLACES and not option.envvar:
                option.callback = _named
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            meant = nearest(args[0], list(COMMANDS))
            hint = f"did you mean {meant!r}?" if meant else "`validator --help` lists the commands"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="validator %(version)s")
def cli() -> None:
    """Validate agent-generated GPU kernel changes before they merge.

    Exit codes: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted.
    """


def command_line(args: Sequence[str]) -> int:
    """Run one command line and map whatever happens to an exit code."""
    _open_closed_streams()
    stdout = sys.stdout
    for stream in (stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=list(args), prog_name="validator", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt) as stop:
        cause = stop.__cause__ or stop  # click puts an Abort of its own in its place
        found = [f"found before that: {visible(note)}" for note in getattr(cause, "__notes__", ())]
        return _say("\n".join(["interrupted before the end", *found]), 130)
    except click.ClickException as error:
        return _say(_usage(error), 2)
    except ValidatorError as error:
        return _say("\n".join(f"error: {visible_block(str(p))}" for p in error.problems), 2)
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as stop:
        # click ends the process with 1, and another stdout in place, when the reader of a page has gone away.
        if sys.stdout is not stdout:
            return _reader_left()
        return stop.code if isinstance(stop.code, int) else 2
    except OSError as error:  # the disk is full, a folder may not be read: this machine's fault, wherever it shows
        if os.environ.get("VALIDATOR_DEBUG"):
            raise
        _reader_left()
        return _say(f"error: {visible(str(error.filename or 'this machine'))}: {error.strerror or error}", 2)
    except Exception as error:
        if os.environ.get("VALIDATOR_DEBUG"):
            raise
        return _say(_internal(error), 2)


def _open_closed_streams() -> None:
    """Started with `>&-` or `2>&-`, Python has no such stream, and the next file that is opened takes its number.

    Processes that are started from here get these streams too: else what a worker shares with its candidate would take
    the number of a stream, and be overwritten as one.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    lines = [f"error: {visible_block(error.format_message())}"]
    if context is not None:
        lines.append(f"try: {context.command_path} --help")
    return "\n".join(lines)


def _internal(error: Exception) -> str:
    return (
        f"internal error: {type(error).__name__}: {visible(str(error))}\n"
        "This is a fault of validator, not of your change. Please report it with the command line and the output of\n"
        "the same command under VALIDATOR_DEBUG=1."
    )


def _say(message: str, code: int) -> int:
    try:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody is listening; the exit code still says it
    return code


def _reader_left() -> int:
    """A report that could not be printed to its end, of a command that did not get to say what it comes to."""
    from validator.cli.output import abandon_stdout

    abandon_stdout()
    return 2
