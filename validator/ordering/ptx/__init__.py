"""Front end for PTX text as nvcc, Triton and CuTe DSL write it."""

from validator.ordering.ptx.errors import PtxError
from validator.ordering.ptx.module import PtxFunction, PtxModule, read_ptx
from validator.ordering.ptx.program import PtxProgram

__all__ = ["PtxError", "PtxFunction", "PtxModule", "PtxProgram", "read_ptx"]
