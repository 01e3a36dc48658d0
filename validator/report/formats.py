"""Every format of a check result, by name: what `validator check` and `validator report` offer."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validator.verdict.result import CheckResult

__all__ = ["FORMATS", "render"]

_RENDERERS = {
    "text": "validator.report.text:render_text",
    "json": "validator.report.json:render_json",
    "markdown": "validator.report.markdown:render_markdown",
    "html": "validator.report.html:render_html",
    "sarif": "validator.report.check_sarif:render_sarif",
    "junit": "validator.report.junit:render_junit",
}
"""Format → `module:function`; only the one that was asked for is imported."""

FORMATS = tuple(_RENDERERS)


def render(result: CheckResult, kind: str, *, interactive: bool = False, limit: int | None = None) -> str:
    """One format. Only text that goes to stdout may be coloured and fitted to a terminal.

    `limit`: of Markdown, in characters; None: what a comment on GitHub holds.
    """
    if interactive and kind == "text":
        from validator.report.text import for_stdout

        return for_stdout(result)
    if limit is not None and kind == "markdown":
        from validator.report.markdown import render_markdown

        return render_markdown(result, limit)
    module, _, name = _RENDERERS[kind].partition(":")
    renderer: Callable[[CheckResult], str] = getattr(importlib.import_module(module), name)
    return renderer(result)
