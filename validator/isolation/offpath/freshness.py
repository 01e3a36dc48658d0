"""How far a fact about an attribute may reach: over the whole tree, over one class, or nowhere.

A name that the base does not hold at all is the change's own; a name that no base code can use on this class is its own
there. Everything is looked up by name, over the class and its relatives, in every file of both trees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Set

from validator.isolation.offpath.stores import stores
from validator.isolation.source import Sources
from validator.isolation.syntax import walk

__all__ = ["fact_scopes", "is_stored_elsewhere", "last_name"]


def fact_scopes(head: Sources, base: Sources, modules: Mapping[str, ast.Module]) -> dict[tuple[str, str, str], str]:
    """(path, class, attribute) → how far a fact about it may reach, for every attribute that the files store."""
    names = {(p, s.class_name, s.name) for p, module in modules.items() for s in stores(p, module.body)}
    return {key: _scope_of_fact(head, base, *key) for key in names}


def _scope_of_fact(head: Sources, base: Sources, path: str, class_name: str, name: str) -> str:
    """How far a fact may reach; empty: there are none.

    `any`: the name is new to the whole tree. `class`: new to this class and its relatives, and used by nobody else.
    `set`: the same, but others read attributes of that name, so that what it holds may be changed elsewhere.
    """
    scope = "any" if not base.knows(name, path) else ""
    if not scope and class_name and _is_new_to_class(head, base, path, class_name, name):
        scope = "set" if _is_read_by_others(head, base, path, name) else "class"
    return "" if scope and _is_set_by_name(head, name) else scope


def _is_set_by_name(sources: Sources, name: str) -> bool:
    """Whether some code sets an attribute of this name through its text, whole or put together, or as a keyword."""
    word = name.encode()
    by_name = re.compile(
        rb"setattr\([^\n]*[\"']" + word + rb"[\"']|(?:__dict__|\bvars\([^)\n]*\))\.update\([^\n]*\b" + word + rb"\s*="
    )
    beginnings, endings = sources.set_by_parts
    return (
        any(by_name.search(sources.data(p)) for p in sources.mentions(name))
        or word.startswith(beginnings)
        or word.endswith(endings)
    )


def _is_read_by_others(head: Sources, base: Sources, path: str, name: str) -> bool:
    """Whether code reads an attribute of this name off anything but its own object, or the base's file names it."""
    foreign = re.compile(rb"(?<!self)(?<!cls)\." + name.encode() + rb"\b")
    files = ((s, p) for s in (base, head) for p in s.mentions(name))
    return any(foreign.search(s.data(p)) or (s is base and p == path) for s, p in files)


def _is_new_to_class(head: Sources, base: Sources, path: str, class_name: str, name: str) -> bool:
    """Whether no base code can store this attribute on this class: by name, over the class and its relatives."""
    module = base.parse(path).module if path in base else None
    classes = {n.name: n for n in walk(module) if isinstance(n, ast.ClassDef)} if module else {}
    node = classes.get(class_name)
    if node is None or any(name in (getattr(n, "attr", None), getattr(n, "id", None)) for n in walk(node)):
        return False
    foreign = re.compile(
        rb"(?<!self)(?<!cls)\." + name.encode() + rb"\s*(?::[^=\n]+)?=(?!=)|[\"']" + name.encode() + rb"[\"']"
    )
    family = re.compile(rb"\b" + class_name.encode() + rb"\b")
    above = _above(base, path, node) | _above(head, path, node)
    for sources in (base, head):
        for other in sources.mentions(name):
            data = sources.data(other)
            if foreign.search(data) or (other != path and family.search(data)):
                return False
            if _stored_by_a_relative(sources, other, path, class_name, name, above):
                return False
    relatives = {c for c, n in classes.items() if c in above or class_name in _above(base, path, n)}
    return not any(getattr(n, "attr", None) == name for c in relatives for n in walk(classes[c]))


def is_stored_elsewhere(sources: Sources, path: str, node: ast.ClassDef, name: str) -> bool:
    """Whether code outside this class may store the attribute on one of its objects, or make it something else."""
    by_name = re.compile(
        rb"(?<!self)(?<!cls)\." + name.encode() + rb"\s*(?::[^=\n]+)?=(?!=)|[\"']" + name.encode() + rb"[\"']"
    )
    above = _above(sources, path, node)
    for other in sources.mentions(name):
        if by_name.search(sources.data(other)) or _stored_by_a_relative(sources, other, path, node.name, name, above):
            return True
    return False


def _stored_by_a_relative(sources: Sources, other: str, path: str, class_name: str, name: str, above: Set[str]) -> bool:
    """Whether the file stores the attribute in a class above or below this one, or through no class at all."""
    stored = re.compile(
        rb"\." + name.encode() + rb"\s*(?:=(?!=)|[-+*/|&^@%<>]+=|[:,)\]]|in\b)|^\s+" + name.encode() + rb"\s*[:=]", re.M
    )
    module = sources.parse(other).module if stored.search(sources.data(other)) else None
    for store in stores(other, module.body) if module else ():
        if store.name != name or (other == path and store.class_name == class_name):
            continue
        if not store.class_name or store.class_name in above:
            return True
        owner = next(
            (n for n in walk(module) if isinstance(n, ast.ClassDef) and n.name == store.class_name), None
        ) if module else None  # fmt: skip
        if owner is not None and class_name in _above(sources, other, owner):
            return True
    return False


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _above(sources: Sources, path: str, node: ast.ClassDef) -> set[str]:
    """Simple names of every class above, over all files; classes of the same name count as one."""
    found: set[str] = set()
    todo = [(path, node)]
    while todo:
        where, one = todo.pop()
        for name in (_original(sources, where, n) for n in map(last_name, one.bases) if n):
            if name in found:
                continue
            found.add(name)
            heading = re.compile(rb"\bclass\s+" + re.escape(name.encode()) + rb"\b")
            for other in sources.mentions(name):
                module = sources.parse(other).module if heading.search(sources.data(other)) else None
                classes = (n for n in walk(module) if isinstance(n, ast.ClassDef)) if module else iter(())
                todo += [(other, n) for n in classes if n.name == name]
    return found


def _original(sources: Sources, path: str, name: str) -> str:
    """The name under which another module defines what this file imports as `name`."""
    module = sources.parse(path).module if path in sources else None
    for node in walk(module) if module else ():
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname == name:
                    return alias.name
        elif isinstance(node, ast.Assign) and last_name(node.value) and name in map(last_name, node.targets):
            return last_name(node.value)
    return name
