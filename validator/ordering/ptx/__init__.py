"""Front end for PTX text as nvcc, Triton and CuTe DSL write it (PTX ISA up to 9.5).

`read_ptx(data, name)` delimits a file and gives one `PtxProgram` per kernel; a body is parsed when it is first asked
about, and forgotten again when many others were asked since. Both steps raise `PtxError` with the line. What is not
known becomes an UNKNOWN event and a count, never silence. Calls into functions of the same file are replaced by copies
of them; others stay CALL events.
"""

from validator.ordering.ptx.errors import PtxError
from validator.ordering.ptx.module import PtxFunction, PtxModule, read_ptx
from validator.ordering.ptx.program import PtxProgram

__all__ = ["PtxError", "PtxFunction", "PtxModule", "PtxProgram", "read_ptx"]
