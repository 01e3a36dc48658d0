"""Runs test files inside a confined worker, which loads it: an adapter, see `validator.run.adapters`."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["NotRunHere", "load"]


class NotRunHere(Exception):
    """The tests cannot be run on this machine."""


def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[[], Any]:
    """A callable that runs the test files `target` (one a line) below `tree`. `options`: environment variables.

    It returns lines of outcome and test, as UTF-8.
    """
    import numpy

    os.environ.update(options)
    home = Path(os.environ["HOME"])
    os.devnull = str(home / "null")  # pytest writes there, and may write nowhere else than here
    import pytest

    settings = home / "pytest.ini"
    settings.write_text("[pytest]\n")  # the tree's own settings could leave tests out
    outcomes: dict[str, str] = {}

    class Listener:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call" or report.outcome != "passed":
                known = outcomes.get(report.nodeid)
                outcomes[report.nodeid] = report.outcome if known != "failed" else known

        def pytest_collectreport(self, report: Any) -> None:
            if report.outcome == "failed":
                last = str(report.longrepr).strip().splitlines()[-1:] or [""]
                outcomes[f"{report.nodeid}: {last[0][:300]}"] = "error"

    def run() -> Any:
        files = [os.path.join(tree, path) for path in target.splitlines()]
        words = ["-q", "-c", str(settings), f"--rootdir={tree}", f"--confcutdir={tree}", "--import-mode=importlib"]
        words += ["--capture=no", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = int(pytest.main([*words, *files], plugins=[Listener()]))
        if not outcomes and code != pytest.ExitCode.NO_TESTS_COLLECTED:
            raise NotRunHere(f"pytest ended with {code}: {said.getvalue()[-300:]}")
        lines = [f"{outcome}\t{name}" for name, outcome in sorted(outcomes.items())]
        return numpy.frombuffer("\n".join(lines).encode("utf-8", "replace"), numpy.uint8)

    return run
