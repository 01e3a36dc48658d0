"""Control flow of instructions written by hand: what compilers rarely emit."""

from __future__ import annotations

from validator.ordering.program import Guard, Reg
from validator.ordering.sass.cfg import control_flow
from validator.ordering.sass.disassemble import Instruction

P0 = Guard(Reg("P0"), negated=False)
NOT_P0 = Guard(Reg("P0"), negated=True)


def flow(*lines):
    """`(opcode, operands, guard, instructions to the target)`, each but the first optional."""
    section = []
    for line in lines:
        opcode, operands, guard, steps = (*line, *((), None, None)[len(line) - 1 :])
        section.append(Instruction(opcode, operands, guard, False, None if steps is None else 16 * steps, 0))
    return control_flow(section, {}, frozenset())


def edges(found):
    """Instructions of a block → (instruction that follows, condition), all by their place in the section."""
    first = [found.places[b.start] for b in found.blocks]
    return {
        tuple(found.places[b.start : b.stop]): {(first[e.target], e.condition) for e in b.successors}
        for b in found.blocks
    }


CALLEE = (("NOP",), ("RET.REL.NODEC", ("R2",)))


def test_a_call_enters_its_callee_and_comes_back():
    found = flow(("CALL.REL.NOINC", (), None, 3), ("EXIT",), ("NOP",), *CALLEE)
    assert found.places == [0, 1, 3, 4]
    assert edges(found) == {(0,): {(3, None)}, (1,): set(), (3, 4): {(1, None)}}


def test_a_guarded_call_may_be_passed():
    found = flow(("CALL.REL.NOINC", (), P0, 3), ("EXIT",), ("NOP",), *CALLEE)
    assert not found.outside
    assert edges(found) == {(0,): {(3, P0), (1, NOT_P0)}, (1,): set(), (3, 4): {(1, None)}}


def test_a_function_that_calls_itself_is_followed_once():
    found = flow(("CALL.REL.NOINC", (), None, 2), ("EXIT",), ("CALL.REL.NOINC", (), P0, 0), ("RET.REL.NODEC", ("R2",)))
    assert found.outside == {2}
    assert edges(found)[(2,)] == {(3, None)}


def test_a_call_at_the_very_end_returns_nowhere():
    found = flow(("BRA", (), None, 3), *CALLEE, ("CALL.REL.NOINC", (), None, -2))
    assert edges(found)[(3,)] == {(1, None)}
    assert edges(found)[(1, 2)] == set()


def test_a_meeting_point_is_where_its_register_says():
    lines = [("BSSY.RECONVERGENT", ("B0",), None, 4), ("NOP",), ("BSYNC.RECONVERGENT", ("B0",)), ("NOP",), ("EXIT",)]
    assert edges(flow(*lines))[(0, 1, 2)] == {(4, None)}
    assert edges(flow(lines[0], lines[1], lines[1], lines[2], lines[4]))[(0, 1, 2, 3)] == {(4, None)}
