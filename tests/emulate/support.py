"""Short PTX kernels for tests: a body becomes a file, arrays become arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from validator.emulate.adapter import Kernel
from validator.emulate.adversary import FRIENDLY, Plan
from validator.emulate.hazard import Hazard, HazardKind
from validator.ordering.ptx import read_ptx

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def source(body: str, arguments: Sequence[str], name: str = "k", before: str = "", directives: str = "") -> bytes:
    """A file with one kernel; `arguments` are parameter types such as `u64`."""
    formals = ", ".join(f".param .{kind} p{number}" for number, kind in enumerate(arguments))
    registers = (
        ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<32>; .reg .f64 %fd<8>;"
    )
    return (
        f"{HEAD}{before}\n.visible .entry {name}({formals}) {directives}\n{{\n{registers}\n{body}\nret;\n}}\n".encode()
    )


def kernel(
    body: str, roles: Sequence[str], *, before: str = "", directives: str = "", pdl: bool = False,
    plan: Plan | None = FRIENDLY, kinds: Sequence[str] = (), **rows: Any,
) -> Kernel:  # fmt: skip
    """A kernel whose arguments have these roles; `scalar` is a u32. `rows`: further keys by argument, `a0={…}`."""
    types = kinds or ["u32" if role == "scalar" else "u64" for role in roles]
    data = source(body, types, before=before, directives=directives)
    (program,) = read_ptx(data, "test.ptx").programs
    said = [
        {
            "name": f"a{n}",
            "parameter": n,
            "memory": role != "scalar",
            "role": role,
            "dtype": None,
            **rows.get(f"a{n}", {}),
        }
        for n, role in enumerate(roles)
    ]
    return Kernel(program, data, said, frozenset(), pdl=pdl, plan=plan)


def launch(grid: int = 1, block: int = 32, shared: int = 0, cluster: int | None = None) -> dict[str, Any]:
    return {
        "grid": (grid, 1, 1), "block": (block, 1, 1), "shared": shared,
        "cluster": None if cluster is None else (cluster, 1, 1),
    }  # fmt: skip


def hazards(made: Kernel) -> dict[HazardKind, Hazard]:
    """Of the last call, one of each kind."""
    assert made.last is not None
    return {h.kind: h for h in made.last.hazards}


def words(count: int, fill: int = 0) -> Any:
    return np.full(count, fill, np.uint32)


INDEX = """
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ntid.x;
mad.lo.s32 %r4, %r2, %r3, %r1;
ld.param.u64 %rd1, [p0];
mul.wide.u32 %rd2, %r4, 4;
add.s64 %rd3, %rd1, %rd2;
"""
"""%r1 thread, %r2 CTA, %r4 thread of the grid, %rd1 first argument, %rd3 its element for this thread."""
