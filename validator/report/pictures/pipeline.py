"""The kernels of a change in the order of their launches: who feeds whom, and what each reads before its wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from validator.manifest.contract import KernelContract, Role, Step
from validator.manifest.matching import match_contract
from validator.report.details import ORDERING, accesses, waits
from validator.report.glance import Kernel, kernels_at_a_glance
from validator.report.pictures.canvas import Canvas, Picture
from validator.report.words import plural
from validator.verdict.model import Evidence, Status
from validator.verdict.result import CheckResult

__all__ = ["pipelines"]

_MOST = 40
"""Launches that are drawn; the table holds all."""
_WIDTH, _BOX, _LEFT = 720, 520, 8
_ROW = 17
_WRITTEN = (Role.OUTPUT, Role.STATE, Role.WORKSPACE, Role.FLAG, Role.MAILBOX)


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    kernel: Kernel | None
    pdl: bool | None
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    lines: tuple[tuple[str, str], ...] = field(default=())
    """(text, class)."""


def pipelines(result: CheckResult) -> list[Picture]:
    """One picture a declared step; all kernels in a row where none is declared."""
    manifest = result.manifest
    if manifest is None or not manifest.kernels:
        return []
    kernels = {k.match: k for k in kernels_at_a_glance(result)}
    steps: Sequence[Step] = manifest.steps
    if steps:
        return [_draw(f"Step “{s.name}”", list(_launches(s, manifest.kernels, kernels)), True) for s in steps]
    nodes = [_node(c.match, c, kernels.get(c.match), c.launch.pdl) for c in manifest.kernels]
    return [_draw("Kernels (the manifest declares no order of launches)", nodes, False)]


def _launches(step: Step, contracts: tuple[KernelContract, ...], kernels: dict[str, Kernel]) -> Iterator[_Node]:
    for launch in step.launches:
        contract = next((c for c in contracts if c.match == launch.kernel), None)
        contract = contract or match_contract(contracts, launch.kernel)
        if contract is None:
            yield _Node(launch.kernel, None, launch.pdl, lines=(("not a kernel of this manifest", "q"),))
            continue
        roles = dict(kernels[contract.match].arguments)
        writes = {b for a, b in launch.args.items() if _role(roles, a) in _WRITTEN}
        reads = {b for a, b in launch.args.items() if _role(roles, a) is not Role.OUTPUT}
        pdl = contract.launch.pdl if launch.pdl is None else launch.pdl
        yield _node(launch.kernel, contract, kernels[contract.match], pdl, frozenset(writes), frozenset(reads))


def _role(roles: dict[str, str], argument: str) -> Role | None:
    said = roles.get(argument, "undeclared")
    return Role(said) if said != "undeclared" else None


def _node(
    name: str,
    contract: KernelContract,
    kernel: Kernel | None,
    pdl: bool | None,
    writes: frozenset[str] = frozenset(),
    reads: frozenset[str] = frozenset(),
) -> _Node:
    audits = [e for e in kernel.audits if e.kind == ORDERING] if kernel else []
    return _Node(name, kernel, pdl, writes, reads, tuple(_lines(audits)))


def _lines(audits: Iterable[Evidence]) -> Iterator[tuple[str, str]]:
    """What is read before the wait, over all builds, by role; what is refused comes first."""
    audits = list(audits)
    if not audits:
        yield "no compiled code of it was audited", "q"
        return
    seen: dict[tuple[bool, str], list[str]] = {}
    for row in (row for e in audits for row in accesses(e, "early")):
        names = seen.setdefault((row.allowed, row.role), [])
        if (row.memory or "an address of unknown source") not in names:
            names.append(row.memory or "an address of unknown source")
    for (allowed, role), names in sorted(seen.items()):
        verb = "before the wait" if allowed else "BEFORE THE WAIT, refused"
        yield f"{verb}: {role} {', '.join(names)}", "ok" if allowed else "bad"
    if not seen:
        yield "nothing is touched before the wait", ""
    kinds = sorted({w.kind for e in audits for w in waits(e)})
    triggers = max((_int(e, "triggers") for e in audits), default=0)
    order = f"ordered by {', '.join(kinds)}" if kinds else "has no wait"
    yield f"{order}; {plural(triggers, 'trigger')} for the next kernel", ""


def _int(evidence: Evidence, name: str) -> int:
    value = evidence.figures.get(name)
    return value if isinstance(value, int) else 0


_SIGN = {
    Status.PROVEN: "✓ proven",
    Status.REFUTED: "✕ refuted",
    Status.UNPROVEN: "? unproven",
    Status.WAIVED: "~ waived",
    Status.NOT_APPLICABLE: "– not applicable",
    Status.NOT_ASKED: "? not asked for",
}


_LAUNCH = {
    True: "launched with PDL: may start while its predecessor runs",
    False: "launched without PDL",
    None: "how it is launched is not declared",
}


def _draw(title: str, nodes: list[_Node], ordered: bool) -> Picture:
    shown = nodes[:_MOST]
    heights = [30 + _ROW * (1 + len(n.lines)) for n in shown]
    tops = [8 + sum(heights[:i]) + 22 * i for i in range(len(shown))]
    canvas = Canvas(_WIDTH, (tops[-1] + heights[-1] if shown else 0) + 30)
    for node, top, height in zip(shown, tops, heights, strict=True):
        _box(canvas, node, top, height)
    edges = list(_edges(shown)) if ordered else []
    for number, (source, target, buffers) in enumerate(edges):
        depth = 40 + 26 * (number % 4) + 10 * min(target - source, 6)
        start, end = tops[source] + heights[source] - 12, tops[target] + 14
        canvas.arc(_LEFT + _BOX, start, end, depth, "edge")
        canvas.text(", ".join(sorted(buffers)), _LEFT + _BOX + depth * 0.8 + 4, (start + end) / 2 + 4, None, 110)
    if ordered:
        for one, two in zip(range(len(shown)), range(1, len(shown)), strict=False):
            canvas.line(_LEFT + 40, tops[one] + heights[one], _LEFT + 40, tops[two], "next")
    if len(nodes) > len(shown):
        canvas.text(f"and {len(nodes) - len(shown)} more in the table below", _LEFT, tops[-1] + heights[-1] + 20, "q")
    return canvas.picture(title, _sentence(nodes, edges, ordered))


def _box(canvas: Canvas, node: _Node, top: float, height: float) -> None:
    status = node.kernel.status if node.kernel else None
    canvas.box(_LEFT, top, _BOX, height, f"node {status.value if status else 'unknown'}")
    canvas.text(node.name, _LEFT + 10, top + 19, "name", 330)
    canvas.text(_SIGN[status] if status else "not declared", _LEFT + _BOX - 10, top + 19, "end", 160)
    canvas.text(_LAUNCH[node.pdl], _LEFT + 10, top + 19 + _ROW)
    for number, (text, kind) in enumerate(node.lines, 2):
        canvas.text(text, _LEFT + 10, top + 19 + _ROW * number, kind, _BOX - 20)


def _edges(nodes: list[_Node]) -> Iterator[tuple[int, int, set[str]]]:
    """(producer, consumer, buffers): the last launch that wrote what a later one reads."""
    last: dict[str, int] = {}
    for index, node in enumerate(nodes):
        found: dict[int, set[str]] = {}
        for buffer in sorted(node.reads & last.keys()):
            found.setdefault(last[buffer], set()).add(buffer)
        yield from ((source, index, buffers) for source, buffers in sorted(found.items()))
        last.update(dict.fromkeys(node.writes, index))


def _sentence(nodes: list[_Node], edges: list[tuple[int, int, set[str]]], ordered: bool) -> str:
    names = ", ".join(n.name for n in nodes[:6]) + (f" and {len(nodes) - 6} more" if len(nodes) > 6 else "")
    said = f"{plural(len(nodes), 'launch', 'launches')} in this order: {names}" if ordered else f"Kernels: {names}"
    fed = [f"{nodes[s].name} feeds {nodes[t].name} ({', '.join(sorted(b))})" for s, t, b in edges[:6]]
    refused = [f"{n.name}: {text}" for n in nodes for text, kind in n.lines if kind == "bad"]
    return "; ".join([said, *fed, *refused[:6]]) + "."
