"""Calls: what they name, which are replaced by a copy of the callee, how arguments and results travel.

Parameter space is data flow, not memory: every byte range that `st.param` fills is a register `param0+8`. A `.param`
variable that the caller passes and the formal of the copy that receives it are one and the same place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from validator.ordering.program import Op, Operand, Operation, Reg
from validator.ordering.ptx.body import Body
from validator.ordering.ptx.declarations import Formal, Header
from validator.ordering.ptx.form import Flow
from validator.ordering.ptx.lexical import split_commas
from validator.ordering.ptx.statement import Frame, Place, Statement

__all__ = ["Call", "Expansion", "Passing", "Resolver", "bind", "expand", "parse_call"]

MAX_INLINED = 200_000
"""Instructions all inlined copies of one kernel may have together; calls beyond become CALL events."""
MAX_COPIES = 64
"""Copies of one function in one kernel: keeps chains of functions that each call the next twice from doubling."""
MAX_CALL_DEPTH = 32

Resolver = Callable[[str], "tuple[Header, Body | None] | None"]
"""Function name → its header and, when the file has it, its body."""


@dataclass(frozen=True, slots=True)
class Call:
    """The operands of a call."""

    target: str
    """Function name, or the register of an indirect call."""
    results: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def indirect(self) -> bool:
        return self.target.startswith("%")


def parse_call(text: str) -> Call:
    """`(retval0), name, (param0, param1), prototype` in all its shorter forms."""
    operands = split_commas(text)
    results = _names(operands.pop(0)) if operands and operands[0][:1] == "(" else ()
    target = operands[0] if operands else ""
    arguments = _names(operands[1]) if len(operands) > 1 and operands[1][:1] == "(" else ()
    return Call(target, results, arguments)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.strip("()").split(",") if part.strip())


def bind(caller: Frame, scope: int, callee: Frame, call: Call) -> None:
    """Make formals of `callee` that the caller passes `.param` variables for the same places as those variables."""
    for formals, actuals in ((callee.header.formals, call.arguments), (callee.header.results, call.results)):
        for formal, actual in zip(formals, actuals, strict=False):
            if formal.space == "param":
                place = caller.place(actual, scope) if actual[:1] != "%" else None
                if place is not None and place.variable is not None:
                    callee.aliases[formal.name] = place.variable


@dataclass(frozen=True, slots=True)
class Expansion:
    """A kernel with the functions it calls."""

    frames: list[Frame]
    """The kernel's own, then one per inlined call; `base` rises."""
    inlined: dict[int, Frame]
    """Program index of a call → the copy that stands for it."""
    final: frozenset[int]
    """Program indices of calls that stay calls and never return."""


def expand(main: Frame, resolve: Resolver) -> Expansion:
    """Replace calls by copies of their callees, breadth first, within the limits of this module."""
    frames, inlined, final = [main], dict[int, Frame](), set[int]()
    copies: Counter[str] = Counter()
    total = len(main.body.forms)
    for frame in frames:  # grows while it is walked
        chain = _chain(frame)
        for local in frame.body.flow:
            if frame.body.forms[local].flow is not Flow.CALL:
                continue
            call = parse_call(frame.body.operands(local))
            found = None if call.indirect else resolve(call.target)
            if found is None:
                continue
            header, body = found
            size = 0 if body is None else len(body.forms)
            full = copies[header.name] >= MAX_COPIES or total - len(main.body.forms) + size > MAX_INLINED
            if body is None or header.name in chain or len(chain) > MAX_CALL_DEPTH or full:
                if header.noreturn:
                    final.add(frame.base + local)
                continue
            copies[header.name] += 1
            copy = Frame(
                body=body,
                number=len(frames),
                base=total,
                header=header,
                parameters={},
                symbols=main.symbols,
                functions=main.functions,
                registers=main.registers,
                caller=frame,
                call_index=frame.base + local,
            )
            bind(frame, frame.body.scope(local), copy, call)
            frames.append(copy)
            inlined[copy.call_index] = copy
            total += size
    return Expansion(frames, inlined, frozenset(final))


def _chain(frame: Frame | None) -> set[str]:
    names = set()
    while frame is not None:
        names.add(frame.header.name)
        frame = frame.caller
    return names


class Passing:
    """Arguments and results of one kernel's calls."""

    def __init__(self, frames: list[Frame], statement: Callable[[int], Statement]) -> None:
        self._statement = statement
        self._stored: dict[str, dict[int, int]] = {}
        for frame in frames:
            for local in frame.body.parameter_stores:
                for place, size, _ in self._stores(statement(frame.base + local)):
                    self._stored.setdefault(place.variable or "", {})[place.offset] = size
            if frame.caller is not None:
                for register, formal, _ in self._by_value(frame, statement(frame.call_index)):
                    if formal.space == "param":
                        variable = register.name.rpartition("+")[0]
                        self._stored.setdefault(variable, {})[0] = formal.size

    def _stores(self, statement: Statement) -> Iterable[tuple[Place, int, Operand]]:
        """(place, bytes, value) for each lane of an st.param."""
        start = statement.parameter()
        if start is None:
            return
        form = statement.form
        size = max(8, form.bits) // 8
        for lane, value in enumerate(statement.values(1, form.bits)):
            yield Place(start.variable, start.offset + lane * size), size, value

    def _register(self, statement: Statement, place: Place) -> Reg:
        name = f"{place.variable}+{place.offset}"
        registers = statement.frame.registers
        found = registers.get(name)
        if found is None:
            found = registers[name] = Reg(name)
        return found

    def _by_value(self, callee: Frame, call: Statement) -> Iterable[tuple[Reg, Formal, Operand]]:
        """(register of the formal, formal, value) for arguments that are not `.param` variables."""
        actuals = parse_call(call.frame.body.operands(call.index - call.frame.base)).arguments
        for formal, actual in zip(callee.header.formals, actuals, strict=False):
            if formal.name not in callee.aliases:
                name = callee.unique(formal.name, 0)
                place = Place(name, 0)
                register = self._register(call, place) if formal.space == "param" else callee.register(formal.name, 0)
                yield register, formal, call.value(actual, formal.size * 8)

    def _returned(self, callee: Frame, call: Statement) -> Iterable[tuple[Reg, Operand]]:
        """(register of the caller, value in the callee) for results that are not `.param` variables."""
        actuals = parse_call(call.frame.body.operands(call.index - call.frame.base)).results
        for formal, actual in zip(callee.header.results, actuals, strict=False):
            if formal.name in callee.aliases or actual == "_":
                continue
            name = callee.unique(formal.name, 0)
            if formal.space == "param":
                value = self._register(call, Place(name, 0))
            else:
                value = callee.register(formal.name, 0)
            yield call.frame.register(actual, call.scope), value

    def definitions(self, statement: Statement, callee: Frame | None) -> dict[Reg, Operation]:
        """What an st.param, a call (`callee`: its copy) or a return sets."""
        flow = statement.form.flow
        width = statement.form.bits
        if flow is Flow.NEXT:
            return {
                self._register(statement, place): _copy(value, width) for place, _, value in self._stores(statement)
            }
        if flow is Flow.CALL and callee is not None:
            return {
                register: _copy(value, formal.size * 8) for register, formal, value in self._by_value(callee, statement)
            }
        if flow is Flow.CALL:
            call = parse_call(statement.frame.body.operands(statement.index - statement.frame.base))
            names = [
                name for name in call.results if name != "_" and statement.frame.place(name, statement.scope) is None
            ]
            return {statement.frame.register(name, statement.scope): Operation(Op.RETURN) for name in names}
        frame = statement.frame
        if flow is Flow.RETURN and frame.caller is not None:
            call_statement = self._statement(frame.call_index)
            return {register: _copy(value, 64) for register, value in self._returned(frame, call_statement)}
        return {}

    def load(self, statement: Statement, position: int) -> Operation | None:
        """Value of lane `position` of an ld.param by name; None for an address in a register."""
        start = statement.parameter()
        if start is None:
            return None
        width = max(8, statement.form.bits)
        size = width // 8
        place = Place(start.variable, start.offset + position * size)
        if place.variable is None:
            return Operation(Op.PARAM, attr=(place.offset, size), width=width)
        stored = self._stored.get(place.variable)
        if not stored:
            return Operation(Op.RETURN, width=width)
        end = place.offset + size
        parts = sorted((o, n) for o, n in stored.items() if o < end and o + n > place.offset)
        registers = tuple(self._register(statement, Place(place.variable, offset)) for offset, _ in parts)
        if parts == [(place.offset, size)]:
            return Operation(Op.COPY, registers, width=width)
        if len(parts) == 1 and parts[0][0] <= place.offset and parts[0][0] + parts[0][1] >= end:
            return Operation(Op.EXTRACT, registers, ((place.offset - parts[0][0]) * 8, width), width)
        tiles = all(parts[k][0] + parts[k][1] == parts[k + 1][0] for k in range(len(parts) - 1))
        if parts and tiles and parts[0][0] == place.offset and sum(n for _, n in parts) == size:
            return Operation(Op.PACK, registers, width=width)
        return Operation(Op.OPAQUE, registers, statement.opcode, width)


def _copy(value: Operand, width: int) -> Operation:
    return value if isinstance(value, Operation) else Operation(Op.COPY, (value,), width=width)
