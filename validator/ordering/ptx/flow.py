"""Basic blocks of a kernel with its inlined calls, and the edges between them with their conditions."""

from __future__ import annotations

from validator.ordering.program import Block, Choice, Edge, Guard
from validator.ordering.ptx.calls import Expansion
from validator.ordering.ptx.errors import PtxError
from validator.ordering.ptx.form import Flow
from validator.ordering.ptx.lexical import split_commas
from validator.ordering.ptx.statement import Frame

__all__ = ["blocks_of", "guard_at"]


def guard_at(frame: Frame, local: int) -> Guard | None:
    """Predicate of the instruction at local index `local`."""
    text = frame.body.guards.get(local)
    if text is None:
        return None
    return frame.guard(text, frame.body.scope(local), "uni" in frame.body.forms[local].mods)


def _targets(frame: Frame, local: int, name: str) -> list[int]:
    """Local indices a branch may go to."""
    body = frame.body
    scope = body.scope(local)
    operands = split_commas(body.operands(local))
    labels: tuple[str, ...] | None = (operands[0],)
    if body.forms[local].flow is Flow.INDIRECT:
        labels = body.branch_targets(operands[1], scope) if len(operands) > 1 else None
    found = [body.label(label, scope) for label in labels or ()]
    targets = [index for index in found if index is not None and index < len(body.forms)]
    if not labels or len(targets) < len(found):
        raise PtxError(f"branch to a label that is not there: {body.statement(local)[:80]!r}", name, body.line(local))
    return targets


def _leaves(frame: Frame, local: int, expansion: Expansion) -> bool:
    """Whether a block ends with this instruction: a call that stays a call and returns does not end one."""
    index = frame.base + local
    return frame.body.forms[local].flow is not Flow.CALL or index in expansion.inlined or index in expansion.final


def blocks_of(expansion: Expansion, name: str) -> tuple[Block, ...]:
    """Blocks in text order, `blocks[0]` the entry; raises `PtxError` for a branch to nowhere."""
    frames = expansion.frames
    targets: dict[int, list[int]] = {}
    starts: list[int] = []
    ends: dict[int, Frame] = {}
    for frame in frames:
        leaders = {0}
        for local in frame.body.flow:
            if not _leaves(frame, local, expansion):
                continue
            ends[frame.base + local] = frame
            leaders.add(local + 1)
            if frame.body.forms[local].flow in (Flow.BRANCH, Flow.INDIRECT):
                found = _targets(frame, local, name)
                leaders.update(found)
                targets[frame.base + local] = [frame.base + target for target in found]
        leaders.discard(len(frame.body.forms))
        starts.extend(frame.base + local for local in sorted(leaders))
    numbers = {start: number for number, start in enumerate(starts)}
    stops = [*starts[1:], frames[-1].base + len(frames[-1].body.forms)]
    blocks = []
    for start, stop in zip(starts, stops, strict=True):
        last = stop - 1
        ending = ends.get(last)
        if ending is None:
            edges: tuple[Edge, ...] = (Edge(numbers[stop]),)
        else:
            edges = _edges(ending, last, targets.get(last, []), numbers, expansion)
        blocks.append(Block(start, stop, edges))
    return tuple(blocks)


def _edges(
    frame: Frame, last: int, targets: list[int], numbers: dict[int, int], expansion: Expansion
) -> tuple[Edge, ...]:
    """Successors of the block that ends with the control transfer at program index `last`."""
    local = last - frame.base
    guard = guard_at(frame, local)
    flow = frame.body.forms[local].flow
    if flow is Flow.CALL:
        taken = [expansion.inlined[last].base] if last in expansion.inlined else []
    elif flow is Flow.RETURN and frame.caller is not None:
        taken = [frame.call_index + 1]
    else:
        taken = list(dict.fromkeys(targets))
    chosen = _choices(frame, last, targets) if flow is Flow.INDIRECT else {}
    edges = [Edge(numbers[target], guard, choice=chosen.get(target)) for target in taken]
    if guard is not None:
        edges.append(Edge(numbers[last + 1], Guard(guard.register, not guard.negated, guard.uniform)))
    return tuple(edges)


def _choices(frame: Frame, last: int, targets: list[int]) -> dict[int, Choice]:
    """Target → the places in its table by which `brx.idx` goes there."""
    local = last - frame.base
    operand = frame.register(split_commas(frame.body.operands(local))[0].strip(), frame.body.scope(local))
    places: dict[int, set[int]] = {}
    for place, target in enumerate(targets):
        places.setdefault(target, set()).add(place)
    return {target: Choice(operand, last, frozenset(found)) for target, found in places.items()}
