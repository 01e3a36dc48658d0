"""A kernel decoded for execution: instructions with resolved operands, cut into segments.

A segment is a straight line: control enters at its start only, and only its last instruction may branch, leave or
wait for other threads. Register names become rows of the register file here, once.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice

from validator.ordering.program import Block, Const, Line, Op, Operand, Operation, Reg, Space
from validator.ordering.ptx import PtxProgram
from validator.ordering.ptx.declarations import Variable
from validator.ordering.ptx.form import Flow
from validator.ordering.ptx.lexical import TYPE_BITS, split_commas
from validator.ordering.ptx.statement import Frame, Statement

__all__ = [
    "Address",
    "Immediate",
    "Instruction",
    "Param",
    "ParamAddress",
    "Register",
    "Segment",
    "SpecialRegister",
    "Symbol",
    "Unsupported",
    "Vector",
    "decode",
]

_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?|laneid|warpid|nwarpid"
    r"|cluster_ctarank|cluster_nctarank|is_explicit_cluster|smid|nsmid|gridid|clock(?:_hi|64)?|globaltimer(?:_lo|_hi)?"
    r"|lanemask_(?:eq|le|lt|ge|gt)|dynamic_smem_size|total_smem_size|aggr_smem_size|envreg\d{1,2})",
    re.ASCII,
)
_ADDRESS = re.compile(r"([%A-Za-z_$][\w$]*+)\s*+(?:([+-])\s*+(-?\w++))?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?")

_ASSERTION = "__assertfail"
"""What `assert` calls when it fails; it never returns."""
_WAITING = frozenset(
    ("bar", "barrier", "shfl", "vote", "match", "redux", "elect", "mma", "ldmatrix", "stmatrix", "movmatrix")
)
"""Bases before which a thread may have to wait for others."""
_MOST_NAMED = 6
"""Unwritten registers that are told of."""


@dataclass(frozen=True, slots=True)
class Register:
    """A row of the register file."""

    row: int
    bits: int
    """1 (predicate), 8, 16, 32, 64 or 128, as declared."""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    value: int
    """Raw bits, possibly negative; the reader of the operand cuts them to its width."""
    number: float | None = None
    """A decimal floating-point literal, whose bits depend on the type that reads it."""


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """Address of a variable plus a constant."""

    space: Space
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Param:
    """Bytes of the kernel's parameter block."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ParamAddress:
    """Address in the kernel's parameter block."""

    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, …}`; None for a sink `_`."""

    parts: tuple[Source | None, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, with the coordinates of a tensor operand where there are any."""

    base: Source
    offset: int
    coordinates: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An operand that is not understood."""

    text: str
    why: str = ""
    """What is wrong with it and where, if it is wrong in any PTX."""


Source = Register | Immediate | SpecialRegister | Symbol | Param | ParamAddress | Vector | Address | Unsupported


class Kind(Enum):
    """What an instruction does to control."""

    PLAIN = auto()
    BRANCH = auto()
    INDIRECT = auto()
    EXIT = auto()
    TRAP = auto()


@dataclass(slots=True)
class Instruction:
    index: int
    """Of the program, as the ordering audit counts."""
    words: tuple[str, ...]
    """The mnemonic's dot-separated words."""
    operands: tuple[Source, ...]
    """All operands, destinations first."""
    writes: int
    """How many leading operands are written."""
    guard: Register | Unsupported | None
    kind: Kind = Kind.PLAIN
    targets: tuple[int, ...] = ()
    """Segments that a branch may go to."""
    text: str = ""
    frame: Frame | None = None

    @property
    def base(self) -> str:
        return self.words[0]

    @property
    def mods(self) -> tuple[str, ...]:
        return self.words[1:]

    @property
    def type(self) -> str:
        """The last type named; `b32` without one."""
        return next((w for w in reversed(self.words) if w in TYPE_BITS), "b32")

    @property
    def bits(self) -> int:
        return TYPE_BITS[self.type]


@dataclass(slots=True)
class Segment:
    instructions: list[Instruction] = field(default_factory=list)
    start: int = 0
    """Program index of its first instruction."""
    next: int | None = None
    """Segment that follows in the text; None behind the last."""
    polls: bool = False
    """Ends a loop that reads what other threads may write: running it again and again is waiting."""


@dataclass(slots=True)
class Decoded:
    name: str
    segments: list[Segment]
    registers: list[int]
    """Bits of each row."""
    variables: dict[str, Variable]
    """Variables of the body by unique name."""
    unsupported: Counter[str]
    """Opcode → how many instructions cannot be executed."""
    program: PtxProgram
    unwritten: tuple[str, ...] = ()
    """Registers that instructions name and none writes."""

    def line(self, index: int) -> Line:
        return self.program.line(index)


def decode(program: PtxProgram) -> Decoded:
    """Instructions and segments of one kernel. Raises `PtxError` for a body that cannot be read."""
    return _Decoder(program).decode()


class _Decoder:
    def __init__(self, program: PtxProgram) -> None:
        self.program = program
        self.code = program.code
        self.rows: dict[str, Register] = {}
        self.bits: list[int] = []
        self.variables: dict[str, Variable] = {}
        self.unsupported: Counter[str] = Counter()

    def decode(self) -> Decoded:
        blocks = self.code.blocks
        segments: list[Segment] = []
        first: dict[int, int] = {}
        for block in blocks:
            first[block.start] = len(segments)
            segments.append(Segment(start=block.start))
            for index in range(block.start, block.stop):
                for instruction in self.instructions(index):
                    waits = instruction.base in _WAITING or _tries(instruction)
                    if waits and segments[-1].instructions:
                        segments.append(Segment(start=index))
                    segments[-1].instructions.append(instruction)
        for number, segment in enumerate(segments[:-1]):
            segment.next = number + 1
        numbers = {block.start: first[block.start] for block in blocks}
        self.aim(segments, blocks, numbers)
        _mark_polls(segments)
        unwritten = tuple(self.unwritten(i for s in segments for i in s.instructions))
        return Decoded(
            self.program.name, segments, self.bits, self.variables, self.unsupported, self.program, unwritten
        )

    def unwritten(self, instructions: Iterable[Instruction]) -> Iterator[str]:
        written = set()
        for instruction in instructions:
            for target in instruction.operands[: instruction.writes]:
                parts = target.parts if isinstance(target, Vector) else (target,)
                written |= {part.row for part in parts if isinstance(part, Register)}
        named = (name for name, register in self.rows.items() if register.row not in written)
        return (re.split("[#@]", name)[0] for name in islice(named, _MOST_NAMED))

    def aim(self, segments: list[Segment], blocks: Sequence[Block], numbers: dict[int, int]) -> None:
        """Targets of branches, calls and returns as segment numbers, from the edges of the reader's blocks."""
        starts = [block.start for block in blocks]
        for at, block in enumerate(blocks):
            stop_segment = numbers[starts[at + 1]] if at + 1 < len(blocks) else len(segments)
            last = segments[stop_segment - 1]
            if not last.instructions:
                continue
            ending = last.instructions[-1]
            if ending.kind is Kind.INDIRECT:
                frame, local = self.code.at(ending.index)
                labels = frame.body.branch_targets(split_commas(frame.body.operands(local))[1], frame.body.scope(local))
                found = [frame.body.label(label, frame.body.scope(local)) for label in labels or ()]
                ending.targets = tuple(numbers[frame.base + f] for f in found if f is not None)
            elif ending.kind is Kind.BRANCH:
                ending.targets = (numbers[blocks[block.successors[0].target].start],)

    def instructions(self, index: int) -> list[Instruction]:
        """What one statement executes as: mostly one instruction, for a call the moves of its arguments too."""
        statement = self.code.statement(index)
        form, guard = statement.form, self.guard(statement)
        text = self.program.text(index) if form.opcode != "}" else "}"
        if form.flow is Flow.NEXT and not form.parameter_store:
            return [self.plain(statement, guard, text)]
        moves = self.passes(statement, guard, text)
        if form.parameter_store:
            return moves
        made = Instruction(index, tuple(form.opcode.split(".")), (), 0, guard, text=text, frame=statement.frame)
        if form.flow is Flow.BRANCH:
            made.kind = Kind.BRANCH
        elif form.flow is Flow.INDIRECT:
            made.kind, made.operands = Kind.INDIRECT, (self.source(statement, statement.operands[0]),)
        elif form.flow is Flow.CALL:
            if index in self.code.inlined:
                made.kind = Kind.BRANCH
            elif _called(statement) == _ASSERTION:
                made.kind = Kind.TRAP
            else:
                made.words = ("call", statement.operands[-2] if len(statement.operands) > 1 else statement.operands[0])
                self.unsupported[f"call {_called(statement)}"] += 1
        elif form.flow is Flow.RETURN:
            made.kind = Kind.EXIT if statement.frame.caller is None else Kind.BRANCH
        else:
            made.kind = Kind.TRAP if form.flow is Flow.TRAP else Kind.EXIT
        return [*moves, made]

    def plain(self, statement: Statement, guard: Register | Unsupported | None, text: str) -> Instruction:
        form = statement.form
        words = form.words
        operands = tuple(self.source(statement, part) for part in statement.operands)
        if words[0] == "ld" and (not form.spaces or form.spaces[0] is Space.PARAM):
            loaded = self.parameter(statement)
            if loaded is not None:
                operands, words = (operands[0], *loaded), ("ldparam", *words[1:])
        return Instruction(
            statement.index, words, operands, min(form.writes, len(operands)), guard, text=text, frame=statement.frame
        )

    def parameter(self, statement: Statement) -> tuple[Source, ...] | None:
        """Sources of the lanes of an ld.param by name; None for an address that only the run knows."""
        lanes = [self.code.passing.load(statement, position) for position in range(len(_parts(statement.operands[0])))]
        sources = [None if lane is None else self.value(lane) for lane in lanes]
        if any(s is None or isinstance(s, Unsupported) for s in sources):
            return None
        return tuple(s for s in sources if s is not None)

    def passes(self, statement: Statement, guard: Register | Unsupported | None, text: str) -> list[Instruction]:
        """Moves that an st.param, a call or a return performs."""
        moves = []
        callee = self.code.inlined.get(statement.index)
        for register, operation in self.code.passing.definitions(statement, callee).items():
            source = self.value(operation)
            bits = min(operation.width, 64) if operation.width in (8, 16, 32, 64) else 32
            target = self.row(register, bits)
            moves.append(
                Instruction(
                    statement.index,
                    ("mov", f"b{target.bits}"),
                    (target, source),
                    1,
                    guard,
                    text=text,
                    frame=statement.frame,
                )
            )
        return moves

    def guard(self, statement: Statement) -> Register | Unsupported | None:
        guard, frame = statement.guard, statement.frame
        if guard is None:
            return None
        name = frame.body.guards[statement.index - frame.base].lstrip("!")
        if not _known(frame, statement.scope, name):
            return self.unknown(statement, name)
        found = self.row(guard.register, 1)
        return Register(found.row, found.bits, guard.negated)

    def row(self, register: Reg, bits: int) -> Register:
        """The row of a register, made when it is first named."""
        found = self.rows.get(register.name)
        if found is None:
            self.bits.append(bits)
            found = self.rows[register.name] = Register(len(self.bits) - 1, bits)
        return found

    def unknown(self, statement: Statement, name: str) -> Unsupported:
        where = self.program.line(statement.index)
        return Unsupported(name, f"nothing is called {name!r}: no register, variable or special register ({where})")

    def declared(self, statement: Statement, name: str) -> Register | Unsupported:
        frame, scope = statement.frame, statement.scope
        if not _known(frame, scope, name):
            return self.unknown(statement, name)
        kind = frame.body.register_type(name, scope)
        if kind is None:
            kind = next((f.type for f in (*frame.header.formals, *frame.header.results) if f.name == name), "b32")
        return self.row(frame.register(name, scope), TYPE_BITS.get(kind, 32))

    def source(self, statement: Statement, text: str) -> Source:
        """One operand's text."""
        text = text.strip()
        if text[:1] == "{":
            return Vector(tuple(None if p == "_" else self.source(statement, p) for p in split_commas(text[1:-1])))
        if text[:1] == "[":
            return self.address(statement, text[1:].removesuffix("]").strip())
        if "|" in text:
            return Vector(tuple(None if p.strip() == "_" else self.source(statement, p) for p in text.split("|")))
        if text == "_":
            return Vector((None,))
        if text[:1] == "!":
            inner = self.source(statement, text[1:])
            return Register(inner.row, inner.bits, True) if isinstance(inner, Register) else Unsupported(text)
        return self.scalar(statement, text)

    def scalar(self, statement: Statement, text: str) -> Source:
        frame, scope = statement.frame, statement.scope
        if _SPECIAL.fullmatch(text) and frame.body.register_type(text, scope) is None:
            return SpecialRegister(text[1:])
        if frame.body.register_type(text, scope) is not None and frame.body.variable(text, scope) is None:
            return self.declared(statement, text)
        if re.fullmatch(r"%?[\w$]+\.[xyzw]", text):
            return Unsupported(text)
        value = statement.value(text)
        if isinstance(value, Operation) and value.op is Op.OPAQUE:
            return Immediate(0, float(text)) if _DECIMAL.fullmatch(text) else Unsupported(text)
        if isinstance(value, Reg):
            return self.declared(statement, text)
        if isinstance(value, Operation) and value.op is Op.SPECIAL:
            return Unsupported(text)
        return self.value(value)

    def value(self, value: Operand) -> Source:
        """A value of the reader."""
        if isinstance(value, Const):
            return Immediate(value.value)
        if isinstance(value, Reg):
            return self.row(value, 64)
        if value.op is Op.COPY and len(value.args) == 1:
            inner = value.args[0]
            return self.row(inner, value.width) if isinstance(inner, Reg) else self.value(inner)
        if value.op is Op.PARAM and isinstance(value.attr, tuple) and not value.args:
            return Param(*value.attr)
        if value.op is Op.PARAM_ADDRESS and isinstance(value.attr, int):
            return ParamAddress(value.attr)
        if value.op is Op.SYMBOL and isinstance(value.attr, tuple):
            space, name, offset = value.attr
            self.note(space, name)
            return Symbol(space, name, offset)
        return Unsupported(str(value.op.name).lower())

    def note(self, space: Space, name: str) -> None:
        """Remember a variable of the body with its size."""
        if name in self.variables:
            return
        plain, _, number = name.partition("@")
        frame = self.code.frames[int(number)] if number else self.code.frames[0]
        base, _, scope = plain.partition("#")
        found = frame.body.variable(base, int(scope) if scope else 0) or frame.symbols.get(base)
        self.variables[name] = found or Variable(name, space, None)

    def address(self, statement: Statement, text: str) -> Source:
        parts = split_commas(text)
        match = _ADDRESS.fullmatch(parts[0])
        coordinates: tuple[Source, ...] = ()
        if len(parts) > 1:
            inner = self.source(statement, parts[1])
            if not isinstance(inner, Vector) or None in inner.parts:
                return Unsupported(text)
            coordinates = tuple(p for p in inner.parts if p is not None)
        if match is None:
            return Address(self.scalar(statement, parts[0]), 0, coordinates)
        offset = statement.value(match[3]) if match[3] else Const(0)
        number = offset.value if isinstance(offset, Const) else 0
        return Address(self.scalar(statement, match[1]), -number if match[2] == "-" else number, coordinates)


def _known(frame: Frame, scope: int, name: str) -> bool:
    """Whether a register of this name is declared, or passed to the function."""
    return frame.body.declares(name, scope) or any(
        f.name == name for f in (*frame.header.formals, *frame.header.results)
    )


def _parts(text: str) -> list[str]:
    return split_commas(text[1:-1]) if text[:1] == "{" else [text]


def _called(statement: Statement) -> str:
    from validator.ordering.ptx.calls import parse_call

    call = parse_call(statement.frame.body.operands(statement.index - statement.frame.base))
    return "through a register" if call.indirect else call.target


def _tries(instruction: Instruction) -> bool:
    """A wait on an mbarrier: its own segment, so that a thread may be held there."""
    return instruction.base == "mbarrier" and instruction.words[1] in ("try_wait", "test_wait")


_POLLING = frozenset(("volatile", "relaxed", "acquire", "acq_rel", "sc"))


def _mark_polls(segments: list[Segment]) -> None:
    """Back edges over segments that read flags or barriers."""
    reads = [any(_reads_flag(i) for i in s.instructions) for s in segments]
    for number, segment in enumerate(segments):
        for instruction in segment.instructions:
            for target in instruction.targets:
                if target <= number and any(reads[target : number + 1]):
                    segment.polls = True


def _reads_flag(instruction: Instruction) -> bool:
    if instruction.base in ("atom", "nanosleep"):
        return True
    if instruction.base == "ld":
        return not _POLLING.isdisjoint(instruction.words)
    return _tries(instruction)


def float_bits(number: float, kind: str) -> int:
    """Bits of a decimal literal in a floating type."""
    code = {"f64": "d", "f16": "e"}.get(kind, "f")
    return int.from_bytes(struct.pack(f"<{code}", number), "little")
