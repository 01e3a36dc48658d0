"""Which opcodes exist, and what each does.

A base opcode that is not in the PTX ISA (9.x), or a variant of a memory or ordering instruction that this reader does
not know, becomes an UNKNOWN event: never silence.
"""

from __future__ import annotations

from functools import lru_cache

from validator.ordering.program import Event, EventKind
from validator.ordering.ptx.accesses import ACCESSES
from validator.ordering.ptx.copies import COPIES
from validator.ordering.ptx.form import Family, Flow, Form, Unknown, make_event
from validator.ordering.ptx.lexical import words
from validator.ordering.ptx.statement import Statement
from validator.ordering.ptx.synchronization import SYNCHRONIZATION

__all__ = ["END_OF_BODY", "classify"]

_PLAIN = words(
    """
    abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns lg2 lop3
    mad mad24 madc max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin
    slct sqrt sub subc szext tanh testp xor vadd vadd2 vadd4 vsub vsub2 vsub4 vabsdiff vabsdiff2 vabsdiff4 vmin
    vmin2 vmin4 vmax vmax2 vmax4 vshl vshr vmad vset vset2 vset4 vavrg2 vavrg4 mma movmatrix match vote redux
    elect activemask isspacep istypep txq suq createpolicy getctarank mapa alloca stacksave shfl clock
    """
)
"""Bases that only compute: they write their first operand and touch no memory."""

_SILENT = words("nanosleep setmaxnreg pmevent brkpt stackrestore fabric")
"""Bases that neither write a register nor touch memory. What `fabric` (9.3) orders is left unclaimed."""

_FLOW = {
    "bra": Flow.BRANCH,
    "brx": Flow.INDIRECT,
    "call": Flow.CALL,
    "ret": Flow.RETURN,
    "exit": Flow.EXIT,
    "trap": Flow.TRAP,
}

_FAMILIES: dict[str, Family] = {**ACCESSES, **COPIES, **SYNCHRONIZATION}


def _unknown(statement: Statement) -> Event:
    event = make_event(statement, EventKind.UNKNOWN)
    event.name = statement.form.unknown
    return event


@lru_cache(maxsize=8192)
def classify(opcode: str) -> Form:
    """The form of `opcode`; unknown ones carry the reason."""
    base = opcode.partition(".")[0]
    if base in _PLAIN:
        return Form(opcode, writes=1)
    if base in _SILENT:
        return Form(opcode)
    if base in _FLOW:
        return Form(opcode, flow=_FLOW[base])
    family = _FAMILIES.get(base)
    if family is None:
        return Form(opcode, writes=1, event=_unknown, unknown="no instruction of the PTX ISA known here")
    try:
        writes, event = family(Form(opcode))
    except Unknown as reason:
        return Form(opcode, writes=1, event=_unknown, unknown=str(reason))
    store = base == "st" and any(word.startswith("param") for word in opcode.split("."))
    return Form(opcode, writes, event=event, parameter_store=store)


END_OF_BODY = Form("}", flow=Flow.RETURN)
"""The closing brace."""
