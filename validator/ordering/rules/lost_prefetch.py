"""A prefetch of weights that the source issues before the wait and the machine code after it.

The point of reading weights before `griddepcontrol.wait` is to hide their latency behind the previous kernel. ptxas may
sink non-coherent loads below the wait, volatile assembly or not: nothing is wrong, the kernel is as slow as if nobody
had tried. It shows only where PTX and machine code of one kernel are both at hand.

Bad:  `ld.global.nc.v4.f32 w …; griddepcontrol.wait` (becomes ACQBULK; LDG.E.128.CONSTANT)
Good: `ld.relaxed.gpu.global.v4.f32 w …; griddepcontrol.wait` (stays: LDG.E.128.STRONG.GPU; ACQBULK)

Mend it by loading with `ld.relaxed.gpu` (or `ld.volatile`) into registers, by an asynchronous copy, or by a prefetch to
L2 (`prefetch.global.L2`, `cp.async.bulk.prefetch.L2`), none of which ptxas moves across the wait.

Not seen: what the prefetch is worth; only a measurement says.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule("order/lost-prefetch", "ptxas sank a weight load below the wait", Severity.WARNING)
