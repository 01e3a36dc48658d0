"""Branches on the answer of a wait that was tried earlier."""

from __future__ import annotations

import pytest

from validator.ordering.dataflow import Flow
from validator.ordering.facts import Facts
from validator.ordering.program import Const, Event, EventKind, Op, Operation, Reg, Space
from validator.ordering.tried import Tried

TOKEN, BAR = Reg("TOKEN"), Reg("BAR")


def tried(a, name):
    """The answer of a wait."""
    answer = Reg(name)
    index = a.emit({answer: Operation(Op.OPAQUE, (), "try_wait", 1)})
    a.events.append(Event(EventKind.MBARRIER_WAIT, index, "try_wait", barrier=(BAR,), result=answer))
    return a.let(Op.SELECT, Const(1), Const(0), answer), index


def ring(a, mask):
    """A token is tried before a loop and, into the lower half of the same word, in it; bits of it decide."""
    first, before = tried(a, "P")
    a.let(Op.COPY, first, to=TOKEN)
    rest = a.load(Const(64))
    a.label("turn")
    decides = a.compare("ne", a.let(Op.AND, TOKEN, Const(mask)), Const(0))
    branch = a.branch("read", decides)
    a.event(EventKind.BARRIER)
    a.label("read")
    second, inside = tried(a, "Q")
    upper = a.let(Op.AND, rest, Const(-1 << 16))
    a.let(Op.OR, upper, second, to=TOKEN)
    a.branch("turn", a.compare("ne", rest, Const(7)))
    flow = Flow(a.build())
    return Tried(flow).edges.get((flow.block_of(branch), 1)), {before, inside}


def test_tokens_in_part_of_a_word_decide_by_the_bits_they_share(assembler):
    found, waits = ring(assembler("x"), 0xFF)
    assert found == waits


def test_bits_beside_the_token_decide_nothing(assembler):
    found, _ = ring(assembler("x"), 0x1FFFF)
    assert found is None


@pytest.mark.parametrize("asked", ["before", "of-turns", "never"])
def test_the_answer_that_stands_there_before_any_wait_is_found_in_a_walk(assembler, asked):
    """A token that says yes from the start, asked for again in every turn; before the first one if there is a turn."""
    a = assembler("n")
    turns = a.param("n")
    more = a.compare("gt", turns, Const(0))
    a.let(Op.COPY, Const(1), to=TOKEN)
    if asked == "of-turns":
        a.branch("asked", more, negated=True)
    if asked != "never":
        a.let(Op.COPY, tried(a, "P")[0], to=TOKEN)
    a.label("asked")
    a.branch("end", more, negated=True)
    a.label("turn")
    a.branch("read", a.compare("ne", TOKEN, Const(0)))
    a.label("again")
    a.branch("again", a.compare("eq", tried(a, "Q")[0], Const(0)))
    a.label("read")
    a.load(a.shared("tile"), Space.SHARED)
    read = a.events[-1]
    a.let(Op.COPY, tried(a, "R")[0], to=TOKEN)
    a.let(Op.SUB, turns, Const(1), to=turns)
    a.branch("turn", a.compare("gt", turns, Const(0)))
    a.label("end")
    facts = Facts(a.build(), None, "hand.ptx")
    assert not facts.mbarrier_order().missing(read)
    assert facts.taken_untried(None, [read]) == ({read.index} if asked == "never" else set())
