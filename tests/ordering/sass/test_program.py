"""What machine code is lowered to: events, provenance, control flow, lines."""

from __future__ import annotations

import re
import subprocess

import pytest

from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Direction, EventKind, Op, Operation, Order, Reg, Scope, Space
from validator.ordering.sass.destinations import definitions
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.lower import operations
from validator.ordering.sass.operands import Constants, address, operand

from .conftest import labelled_cubins

pytestmark = pytest.mark.sass
BOTH = ("sm_90a", "sm_100a")


def kinds(program, *wanted):
    return [e for e in program.events if e.kind in wanted]


def sources(program, index, operands):
    """Every operation that a value is made of, through reaching definitions."""
    flow, found, seen = Flow(program), [], set()
    stack = [(index, o) for o in operands]
    while stack:
        at, item = stack.pop()
        if isinstance(item, Operation):
            found.append(item)
            stack.extend((at, a) for a in item.args)
        elif isinstance(item, Reg):
            for site in flow.reach(item, at, program.guard(at)):
                if (site, item) not in seen:
                    seen.add((site, item))
                    stack.append((site, program.operation(site, item)))
    return found


def parameter_offsets(program, event):
    access = next(a for a in event.accesses if a.space in (Space.GLOBAL, Space.GENERIC))
    ops = sources(program, event.index, access.address)
    return {o.attr[0] for o in ops if o.op is Op.PARAM and isinstance(o.attr, tuple)}


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", BOTH)
class TestMemory:
    @pytest.fixture
    def programs(self, compiled, kernels, arch):
        return {n: k.program for n, k in kernels(compiled("memory.cu", arch)).items()}

    def test_orders_and_scopes(self, programs):
        accesses = [e for e in kinds(programs["orders"], EventKind.ACCESS) if e.order is not Order.WEAK]
        assert [(e.accesses[0].direction, e.order, e.scope) for e in accesses] == [
            (Direction.READ, Order.ACQUIRE, Scope.GPU),
            (Direction.READ, Order.ACQUIRE, Scope.SYS),
            (Direction.READ, Order.ACQUIRE, Scope.CTA),
            (Direction.READ, Order.RELAXED, Scope.GPU),
            (Direction.READ, Order.RELAXED, Scope.SYS),
            (Direction.WRITE, Order.RELEASE, Scope.GPU),
            (Direction.WRITE, Order.RELAXED, Scope.SYS),
            (Direction.ATOMIC, Order.RELEASE, Scope.GPU),
            (Direction.ATOMIC, Order.ACQUIRE, Scope.GPU),
            (Direction.ATOMIC, Order.ACQ_REL, Scope.SYS),
            (Direction.ATOMIC, Order.RELAXED, Scope.GPU),
        ]
        assert not any(e.movable for e in accesses)

    def test_fences(self, programs):
        found = kinds(programs["fences"], EventKind.FENCE, EventKind.PROXY_FENCE)
        assert [(e.order, e.scope) for e in found if e.kind is EventKind.FENCE][:3] == [
            (Order.ACQ_REL, Scope.GPU),
            (Order.SC, Scope.SYS),
            (Order.ACQ_REL, Scope.CTA),
        ]
        proxies = {e.proxy for e in found if e.kind is EventKind.PROXY_FENCE}
        assert proxies == {"async.shared::cta", "async.global"}

    def test_pointers_inside_a_struct(self, programs):
        program = programs["structure"]
        assert [(p.index, p.offset, p.size) for p in program.parameters] == [(0, 0, 48), (1, 48, 4)]
        there = [e for e in kinds(program, EventKind.ACCESS) if e.accesses[0].space is not Space.LOCAL]
        stores = [e for e in there if e.accesses[0].direction is Direction.WRITE]
        assert all(16 in parameter_offsets(program, e) for e in stores)
        loads = [e for e in there if e.accesses[0].direction is Direction.READ]
        assert any(8 in parameter_offsets(program, e) for e in loads)
        symbols = {
            o.attr[1]
            for e in loads
            for o in sources(program, e.index, e.accesses[0].address)
            if o.op is Op.SYMBOL and isinstance(o.attr, tuple)
        }
        assert "table" in symbols

    def test_a_pointer_chosen_between_arguments_and_a_table(self, programs):
        program = programs["choice"]
        read = next(e for e in kinds(program, EventKind.ACCESS) if e.opcode.startswith("LD.E"))
        assert read.accesses[0].space is Space.GENERIC
        assert {8, 16} <= parameter_offsets(program, read)
        ops = sources(program, read.index, read.accesses[0].address)
        assert any(o.op is Op.LOAD for o in ops), "the third choice is loaded from the table"

    def test_non_coherent_loads(self, programs):
        found = [e for e in kinds(programs["choice"], EventKind.ACCESS) if e.noncoherent]
        assert [e.opcode for e in found] == ["LDG.E.CONSTANT"]

    def test_spills_are_local(self, programs):
        spaces = {e.accesses[0].space for e in kinds(programs["spills"], EventKind.ACCESS)}
        assert spaces == {Space.LOCAL, Space.GLOBAL}


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", BOTH)
class TestAsync:
    @pytest.fixture
    def programs(self, compiled, kernels, arch):
        return {n: k.program for n, k in kernels(compiled("async.cu", arch)).items()}

    def test_cp_async_groups(self, programs):
        program = programs["copies"]
        copies = kinds(program, EventKind.ASYNC_COPY)
        assert {e.group for e in copies} == {"cp.async"}
        assert all(8 in parameter_offsets(program, e) for e in copies)
        waits = kinds(program, EventKind.ASYNC_WAIT)
        assert {(e.group, e.pending) for e in waits} == {("cp.async", 2)}
        barriers = kinds(program, EventKind.BARRIER)
        named = [(e.barrier, e.thread_count, e.waits) for e in barriers if e.thread_count is not None]
        assert named == [((Const(3),), Const(64), True), ((Const(4),), Const(96), False)]

    def test_tensor_maps_and_bulk_groups(self, programs):
        program = programs["tensors"]
        load, store, reduce = kinds(program, EventKind.ASYNC_COPY)
        assert [a.tensormap for a in load.accesses] == [True, False]
        assert (load.group, store.group, reduce.group) == ("mbarrier", "bulk", "bulk")
        for event, parameter in ((load, program.parameters[0]), (store, program.parameters[1])):
            access = next(a for a in event.accesses if a.tensormap)
            ops = sources(program, event.index, access.address)
            start = next(o.attr for o in ops if o.op is Op.PARAM_ADDRESS)
            added = sum(a.value for o in ops if o.op is Op.ADD for a in o.args if isinstance(a, Const))
            assert start + added == parameter.offset
        waits = kinds(program, EventKind.ASYNC_WAIT)
        assert [(e.group, e.pending, e.read_only) for e in waits] == [("bulk", 1, True), ("bulk", 0, False)]
        prefetches = [e for e in kinds(program, EventKind.ACCESS) if e.accesses[0].direction is Direction.PREFETCH]
        assert {e.opcode.partition(".")[0] for e in prefetches} == {"UTMACCTL", "UBLKPF", "CCTL"}

    def test_mbarriers_have_addresses_counts_and_parities(self, programs):
        program = programs["roles"]
        starts = kinds(program, EventKind.MBARRIER_INIT)
        assert len(starts) == 4
        assert all(e.thread_count is not None for e in starts)
        for event in kinds(program, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT):
            ops = sources(program, event.index, event.barrier)
            assert any(o.op is Op.SYMBOL and o.attr == ("shared", "", 0) for o in ops), event.opcode
        waits = kinds(program, EventKind.MBARRIER_WAIT)
        assert all(e.parity is not None and e.result is not None for e in waits)

    def test_shared_memory_of_the_cluster(self, programs):
        program = programs["neighbour"]
        load = next(e for e in kinds(program, EventKind.ACCESS) if e.opcode == "LD.E")
        ops = sources(program, load.index, load.accesses[0].address)
        assert any(o.op is Op.MAPA for o in ops)
        found = kinds(program, EventKind.CLUSTER_BARRIER)
        assert [(e.arrives, e.waits, e.order) for e in found] == [
            (True, False, Order.RELEASE),
            (False, True, Order.ACQUIRE),
        ]


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", BOTH)
class TestControl:
    @pytest.fixture
    def programs(self, compiled, kernels, arch):
        return {n: k.program for n, k in kernels(compiled("control.cu", arch)).items()}

    def test_a_called_function_is_followed_once_per_call(self, programs):
        program = programs["calls"]
        assert not kinds(program, EventKind.CALL, EventKind.UNKNOWN)
        reads = [e for e in kinds(program, EventKind.ACCESS) if e.accesses[0].direction is Direction.READ]
        assert [parameter_offsets(program, e) for e in reads] in ([{16}, {16}, {8}, {8}], [{8}, {8}, {16}, {16}])
        flow = Flow(program)
        wait = next(e for e in program.events if e.kind is EventKind.GRID_WAIT)
        for event in reads:
            behind = flow.dominates(flow.block_of(wait.index), flow.block_of(event.index))
            assert behind is (parameter_offsets(program, event) == {8})

    def test_a_jump_table_goes_where_the_elf_says(self, programs):
        program = programs["jump_table"]
        assert not kinds(program, EventKind.CALL, EventKind.UNKNOWN)
        flow = Flow(program)
        jumps = [b for b in program.blocks if program.text(b.stop - 1).startswith("BRX")]
        assert jumps
        assert all(len(b.successors) >= 2 for b in jumps)
        assert len(flow.order) == len(program.blocks)

    def test_calls_out_of_the_section_are_events(self, programs):
        assert [e.name for e in kinds(programs["prints"], EventKind.CALL)] == ["vprintf"]
        assert [e.name for e in kinds(programs["pointer_call"], EventKind.CALL)] == [""]

    def test_a_trap_ends_its_path(self, programs):
        program = programs["prints"]
        trap = next(b for b in program.blocks if program.text(b.stop - 1).startswith("BPT.TRAP"))
        assert trap.successors == ()

    def test_a_wait_in_a_loop_stands_in_it(self, programs):
        program = programs["loop_with_wait"]
        flow = Flow(program)
        waits = kinds(program, EventKind.GRID_WAIT)
        assert any(flow.block_of(w.index) in body for w in waits for body in flow.loops)


def test_blocks_cover_every_instruction_once(kernels):
    for path in labelled_cubins()[::17]:
        for kernel in kernels(path).values():
            places = [i for b in kernel.program.blocks for i in range(b.start, b.stop)]
            assert places == list(range(len(places)))
            assert all(e.index in range(len(places)) for e in kernel.program.events)
            assert not kernel.program.unknown


@pytest.mark.nvcc
def test_lines_are_those_that_nvdisasm_prints(tools, compiled, kernels):
    path = compiled("memory.cu", "sm_90a", "-cubin", "-lineinfo")
    text = subprocess.run(
        [str(tools.nvdisasm), "-gi", "-c", str(path)], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    programs = {n: k.program for n, k in kernels(path).items()}
    section, current, last, compared = "", None, None, 0
    for line in text.splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.(\S+?),", line):
            section, current = found[1], None
        elif found := re.search(r'//## File "(.*?)", line (\d+)(?: inlined at "(.*?)", line (\d+))?', line):
            if last is None:
                current = [(found[1], int(found[2])), None]
            if found[3]:
                current[1] = (found[3], int(found[4]))
            last = line
            continue
        elif (found := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+\S", line)) and current and section in programs:
            where = programs[section]._lines(section, int(found[1], 16))
            assert ((where.file, where.line), where.inlined_at) == tuple(current), (section, found[1])
            compared += 1
        last = None
    assert compared > 200


class TestOperands:
    constants = Constants(0x210, 64, ())

    @pytest.mark.parametrize(
        ("token", "value"),
        [
            ("R2.64", Reg("R2")),
            ("-R3", Operation(Op.NEG, (Reg("R3"),))),
            ("!P0", Operation(Op.NOT, (Reg("P0"),), None, 1)),
            ("!PT", Const(0)),
            ("RZ", Const(0)),
            ("-0x10", Const(-16)),
            ("c[0x0][0x0]", Operation(Op.SPECIAL, (), "ntid.x")),
            ("c[0x0][0x218]", Operation(Op.PARAM, (), (8, 4))),
        ],
    )
    def test_values(self, token, value):
        assert operand(token, self.constants) == value

    @pytest.mark.parametrize(
        ("token", "terms"),
        [
            ("desc[UR4][R2.64+UR6+0x10]", (Reg("R2"), Reg("UR6"), Const(16))),
            ("[UR4+-0x8]", (Reg("UR4"), Const(-8))),
            ("[RZ]", (Const(0),)),
            ("[R3.X4+0x4]", (Operation(Op.MUL, (Reg("R3"), Const(4))), Const(4))),
            ("c[0x0][0x218]", None),
            ("R2", None),
        ],
    )
    def test_addresses(self, token, terms):
        assert address(token, self.constants) == terms


def instruction(text):
    opcode, _, rest = text.partition(" ")
    return Instruction(opcode, tuple(t.strip() for t in rest.split(",")), None, False, None, 0)


@pytest.mark.parametrize(
    ("text", "register", "wanted"),
    [
        ("IMAD.MOV.U32 R4, RZ, RZ, R8", "R4", Operation(Op.COPY, (Reg("R8"),))),
        ("IMAD.SHL.U32 R4, R8, 0x4, RZ", "R4", Operation(Op.COPY, (Operation(Op.MUL, (Reg("R8"), Const(4))),))),
        ("VIADD R4, R8, 0xffffffff", "R4", Operation(Op.ADD, (Reg("R8"), Const(-1)))),
        ("SHF.R.U32.HI R4, RZ, 0x5, R8", "R4", Operation(Op.SHR, (Reg("R8"), Const(5)))),
        ("LOP3.LUT R4, R5, 0x1f, RZ, 0xc0, !PT", "R4", Operation(Op.AND, (Reg("R5"), Const(31)))),
        ("LOP3.LUT R4, RZ, R5, RZ, 0x33, !PT", "R4", Operation(Op.NOT, (Reg("R5"),))),
        ("PLOP3.LUT P0, PT, P2, PT, PT, 0x80, 0x8", "P0", Operation(Op.COPY, (Reg("P2"),), None, 1)),
        ("PLOP3.LUT P0, PT, P2, PT, PT, 0x8, 0x80", "P0", Operation(Op.NOT, (Reg("P2"),), None, 1)),
        (
            "ISETP.GE.U32.AND P0, PT, R4, 0x20, PT",
            "P0",
            Operation(Op.COMPARE, (Reg("R4"), Const(32)), ("ge", False), 1),
        ),
        (
            "ISETP.LT.OR P1, P2, R4, R5, P3",
            "P2",
            Operation(Op.COMPARE, (Reg("R4"), Reg("R5"), Reg("P3")), ("ge", True, "or"), 1),
        ),
        ("SEL R4, R5, R6, !P0", "R4", Operation(Op.SELECT, (Reg("R6"), Reg("R5"), Reg("P0")))),
        ("HFMA2 R4, -RZ, RZ, 0, 5.9604644775390625e-08", "R4", Operation(Op.COPY, (Const(1),))),
        ("PRMT R4, R5, 0x654, R6", "R4", Operation(Op.MAPA, (Reg("R6"), Reg("R5")))),
        ("S2UR UR4, SR_CTAID.X", "UR4", Operation(Op.SPECIAL, (), "ctaid")),
        ("SHFL.IDX PT, R2, R3, RZ, 0x1f", "R2", Operation(Op.SHUFFLE, (Reg("R3"), Const(0)), "idx")),
        ("LDG.E.64 R4, desc[UR4][R2.64]", "R5", Operation(Op.LOAD, (), 4)),
    ],
)
def test_operations(text, register, wanted):
    assert operations(instruction(text), Constants(None, 0, ()))[Reg(register)] == wanted


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("IADD3 R2, P0, P1, R4, R5, R6", "R2 P0 P1"),
        ("IADD3.X R3, R4, R5, RZ, P0, !PT", "R3"),
        ("ISETP.NE.AND P0, PT, R4, RZ, PT", "P0"),
        ("VOTE.ANY R11, PT, P0", "R11"),
        ("VOTE.ANY P0, P1", "P0"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R2.64], R7", "R4"),
        ("LDG.E.128 R4, desc[UR4][R2.64]", "R4 R5 R6 R7"),
        ("IMAD.WIDE R4, R2, 0x4, R6", "R4 R5"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R2", "P0"),
        ("STG.E desc[UR4][R2.64], R7", ""),
        ("HMMA.16816.F32 R4, R8, R12, R4", "R4 R5 R6 R7"),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], RZ, !UPT", " ".join(f"R{n}" for n in range(24, 56))),
        ("LDSM.16.M88.4 R4, [R2]", "R4 R5 R6 R7"),
        ("B2R.RESULT RZ, P0", "P0"),
        ("R2UR UR4, R2", "UR4"),
        ("CS2R R4, SRZ", "R4 R5"),
        ("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", "UP0"),
        ("USETMAXREG.DEALLOC.CTAPOOL 0x28", ""),
    ],
)
def test_definitions(text, registers):
    assert [r.name for r in definitions(instruction(text))] == registers.split()
