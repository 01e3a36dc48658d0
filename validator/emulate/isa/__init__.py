"""Semantics of PTX's value-computing instructions as pure numpy functions: registers in, registers out.

`lookup` answers for instructions that every thread executes alone, `lookup_warp` for those of whole warps. Memory,
control flow, barriers and special registers are the machine's. Packages above hold `numpy.errstate(all="ignore")`.

Bits are exact where the ISA defines them; approximate functions and `mma` are within its bounds. Both were compared
with an H200: `fixtures/gpu/vectors/`.
"""

from validator.emulate.isa.matrix import MatrixCopy, matrix_copy
from validator.emulate.isa.model import Array, Op, RegType, WarpOp
from validator.emulate.isa.registry import lookup, lookup_warp
from validator.emulate.isa.warp import shuffle_lanes

__all__ = [
    "Array",
    "MatrixCopy",
    "Op",
    "RegType",
    "WarpOp",
    "lookup",
    "lookup_warp",
    "matrix_copy",
    "shuffle_lanes",
]
