"""Where the variables of a kernel lie, and what is in them at the start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from validator.emulate.errors import EmulateError
from validator.emulate.memory import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BITS
from validator.emulate.program import Decoded
from validator.errors import Problem
from validator.ordering.program import Space
from validator.ordering.ptx.lexical import TYPE_BITS, code_only, integer, split_commas

__all__ = ["FIRST_BUFFER", "WINDOW_MIDDLE", "Layout", "initial_values", "lay_out"]

SHARED_BEGIN = 1024
"""The first KiB of shared memory is the system's."""
_SHARED_ALIGN = 128
DYNAMIC_ALIGN = 1024
_LARGEST_ALIGN = 1 << 16
LARGEST_LOCAL = 1 << 20
LARGEST_SHARED = 1 << 18
WINDOW_MIDDLE = 1 << (WINDOW_BITS - 2)
"""Where in its window a buffer begins: what lies below its start is still its own."""
FIRST_BUFFER = 1
"""Window of the first buffer of a launch."""
_FIRST_VARIABLE = 0x400
"""Window of the first module variable in global memory."""
_INITIALISED = re.compile(
    r"\.(?:global|const)\b([^;={]*?)([A-Za-z_$%][\w$]*)\s*((?:\[[^\]]*\]\s*)*)=\s*(\{[^;]*\}|[^;{]+);", re.DOTALL
)


@dataclass(slots=True)
class Layout:
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Variable → offset, bytes; 0 bytes for dynamic shared memory."""
    local: dict[str, tuple[int, int]] = field(default_factory=dict)
    const: dict[str, tuple[int, int]] = field(default_factory=dict)
    globals: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Variable → address, bytes."""
    shared_size: int = SHARED_BEGIN
    """Bytes up to the end of static shared memory."""
    dynamic: int = SHARED_BEGIN
    """Where dynamic shared memory begins."""
    local_size: int = 0
    const_size: int = 0
    initial: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def has_dynamic(self) -> bool:
        """Whether the kernel has shared memory whose bytes the launch says."""
        return any(size == 0 for _, size in self.shared.values())

    def address(self, space: Space, name: str) -> int | None:
        """Address in its own space, global ones whole."""
        table = {Space.SHARED: self.shared, Space.LOCAL: self.local, Space.CONST: self.const}.get(space, self.globals)
        found = table.get(name)
        return None if found is None else found[0]


WINDOWS = {
    Space.SHARED: SHARED_WINDOW,
    Space.CLUSTER: SHARED_WINDOW,
    Space.LOCAL: LOCAL_WINDOW,
    Space.PARAM: PARAM_WINDOW,
    Space.CONST: CONST_WINDOW,
}
"""Generic address of byte 0 of a space."""


def lay_out(decoded: Decoded, data: bytes) -> Layout:
    """Offsets for all variables that the kernel names; `data` is the file, for initial values."""
    layout = Layout()
    dynamic: list[str] = []
    for name, variable in decoded.variables.items():
        space, size, align = variable.space, variable.size or 0, min(variable.align, _LARGEST_ALIGN)
        if space is Space.SHARED and variable.size is None:
            dynamic.append(name)
        elif space is Space.SHARED:
            layout.shared_size = _place(layout.shared, name, size, layout.shared_size, max(align, _SHARED_ALIGN))
        elif space is Space.LOCAL:
            layout.local_size = _place(layout.local, name, size, layout.local_size, max(align, 16))
        elif space is Space.CONST:
            layout.const_size = _place(layout.const, name, size, layout.const_size, max(align, 64))
        elif space is Space.GLOBAL:
            layout.globals[name] = ((_FIRST_VARIABLE + len(layout.globals) << WINDOW_BITS) + WINDOW_MIDDLE, size)
    layout.dynamic = -(-layout.shared_size // DYNAMIC_ALIGN) * DYNAMIC_ALIGN
    layout.shared.update((name, (layout.dynamic, 0)) for name in dynamic)
    for what, size, most in (
        ("local", layout.local_size, LARGEST_LOCAL),
        ("shared", layout.shared_size, LARGEST_SHARED),
    ):
        if size > most:
            raise EmulateError(Problem(f"{size} bytes of {what} memory, at most {most} are possible", decoded.name))
    if layout.globals or layout.const:
        layout.initial = initial_values(data)
    return layout


def _place(table: dict[str, tuple[int, int]], name: str, size: int, end: int, align: int) -> int:
    start = -(-end // align) * align
    table[name] = (start, size)
    return start + size


def initial_values(data: bytes) -> dict[str, bytes]:
    """Bytes of module variables with an initialiser of plain numbers."""
    found = {}
    for head, name, _, values in _INITIALISED.findall(code_only(data.decode("latin-1"))):
        kind = next((w for w in re.findall(r"\.(\w+)", head) if w in TYPE_BITS), "b8")
        size = max(TYPE_BITS[kind] // 8, 1)
        numbers = [
            integer(part.strip()) for part in split_commas(values.strip().strip("{}").replace("{", "").replace("}", ""))
        ]
        mask = (1 << (8 * size)) - 1
        found[name] = b"".join(((n or 0) & mask).to_bytes(size, "little") for n in numbers)
    return found
