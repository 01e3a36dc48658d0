"""What happened when, and measured figures: pictures that evidence of any kind may bring (`validator.report.story`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from validator.report.pictures.canvas import Canvas, Picture
from validator.report.story import Lanes, Series
from validator.report.words import plural

__all__ = ["happened", "measured"]

_WIDTH, _LEFT, _ROW = 720, 170, 34
_MOST_LANES, _MOST_SPANS, _MOST_LINES = 24, 60, 4
_COLOURS = ("one", "two", "three", "four")
_TOP, _FLOOR = 16, 196


def happened(told: Lanes) -> Picture:
    """Lanes over one axis of time; what is too short to hold its label is explained by the table of steps."""
    shown = told.lanes[:_MOST_LANES]
    ends = [s.end for lane in shown for s in lane.spans]
    last = max(ends, default=0) or 1.0
    height = 24 + _ROW * len(shown)
    canvas = Canvas(_WIDTH, height + 34)
    scale = (_WIDTH - _LEFT - 10) / last
    for number, lane in enumerate(shown):
        y = 16 + _ROW * number
        canvas.text(lane.name, 8, y + 16, "name", _LEFT - 16)
        canvas.line(_LEFT, y + 12, _WIDTH - 10, y + 12, "lane")
        for span in lane.spans[:_MOST_SPANS]:
            width = max((span.end - span.start) * scale, 3)
            canvas.box(_LEFT + span.start * scale, y, width, 24, f"span {span.kind}")
            if width > 30:
                canvas.text(span.label, _LEFT + span.start * scale + 4, y + 16, "on", width - 6)
    canvas.line(_LEFT, height, _WIDTH - 10, height, "axis")
    canvas.text("0", _LEFT, height + 16)
    canvas.text(f"{last:g} {told.unit}", _WIDTH - 10, height + 16, "end", 200)
    more = f" {len(told.lanes) - len(shown)} more lanes are not drawn." if len(told.lanes) > len(shown) else ""
    says = told.says or f"{plural(len(told.lanes), 'lane')} over {last:g} {told.unit}."
    return canvas.picture(told.title or "What happened when", says + more)


def measured(told: Series) -> Picture:
    """Points joined by lines, over an axis of x that is spaced by order where x spans more than one power of ten."""
    lines = [line for line in told.lines if line.points][:_MOST_LINES]
    xs = sorted({x for line in lines for x, _ in line.points})
    top = max(y for line in lines for _, y in line.points) or 1.0
    canvas = Canvas(_WIDTH, 250)
    place = _scale(xs)
    canvas.line(60, _FLOOR, _WIDTH - 10, _FLOOR, "axis")
    canvas.text(f"{top:.3g}", 54, _TOP + 8, "end", 50)
    canvas.text("0", 54, _FLOOR, "end")
    canvas.text(told.y, 64, _TOP + 2, None, 400)
    for number, x in enumerate(xs):
        if len(xs) <= 10 or number % (len(xs) // 8) == 0:
            canvas.text(f"{x:g}", place(x), _FLOOR + 18, "mid", 60)
    canvas.text(told.x, _WIDTH - 10, _FLOOR + 36, "end", 300)
    for line, colour in zip(lines, _COLOURS, strict=False):
        spots = [(place(x), _FLOOR - (_FLOOR - _TOP - 14) * y / top) for x, y in sorted(line.points)]
        canvas.lines(((*a, *b) for a, b in pairwise(spots)), f"plot {colour}")
        for x, y in spots:
            canvas.dot(x, y, 4, colour)
    for number, (line, colour) in enumerate(zip(lines, _COLOURS, strict=False)):
        canvas.box(60 + 150 * number, 226, 12, 12, colour)
        canvas.text(line.name, 78 + 150 * number, 236, None, 128)
    said = [f"{line.name}: " + ", ".join(f"{y:g} at {x:g}" for x, y in sorted(line.points)[:12]) for line in lines]
    return canvas.picture(told.title or told.y, told.says or "; ".join(said) + ".")


def _scale(xs: list[float]) -> Callable[[float], float]:
    """From a figure to pixels."""
    wide = xs[0] > 0 and xs[-1] / xs[0] > 10
    low, high = (math.log(xs[0]), math.log(xs[-1])) if wide else (xs[0], xs[-1])
    room = _WIDTH - 100

    def place(x: float) -> float:
        value = math.log(x) if wide else x
        return 80 + (room * (value - low) / (high - low) if high > low else room / 2)

    return place
