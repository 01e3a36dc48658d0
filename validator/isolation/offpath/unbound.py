"""Names that nothing binds: reading one is an error, whatever the switch says."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Iterator, Set

from validator.isolation.offpath.compare import Difference
from validator.isolation.offpath.scopes import bound_names, walk_scope
from validator.isolation.source import Source
from validator.isolation.syntax import lower_new_syntax, nodes, walk

__all__ = ["newly_unbound", "unbound_reads"]

_GIVEN = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__package__", "__path__", "__spec__", "__loader__", "__builtins__",
    "__annotations__", "__class__", "__module__", "__qualname__", "__dict__", "__debug__", "WindowsError",
}  # fmt: skip


def newly_unbound(base: Source, head: Source) -> tuple[ast.Name, ...]:
    """Reads, in the head, of names that no scope around them, no module and Python itself do not bind; not the base's
    own."""
    missing = _unbound(head) - _unbound(base)
    return tuple(n for n in nodes(head.module, ast.Name) if n.id in missing and isinstance(n.ctx, ast.Load))


def unbound_reads(found: Iterable[ast.Name], path: str, read: Set[tuple[str, str, int]]) -> Iterator[Difference]:
    """The first of them for each name that is evaluated at all with the switch off. `read`: (path, name, line)."""
    seen: set[str] = set()
    for node in found:
        if node.id not in seen and (path, node.id, node.lineno) in read:
            seen.add(node.id)
            end = node.end_lineno or node.lineno
            yield Difference(0, 0, node.lineno, end, "", f"`{node.id}` is bound nowhere: reading it is an error")


def _unbound(source: Source) -> set[str]:
    """Global names that the module reads and nothing in it binds; empty where a star import or `globals` may."""
    module = source.module
    if module is None or any(alias.name == "*" for s in nodes(module, ast.ImportFrom) for alias in s.names):
        return set()
    top = _table("\n".join([*source.lines, ""]))
    if top is None:
        return set()
    bound, read = _top_level(module, top)
    todo = top.get_children()
    while todo:
        table = todo.pop()
        todo += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_global():
                read |= {symbol.get_name()} if symbol.is_referenced() else set()
                bound |= {symbol.get_name()} if symbol.is_declared_global() and symbol.is_assigned() else set()
    return set() if "globals" in read else read - bound - _GIVEN


def _table(text: str) -> symtable.SymbolTable | None:
    """The scopes of a program, also of one in newer syntax than the running Python's."""
    for lowered in (False, True):
        try:
            return symtable.symtable(lower_new_syntax(text) if lowered else text, "head", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _top_level(module: ast.Module, top: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """(names that the module's own scope binds, names that it reads). A table takes time for each name that grows with
    the number of functions, so it is asked only about names of comprehensions, whose scope the syntax does not tell."""
    bound = set(bound_names(module.body))
    read = {n.id for n in walk_scope(module.body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    targets = {n.id for c in nodes(module, ast.comprehension) for n in walk(c.target) if isinstance(n, ast.Name)}
    own = {name: top.lookup(name) for name in targets & (bound | read) & set(top.get_identifiers())}
    bound -= {name for name in targets if name not in own or not _is_bound(own[name])}
    read -= {name for name in targets if name not in own or not own[name].is_referenced()}
    return bound, read


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
