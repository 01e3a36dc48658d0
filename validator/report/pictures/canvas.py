"""What every picture shares: a canvas whose untrusted text only ever becomes text.

drawsvg escapes text and titles but no attribute, so nothing from outside reaches an attribute here: classes are words
of this package, coordinates are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import drawsvg
from markupsafe import Markup

from validator.text import shorten, visible

__all__ = ["CHARACTER", "Canvas", "Picture"]

CHARACTER = 7.3
"""Width of a character of the pictures' font at its usual size, in pixels: text is measured, nothing asks a browser."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure of the page."""

    title: str
    says: str
    """The same in a sentence: the figure's caption, and all that a screen reader is told."""
    svg: Markup


_NEEDLESS = (
    (re.compile(r"(<svg) xmlns=\S+ xmlns:xlink=\S+\s+"), r"\1 "),
    (re.compile(r"<defs>\s*</defs>"), ""),
    (re.compile(r" ?(/?>)\n"), r"\1"),
)
"""Text in a picture holds no angle bracket and no line feed of its own: the first are escaped, the others spelt out."""


def _short(value: float) -> float:
    return round(value, 1) if value % 1 else int(value)


class Canvas:
    """Draws with classes; `picture` hands the result over."""

    def __init__(self, width: float, height: float) -> None:
        # Invisible to screen readers: the caption and the tables say the same in words.
        self._drawing = drawsvg.Drawing(width, height, **{"aria-hidden": "true", "focusable": "false"})

    def text(self, text: str, x: float, y: float, kind: str | None = None, room: float = 10_000) -> None:
        """Text on its base line at (x, y), cut to `room` pixels; the kinds `mid` and `end` say what x is."""
        shown = visible(shorten(text, 400))
        most = max(int(room / CHARACTER), 2)
        cut = shown if len(shown) <= most else shown[: most - 1] + "…"
        self._append(drawsvg.Text(cut, None, _short(x), _short(y), class_=kind), shown if cut != shown else "")

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self._append(drawsvg.Rectangle(*map(_short, (x, y, width, height)), class_=kind), "")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.lines([(x1, y1, x2, y2)], kind)

    def lines(self, ends: Iterable[tuple[float, float, float, float]], kind: str) -> None:
        """Many lines of one kind, as one element."""
        path = drawsvg.Path(class_=kind)
        for x1, y1, x2, y2 in ends:
            path.M(_short(x1), _short(y1)).L(_short(x2), _short(y2))
        self._append(path, "")

    def dot(self, x: float, y: float, radius: float, kind: str) -> None:
        self._append(drawsvg.Circle(_short(x), _short(y), radius, class_=kind), "")

    def arc(self, x: float, y1: float, y2: float, depth: float, kind: str) -> None:
        """A curve to the right of `x`, from `y1` to an arrow head at `y2`."""
        path = drawsvg.Path(class_=kind).M(x, y1).C(x + depth, y1, x + depth, y2, x + 1, y2)
        self._append(path.M(x + 8, y2 - 5).L(x + 1, y2).L(x + 8, y2 + 5), "")

    def cross(self, x: float, y: float, size: float, kind: str) -> None:
        self.lines(((x - size, y - size, x + size, y + size), (x - size, y + size, x + size, y - size)), kind)

    def picture(self, title: str, says: str) -> Picture:
        svg = self._drawing.as_svg(header="", skip_js=True, skip_css=True)
        # Inline in HTML it needs no namespaces, and a page of 200 kernels no line feeds between its elements.
        for found, short in _NEEDLESS:
            svg = found.sub(short, svg)
        return Picture(title, says, Markup(svg))

    def _append(self, element: Any, tip: str) -> None:
        if tip:
            element.append_title(visible(shorten(tip, 300)))
        self._drawing.append(element)
