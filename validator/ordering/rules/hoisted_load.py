"""A load that stands behind the wait in PTX and before it in the machine code: the compiler moved it.

Source and PTX are right and the binary is wrong. `order/early-read` says so for the binary; this finding pairs it with
the PTX of the same kernel, so that nobody looks for the fault in the source. Non-coherent loads (`const __restrict__`,
`__ldg`, `CopyG2ROp(invariant=True)`, `.nc` in assembly) promise data that does not change, and ptxas moves them freely.

Bad:  `griddepcontrol.wait; ld.global.nc.f32 act` (becomes LDG.E.CONSTANT; ACQBULK)
Good: `griddepcontrol.wait; ld.global.f32 act`

Mend it by making the load coherent: plain `ld.global`, `ld.relaxed` or `ld.acquire`. `asm volatile`, a memory clobber
and a barrier after the wait do not hold a non-coherent load back.

Not seen: kernels whose PTX is not among the files.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule("order/hoisted-load", "ptxas moved a load above the wait", Severity.NOTE)
