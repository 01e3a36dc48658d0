"""Numbers for what a kernel is launched with, many samples at once, and what its instructions make of them.

A value is known bit by bit: a byte put into a word that holds anything is known, the word is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from itertools import product
from operator import or_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from validator.ordering.program import Const, Op, Operand, Operation, Program, Reg, Special
from validator.ordering.threads import Threads
from validator.ordering.vectors import Vector, computed, wrap

__all__ = ["ANYTHING", "SAMPLES", "UNKNOWN", "Samples", "Some", "Value", "known", "made", "merged"]

Some = npt.NDArray[np.bool_]
"""Which samples."""

_SPREAD = 160
"""Samples that are spread over all threads that are asked about; as many again are of one thread of each kind."""
SAMPLES = 2 * _SPREAD
_KINDS = 16
_SMALL = (*range(10), -1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 1000, 4096)
"""Sizes that kernels are launched with, and those beside the steps of their loops."""
_ALL = -1
_BY_BITS = frozenset((Op.COPY, Op.AND, Op.OR, Op.XOR, Op.NOT, Op.LOP3, Op.PACK, Op.EXTRACT, Op.SHL, Op.SHR))
"""Each bit of the result is made of one bit of each operand."""
_FRESH = (Op.LOAD, Op.ATOMIC, Op.RETURN)
"""Another result every time."""
_TILES = (Special.NTID_X, Special.NTID_Y, Special.NTID_Z)
_PLACES = (Special.TID_X, Special.TID_Y, Special.TID_Z)


class Value(NamedTuple):
    """One number a sample."""

    numbers: Vector
    bits: int
    """Which of their bits are known, the same in all samples."""


UNKNOWN = Value(np.zeros(SAMPLES, dtype=np.int64), 0)
ANYTHING = Value(np.zeros(SAMPLES, dtype=np.int64), _ALL)
"""Of a register that was never set: whatever it holds, it may hold this."""


@lru_cache(maxsize=1024)
def known(number: int) -> Value:
    """The same number in all samples."""
    numbers = np.full(SAMPLES, wrap(number), dtype=np.int64)
    numbers.flags.writeable = False
    return Value(numbers, _ALL)


def merged(holds: Some | None, new: Value, old: Value, alive: Some) -> Value:
    """`new` where a guard holds, `old` where it does not; None: nobody knows where."""
    if holds is None:
        same = int(np.bitwise_or.reduce((new.numbers ^ old.numbers)[alive], initial=0))
        return Value(new.numbers, new.bits & old.bits & ~same)
    if (holds | ~alive).all():
        return new
    if not (holds & alive).any():
        return old
    return Value(np.where(holds, new.numbers, old.numbers), new.bits & old.bits)


class Samples:
    """The inputs of one kernel, each drawn when it is first read and the same ever after."""

    def __init__(
        self, program: Program, threads: Threads, asked: Iterable[int], constants: Iterable[int], whole: bool = False
    ) -> None:
        """`asked`: threads to walk, one mask for each place; `constants`: numbers that the kernel compares with.

        `whole`: what is not known (loaded, or made by an operation that is not computed) is drawn too, the latter the
        same for the same operands. Each thread is the one that its warp elects, and the others vote as it does: a
        copy under a vote on the election is made where the elected lane makes it.
        """
        self.program, self.coordinates, self.whole = program, threads, whole
        masks = [mask for mask in dict.fromkeys(asked) if mask] or [1]
        everyone = reduce(or_, masks)
        bits = [bit for bit in range(everyone.bit_length()) if everyone >> bit & 1]
        spread = max(len(bits), _SPREAD)
        ones = [(mask & -mask).bit_length() - 1 for mask in masks[:_KINDS]]
        drawn = [bits[k * spread // _SPREAD % len(bits)] for k in range(_SPREAD)]
        self.threads = np.array(drawn + [ones[k % len(ones)] for k in range(_SPREAD)], dtype=np.int64)
        self._pool = [*_SMALL, *constants]
        self._random = random.Random(0)
        self._drawn: dict[object, Value] = {}
        self._made: dict[object, Vector] = {}

    def value(self, operand: Operand, index: int, held: Mapping[Reg, Value]) -> Value:
        """An operand of instruction `index`, given what the registers hold."""
        if isinstance(operand, Const):
            return known(operand.value)
        if isinstance(operand, Reg):
            return held.get(operand, ANYTHING)
        args = [self.value(arg, index, held) for arg in operand.args]
        value = self._operation(operand, index, args)
        return self._filled(operand, args, value) if self.whole and value.bits != _ALL else value

    def _operation(self, operand: Operation, index: int, args: list[Value]) -> Value:
        if operand.op is Op.SPECIAL:
            return self._special(operand.attr, index)
        if operand.op is Op.PARAM and not operand.args:
            return self._parameter(operand.attr)
        if self.whole and operand.op is Op.ELECT:
            return known(1)
        if self.whole and operand.op is Op.VOTE and operand.attr in ("any", "all"):
            return args[0]
        return made(operand, args) if args else UNKNOWN

    def _filled(self, operand: Operation, args: list[Value], value: Value) -> Value:
        """Numbers for the bits that are not known."""
        key = (operand.op, operand.attr, *(arg.numbers.tobytes() for arg in args))
        drawn = None if operand.op in _FRESH else self._made.get(key)
        if drawn is None:
            drawn = np.array(self._random.choices(self._pool, k=SAMPLES), dtype=np.int64)
            self._made[key] = drawn
        return Value((value.numbers & value.bits) | (drawn & ~value.bits), _ALL)

    def _special(self, attr: object, index: int) -> Value:
        """Coordinates; those of the CTA are told apart by how the instruction names them."""
        numbers = self.threads
        if attr is Special.LANE:
            return Value(numbers % 32, _ALL)
        if attr is Special.WARP:
            return Value(numbers // 32, _ALL)
        if attr in _PLACES:
            return Value(self.coordinates.coordinates[_PLACES.index(Special(str(attr)))][numbers], _ALL)
        if attr in _TILES:
            block = self.coordinates.block
            return UNKNOWN if block is None else known(block[_TILES.index(Special(str(attr)))])
        if attr is not Special.CTA:
            return UNKNOWN
        name = self.program.text(index).rpartition(",")[2].strip(" ;").lower()
        if name not in self._drawn:
            least = 4 if "nc" in name else 0  # a grid has more CTAs than its last one counts
            # Much is done by the first CTA alone, by one of its threads.
            drawn = [max(least, self._random.randrange(-4 * (k >= _SPREAD), 4)) for k in range(SAMPLES)]
            self._drawn[name] = Value(np.array(drawn, dtype=np.int64), _ALL)
        return self._drawn[name]

    def _parameter(self, attr: object) -> Value:
        """Words of the parameter block. The first samples of each half hold one and the same number in all words."""
        if attr not in self._drawn:
            pool = self._pool
            first = min(len(pool), _SPREAD // 2)
            turns = (k % _SPREAD for k in range(SAMPLES))
            drawn = [pool[k] if k < first else self._random.choice(pool) for k in turns]
            ones = (1 << attr[1] * 8) - 1 if isinstance(attr, tuple) else (1 << 64) - 1
            self._drawn[attr] = Value(np.array([wrap(n & ones) for n in drawn], dtype=np.int64), _ALL)
        return self._drawn[attr]


def made(operation: Operation, args: list[Value]) -> Value:
    """The result of an operation on values that may be known in part."""
    open_args = [arg for arg in args if arg.bits != _ALL]
    if not open_args:
        numbers = computed(operation, [arg.numbers for arg in args])
        return UNKNOWN if numbers is None else Value(numbers, _ALL)
    if operation.op is Op.MUL and any(arg.bits == _ALL and not arg.numbers.any() for arg in args):
        return known(0)
    shifted = operation.op in (Op.SHL, Op.SHR) and args[-1].bits != _ALL
    if operation.op not in _BY_BITS or shifted or len(open_args) > 4:
        return UNKNOWN
    first: Vector | None = None
    same = _ALL
    # Bits that come out alike whatever the unknown ones are.
    for filled in product((0, _ALL), repeat=len(open_args)):
        fill = iter(filled)
        tried = [a.numbers if a.bits == _ALL else (a.numbers & a.bits) | (next(fill) & ~a.bits) for a in args]
        result = computed(operation, tried)
        if result is None:
            return UNKNOWN
        first = result if first is None else first
        same &= ~int(np.bitwise_or.reduce(result ^ first))
    return UNKNOWN if first is None else Value(first, same)
