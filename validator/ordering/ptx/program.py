"""One PTX kernel as a `validator.ordering.program.Program`.

The body is parsed when something is first asked of it. A `Shelf` shared by the kernels of a file lets go of bodies that
were parsed longest ago, so that a large file is never held parsed as a
whole; a kernel that is asked again is parsed again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from validator.ordering.program import Block, Event, EventKind, Guard, Isa, Line, Operation, Parameter, Reg, Space
from validator.ordering.ptx.body import Body
from validator.ordering.ptx.calls import Passing, Resolver, expand, parse_call
from validator.ordering.ptx.declarations import Header, Variable, parameters_of
from validator.ordering.ptx.flow import blocks_of, guard_at
from validator.ordering.ptx.form import Flow, make_event
from validator.ordering.ptx.lexical import split_commas
from validator.ordering.ptx.operations import lower
from validator.ordering.ptx.statement import Frame, Statement, destination_names

__all__ = ["Code", "PtxProgram", "Shelf", "Surroundings"]

SHELF_BYTES = 8 << 20
"""Text of parsed bodies kept at the same time."""


class Surroundings:
    """What a kernel sees of its module."""

    def __init__(
        self,
        name: str,
        symbols: Mapping[str, Variable],
        functions: Mapping[str, object],
        files: Mapping[int, str],
        resolve: Resolver,
        unknown: Mapping[str, int],
    ) -> None:
        self.name = name
        """File name for messages."""
        self.symbols = symbols
        self.functions = functions
        self.files = files
        self.resolve = resolve
        self.unknown = unknown
        """Module directives that are not known → count."""


class Shelf:
    """Kernels whose bodies are parsed at the moment, least recently parsed first."""

    def __init__(self, limit: int = SHELF_BYTES) -> None:
        self._limit = limit
        self._held: OrderedDict[int, tuple[PtxProgram, int]] = OrderedDict()

    def add(self, program: PtxProgram, size: int) -> None:
        """Note that `program` holds `size` characters of text; release others beyond the limit."""
        self._held[id(program)] = (program, size)
        while len(self._held) > 1 and sum(size for _, size in self._held.values()) > self._limit:
            _, (oldest, _) = self._held.popitem(last=False)
            oldest.release()


class Code:
    """A parsed kernel: frames, blocks, events."""

    def __init__(self, body: Body, header: Header, parameters: Sequence[Parameter], around: Surroundings) -> None:
        main = Frame(
            body=body,
            number=0,
            base=0,
            header=header,
            parameters={p.name: p for p in parameters if p.name is not None},
            symbols=around.symbols,
            functions=around.functions,
            registers={},
        )
        expansion = expand(main, around.resolve)
        self.frames, self.inlined = expansion.frames, expansion.inlined
        self.bases = [frame.base for frame in self.frames]
        self.blocks = blocks_of(expansion, around.name)
        self._only = None if self.inlined else self.frames[0]
        self._operations: dict[tuple[int, str], Operation] = {}
        self._lines: dict[int, Line] = {}
        self._files = around.files
        self._last: Statement | None = None

    def at(self, index: int) -> tuple[Frame, int]:
        """Frame and local index of an instruction."""
        if self._only is not None:
            return self._only, index
        frame = self.frames[bisect_right(self.bases, index) - 1]
        return frame, index - frame.base

    def statement(self, index: int) -> Statement:
        """The instruction with its operands split."""
        if self._last is not None and self._last.index == index:
            return self._last
        frame, local = self.at(index)
        body = frame.body
        operands = split_commas(body.operands(local))
        guard = guard_at(frame, local) if local in body.guards else None
        self._last = Statement(frame, index, body.forms[local], body.scope(local), guard, operands)
        return self._last

    @cached_property
    def passing(self) -> Passing:
        return Passing(self.frames, self.statement)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        found = []
        for frame in self.frames:
            body = frame.body
            for local in sorted({*body.events, *body.flow}):
                event = self._event(frame, local)
                if event is not None:
                    found.append(event)
        return tuple(found)

    def _event(self, frame: Frame, local: int) -> Event | None:
        form = frame.body.forms[local]
        index = frame.base + local
        if form.event is not None:
            return form.event(self.statement(index))
        if form.flow is Flow.EXIT or (form.flow is Flow.RETURN and frame.caller is None):
            return make_event(self.statement(index), EventKind.EXIT)
        if form.flow is Flow.CALL and index not in self.inlined:
            event = make_event(self.statement(index), EventKind.CALL)
            event.name = parse_call(frame.body.operands(local)).target
            return event
        return None

    @cached_property
    def unknown(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for frame in self.frames:
            forms = (frame.body.forms[local] for local in frame.body.events)
            counts.update(form.opcode for form in forms if form.unknown)
        return counts

    def line(self, index: int) -> Line:
        found = self._lines.get(index)
        if found is None:
            found = self._lines[index] = self._line(index)
        return found

    def _line(self, index: int) -> Line:
        frame, local = self.at(index)
        source = frame.body.source(local)
        text = frame.body.line(local)
        if source is None:
            return Line(text=text)
        outermost = source.inlined_at
        return Line(
            text=text,
            file=self._files.get(source.file),
            line=source.line,
            inlined_at=None if outermost is None else (self._files.get(outermost[0], "?"), outermost[1]),
        )

    def definitions(self, index: int) -> Iterable[Reg]:
        frame, local = (self._only, index) if self._only is not None else self.at(index)
        body = frame.body
        form = body.forms[local]
        if form.writes == 1:
            names = destination_names(body.text, body.starts[local] + len(form.opcode))
            scope = body.scope(local)
            return [frame.register(name, scope) for name in names]
        if form.writes:
            return self.statement(index).destinations()
        if form.parameter_store or form.flow is Flow.CALL or (form.flow is Flow.RETURN and frame.caller is not None):
            return self.passing.definitions(self.statement(index), self.inlined.get(index))
        return ()

    def operation(self, index: int, register: Reg) -> Operation:
        key = index, register.name
        found = self._operations.get(key)
        if found is None:
            found = self._operations[key] = self._operation(index, register)
        return found

    def _operation(self, index: int, register: Reg) -> Operation:
        statement = self.statement(index)
        form = statement.form
        if form.parameter_store or form.flow is not Flow.NEXT:
            return self.passing.definitions(statement, self.inlined.get(index))[register]
        if form.base == "ld" and (not form.spaces or form.spaces[0] is Space.PARAM):
            loaded = self.passing.load(statement, statement.lane_of(register))
            if loaded is not None:
                return loaded
        return lower(statement, register)


class PtxProgram:
    """One `.entry`. Satisfies `Program`; everything about the body may raise `PtxError` when first asked for."""

    isa = Isa.PTX

    def __init__(
        self,
        header: Header,
        arch: str,
        digest: str,
        scan: Callable[[], Body],
        around: Surroundings,
        shelf: Shelf,
    ) -> None:
        self.name = header.name
        self.arch = arch
        self.header = header
        self.parameters: Sequence[Parameter] = parameters_of(header.formals)
        self.block_size = header.block_size
        self.max_block_size = header.max_block_size
        self.digest = digest
        """sha256 of the kernel's own text, hexadecimal."""
        self._scan = scan
        self._around = around
        self._shelf = shelf
        self._code: Code | None = None

    def _load(self) -> Code:
        body = self._scan()
        self._code = code = Code(body, self.header, self.parameters, self._around)
        self._shelf.add(self, len(body.text))
        return code

    def release(self) -> None:
        """Forget the parsed body; the next question parses it again."""
        self._code = None

    @property
    def code(self) -> Code:
        """The parsed body."""
        return self._code or self._load()

    @property
    def blocks(self) -> Sequence[Block]:
        return self.code.blocks

    @property
    def events(self) -> Sequence[Event]:
        return self.code.events

    @property
    def unknown(self) -> Mapping[str, int]:
        counts = Counter(self.code.unknown)
        counts.update(self._around.unknown)
        counts.update(self.header.unknown)
        return dict(sorted(counts.items()))

    def definitions(self, index: int) -> Iterable[Reg]:
        return (self._code or self._load()).definitions(index)

    def guard(self, index: int) -> Guard | None:
        frame, local = (self._code or self._load()).at(index)
        return guard_at(frame, local) if local in frame.body.guards else None

    def keeps_under(self, index: int) -> Guard | None:
        return self.guard(index)

    def operation(self, index: int, register: Reg) -> Operation:
        return self.code.operation(index, register)

    def line(self, index: int) -> Line:
        return (self._code or self._load()).line(index)

    def text(self, index: int) -> str:
        frame, local = self.code.at(index)
        return frame.body.statement(local)
