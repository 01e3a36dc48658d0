"""Names that nothing binds: reading one is an error, whatever the switch says."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Set

from validator.isolation.offpath.compare import Difference
from validator.isolation.source import Source
from validator.isolation.syntax import lower_new_syntax

__all__ = ["newly_unbound"]

_GIVEN = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__package__", "__path__", "__spec__", "__loader__", "__builtins__",
    "__annotations__", "__class__", "__module__", "__qualname__", "__dict__", "__debug__", "WindowsError",
}  # fmt: skip


def newly_unbound(base: Source, head: Source, read: Set[tuple[str, str, int]]) -> Iterator[Difference]:
    """Reads, in the head, of names that no scope around them, no module and Python itself do not bind; not the base's
    own. `read`: (path, name, line) of what is evaluated at all with the switch off."""
    missing = _unbound(head) - _unbound(base)
    for node in ast.walk(head.module) if head.module and missing else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing:
            if (head.path, node.id, node.lineno) not in read:
                continue
            missing.discard(node.id)
            end = node.end_lineno or node.lineno
            yield Difference(0, 0, node.lineno, end, "", f"`{node.id}` is bound nowhere: reading it is an error")


def _unbound(source: Source) -> set[str]:
    """Global names that the module reads and nothing in it binds; empty where a star import or `globals` may."""
    names = (
        {n for s in ast.walk(source.module) if isinstance(s, ast.ImportFrom) for n in (a.name for a in s.names)}
        if source.module
        else {"*"}
    )
    if "*" in names:
        return set()
    try:
        top = symtable.symtable(lower_new_syntax("\n".join(source.lines)), "head", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    read: set[str] = set()
    todo = [top]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        for symbol in table.get_symbols():
            if table is top or symbol.is_global():
                read |= {symbol.get_name()} if symbol.is_referenced() else set()
                bound |= {symbol.get_name()} if symbol.is_declared_global() and symbol.is_assigned() else set()
    return set() if "globals" in read else read - bound - _GIVEN
