"""Charts over many cases and builds: errors, coverage, claims."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from validator.report.details import ORDERING, Case
from validator.report.glance import Kernel
from validator.report.pictures.canvas import Canvas, Picture
from validator.report.words import plural
from validator.verdict.model import Status, Strength
from validator.verdict.result import CheckResult

__all__ = ["architectures", "claims", "errors", "shapes"]

_WIDTH = 720
_BINS = tuple(range(-6, 5))
"""Powers of two of error over yardstick; the first and the last bin take what lies beyond."""


def errors(run: Sequence[Case], how: str, limits: str = "") -> Picture | None:
    """How the candidate's errors are distributed, beside the trusted implementation's own; None without figures.

    `how` they were run; `limits`: what a case may be off by before it counts as wrong, in words.
    """
    own = [c.error for c in run if c.error is not None]
    trusted = [c.baseline for c in run if c.baseline is not None]
    if not own:
        return None
    counts, base = _binned(own), _binned(trusted)
    most = max(max(counts.values()), max(base.values(), default=0))
    canvas = Canvas(_WIDTH, 210)
    step = (_WIDTH - 20) / len(_BINS)
    for index, power in enumerate(_BINS):
        x = 10 + index * step
        for shift, found, kind in ((0.0, counts, "candidate"), (step * 0.42, base, "baseline")):
            height = 130 * found[power] / most
            if found[power]:
                canvas.box(x + shift, 160 - height, step * 0.38, height, kind)
                canvas.text(str(found[power]), x + shift + step * 0.19, 156 - height, "mid", step * 0.5)
        canvas.text(_label(power), x + step * 0.4, 176, "mid", step)
    canvas.line(10, 160, _WIDTH - 10, 160, "axis")
    canvas.box(10, 190, 12, 12, "candidate")
    canvas.text("candidate", 28, 200)
    canvas.box(120, 190, 12, 12, "baseline")
    canvas.text("trusted implementation", 138, 200)
    canvas.text("error / what an honest implementation may be off by", _WIDTH - 10, 200, "end", 400)
    says = f"Candidate: median {statistics.median(own):.3g}, largest {max(own):.3g} over {plural(len(own), 'case')}."
    if trusted:
        says += f" Trusted implementation: median {statistics.median(trusted):.3g}, largest {max(trusted):.3g}."
    says += " 1 is what an honest implementation may be off by."
    says += f" {limits}" if limits else " Which multiple of it counts as wrong stands in no evidence of this run."
    return canvas.picture(f"Errors against float64, {how}", says)


def _binned(values: Iterable[float]) -> Counter[int]:
    return Counter(min(max(math.floor(math.log2(v)) if v > 0 else _BINS[0], _BINS[0]), _BINS[-1]) for v in values)


def _label(power: int) -> str:
    if power == _BINS[0]:
        return f"<{2.0 ** (power + 1):.2g}"
    return f"≥{2.0**power:.2g}"


def shapes(run: Sequence[Case], axis: str | None, how: str) -> Picture | None:
    """Cases by shape and element type. `axis`: the dimension along which shapes are told apart; `how` they were run."""
    names = Counter(name for c in run for name in c.dims)
    if not names:
        return None
    axis = axis if axis is not None and axis in names else names.most_common(1)[0][0]
    rows = _buckets(sorted({c.dims[axis] for c in run if axis in c.dims}))
    columns = sorted({_dtypes(c) for c in run})[:6]
    found: dict[tuple[str, str], list[Case]] = {}
    for case in run:
        if axis in case.dims:
            label = next(name for name, values in rows if case.dims[axis] in values)
            found.setdefault((label, _dtypes(case)), []).append(case)
    cells = {key: _cell(held) for key, held in found.items()}
    says = (
        f"{plural(len(run), 'case')} over {plural(len(rows), 'value or range', 'values and ranges')} of {axis} and "
        f"{plural(len(columns), 'combination')} of element types ({how}); empty cells were not run."
    )
    title = f"Cases by {axis} and element type, {how}"
    return _grid(title, says, [name for name, _ in rows], columns, cells, f"{axis} = ")


def _dtypes(case: Case) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted(case.dtypes.items())) or "as declared"


def _buckets(values: Sequence[int], most: int = 12) -> list[tuple[str, frozenset[int]]]:
    """At most `most` rows: single values while they fit, else ranges."""
    size = max(1, math.ceil(len(values) / most))
    chunks = [values[i : i + size] for i in range(0, len(values), size)]
    return [(str(c[0]) if len(c) == 1 else f"{c[0]} to {c[-1]}", frozenset(c)) for c in chunks]


def _cell(held: Sequence[Case]) -> tuple[str, str]:
    """(text, class)."""
    bad = sum(c.status == "failed" for c in held)
    open_ = sum(c.status not in ("failed", "passed") for c in held)
    if bad:
        return f"{len(held)}, {bad} wrong", "refuted"
    if open_ == len(held):
        return f"{len(held)}, show nothing", "unproven"
    return str(len(held)), "proven"


_SHORT = {
    Strength.MACHINE_CODE: "machine code",
    Strength.PTX: "PTX",
    Strength.GPU_RUN: "GPU",
    Strength.PTX_RUN: "PTX on CPU",
    Strength.CPU_MODEL: "CPU model",
    Strength.SOURCE: "source",
    Strength.DECLARED: "declared",
}


_RUNS = (Strength.GPU_RUN, Strength.PTX_RUN, Strength.CPU_MODEL)


def architectures(kernels: Sequence[Kernel], declared: Sequence[str]) -> Picture | None:
    """What was examined of each kernel for each architecture in scope; None without kernels."""
    if not kernels or not declared:
        return None
    cells: dict[tuple[str, str], tuple[str, str]] = {}
    built = {str(e.figures["arch"]) for k in kernels for e in k.audits if e.kind == ORDERING and "arch" in e.figures}
    columns = [*[*declared, *sorted(built - set(declared))][:6], "run"]
    for kernel in kernels:
        for column in columns:
            own = [e for e in kernel.audits if e.kind == ORDERING and e.figures.get("arch") == column]
            if column == "run":
                own = [e for e in kernel.audits if e.strength in _RUNS]
            if own:
                bad = next((s for s in (Status.REFUTED, Status.UNPROVEN) if any(e.status is s for e in own)), None)
                how = " + ".join(dict.fromkeys(_SHORT[e.strength] for e in own))
                cells[(kernel.match, column)] = (how, (bad or Status.PROVEN).value)
    missing = [f"{k.match} on {c}" for k in kernels for c in columns[:-1] if (k.match, c) not in cells]
    idle = [k.match for k in kernels if (k.match, "run") not in cells]
    says = "Every kernel was examined for every architecture in scope; what was run, and where, stands under `run`."
    if missing or idle:
        told = [f"Nothing was examined of {_few(missing)}."] if missing else []
        says = " ".join([*told, *([f"Nothing was run of {_few(idle)}."] if idle else [])])
    shown = [k.match for k in kernels][:40]
    return _grid("What was examined, by kernel and architecture", says, shown, columns, cells, "")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _grid(
    title: str,
    says: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: dict[tuple[str, str], tuple[str, str]],
    prefix: str,
) -> Picture:
    left, width = 190, (_WIDTH - 190 - 8) / max(len(columns), 1)
    canvas = Canvas(_WIDTH, 34 + 30 * len(rows))
    for c, column in enumerate(columns):
        canvas.text(column, left + width * (c + 0.5), 20, "mid", width - 4)
    for r, row in enumerate(rows):
        y = 30 + 30 * r
        canvas.text(prefix + row, 8, y + 18, None, left - 16)
        for c, column in enumerate(columns):
            text, kind = cells.get((row, column), ("not examined", "nothing"))
            canvas.box(left + width * c + 1, y, width - 3, 27, f"cell {kind}")
            canvas.text(text, left + width * (c + 0.5), y + 18, "mid", width - 6)
    return canvas.picture(title, says)


def claims(result: CheckResult) -> Picture | None:
    """What the author claims against what the author says it was before; declared, not measured here."""
    made = [c for c in (result.manifest.claims if result.manifest else ()) if c.baseline and c.value > 0 < c.baseline]
    if not made:
        return None
    canvas = Canvas(_WIDTH, 20 + 54 * len(made[:12]))
    for number, claim in enumerate(made[:12]):
        assert claim.baseline is not None
        y, top = 16 + 54 * number, max(claim.value, claim.baseline)
        canvas.text(claim.metric, 8, y + 16, None, 220)
        for row, (value, kind, who) in enumerate(
            ((claim.value, "candidate", "new"), (claim.baseline, "baseline", "before"))
        ):
            width = 360 * value / top
            canvas.box(240, y + 20 * row, width, 16, kind)
            canvas.text(f"{value:g} {who}", 246 + width, y + 20 * row + 13)
    says = "; ".join(f"{c.metric}: {c.value:g} against {c.baseline:g}" for c in made[:12])
    return canvas.picture("Claims of the author, declared and not measured here", f"{says}.")
