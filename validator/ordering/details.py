"""What one kernel's audit saw, as rows for a report: `Evidence.details` of kind `ordering-audit`.

waits     [{kind, text, at}]
early     [{access, memory, role, allowed, count, instruction, at, reason}]   before anything orders it
movable   the same: behind the wait here, where a compiler may move it
accesses  the same: all of global memory
resources {registers, stack bytes, shared bytes}, where the artifact says so
excerpts  [{finding, at, text, mark}]: the instructions around a finding; `mark` is the line that is meant, from 0
"""

from __future__ import annotations

from typing import Any

from validator.ordering.result import AccessRow, KernelAudit, WaitRow

__all__ = ["kernel_details"]


def kernel_details(kernel: KernelAudit) -> dict[str, Any]:
    """Plain JSON, in the audit's own order."""
    return {
        "waits": [_wait(w) for w in kernel.waits],
        "early": [_row(r) for r in kernel.early],
        "movable": [_row(r) for r in kernel.movable],
        "accesses": [_row(r) for r in kernel.accesses],
        "resources": dict(kernel.resources),
        "excerpts": [{"finding": x.finding, "at": x.at, "text": x.text, "mark": x.mark} for x in kernel.excerpts],
    }


def _wait(wait: WaitRow) -> dict[str, Any]:
    return {"kind": wait.kind, "text": wait.text, "at": str(wait.line)}


def _row(row: AccessRow) -> dict[str, Any]:
    return {
        "access": row.access,
        "memory": " or ".join(p.name for p in row.params),
        "role": row.role.value if row.role else None,
        "allowed": row.allowed,
        "count": row.count,
        "instruction": row.instruction,
        "at": str(row.lines[0]) if row.lines else "",
        "reason": row.reason,
    }
