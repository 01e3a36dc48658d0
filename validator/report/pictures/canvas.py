"""What every picture shares: a canvas whose untrusted text only ever becomes text.

drawsvg escapes text and titles but no attribute, so nothing from outside reaches an attribute here: classes are words
of this package, coordinates are numbers.
"""

from __future__ import annotations

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


class Canvas:
    """Draws with classes; `picture` hands the result over."""

    def __init__(self, width: float, height: float) -> None:
        # Invisible to screen readers: the caption and the tables say the same in words.
        self._drawing = drawsvg.Drawing(width, height, **{"aria-hidden": "true", "focusable": "false"})

    def text(self, text: str, x: float, y: float, kind: str = "", room: float = 10_000, anchor: str = "start") -> None:
        """Text from (x, y) on its base line, cut to `room` pixels."""
        shown = visible(shorten(text, 400))
        most = max(int(room / CHARACTER), 2)
        label = drawsvg.Text(
            shown if len(shown) <= most else shown[: most - 1] + "…", 12, x, y, text_anchor=anchor, class_=kind or "t"
        )
        self._append(label, shown if len(shown) > most else "")

    def box(self, x: float, y: float, width: float, height: float, kind: str, tip: str = "", radius: float = 4) -> None:
        self._append(drawsvg.Rectangle(x, y, width, height, rx=radius, class_=kind), tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self._append(drawsvg.Line(x1, y1, x2, y2, class_=kind), "")

    def dot(self, x: float, y: float, radius: float, kind: str, tip: str = "") -> None:
        self._append(drawsvg.Circle(x, y, radius, class_=kind), tip)

    def cross(self, x: float, y: float, size: float, kind: str, tip: str = "") -> None:
        path = drawsvg.Path(class_=kind).M(x - size, y - size).L(x + size, y + size).M(x - size, y + size)
        self._append(path.L(x + size, y - size), tip)

    def arc(self, x: float, y1: float, y2: float, depth: float, kind: str) -> None:
        """A curve to the right of `x`, from `y1` to an arrow head at `y2`."""
        path = drawsvg.Path(class_=kind).M(x, y1).C(x + depth, y1, x + depth, y2, x + 1, y2)
        self._append(path.M(x + 8, y2 - 5).L(x + 1, y2).L(x + 8, y2 + 5), "")

    def picture(self, title: str, says: str) -> Picture:
        svg = self._drawing.as_svg(header="", skip_js=True, skip_css=True)
        return Picture(title, says, Markup(svg.replace("\n<defs>\n</defs>", "")))

    def _append(self, element: Any, tip: str) -> None:
        if tip:
            element.append_title(visible(shorten(tip, 300)))
        self._drawing.append(element)
