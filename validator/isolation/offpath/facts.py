"""Facts about attributes and parameters with the switch off, as the largest set that no reachable store contradicts.

A fact `x.name is None` is assumed for every attribute that some store sets to a constant; the files are evaluated
under all assumptions; a reachable store of anything else removes its assumption, and the evaluation starts again.
What is left holds by induction over the run: the first store that breaks a fact would be reachable under the facts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from validator.isolation.offpath.constants import constant, is_constant, value_of
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.scopes import FunctionNode
from validator.isolation.offpath.signatures import called_as, default_of
from validator.isolation.offpath.switch import OffForm
from validator.isolation.offpath.world import Facts, World
from validator.isolation.source import Sources
from validator.isolation.syntax import parts, walk

__all__ = ["Store", "fact_scopes", "functions_of", "solve"]

_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Store:
    """One store to an attribute."""

    path: str
    class_name: str
    """Class whose `self` (or body) it goes through; empty: some other object."""
    name: str
    value: ast.expr | None
    """None: not a plain assignment (`+=`, `del`, a loop target, `setattr`)."""
    line: int


def solve(
    names: Names,
    base: Sources,
    form: OffForm,
    modules: Mapping[str, ast.Module],
    fresh: frozenset[str],
    scopes: Mapping[tuple[str, str, str], str],
) -> World:
    """A world for the head with the facts that hold in these files. `scopes`: see `fact_scopes`."""
    facts = Facts(parameters=dict(_new_parameters(names.sources, base, modules)))
    dropped: set[tuple[str, ...]] = set()
    for _ in range(_ROUNDS):
        world = World(names, form, facts, fresh, modules)
        if not _grow(world, facts, scopes, dropped):
            break
    world = World(names, form, facts, fresh, modules)
    while _shrink(world, facts, base, dropped):
        world = World(names, form, facts, fresh, modules)
    return world


def fact_scopes(head: Sources, base: Sources, modules: Mapping[str, ast.Module]) -> dict[tuple[str, str, str], str]:
    """(path, class, attribute) → how far a fact about it may reach, for every attribute that the files store."""
    names = {(p, s.class_name, s.name) for p, module in modules.items() for s in stores(p, module.body)}
    return {key: _scope_of_fact(head, base, *key) for key in names}


def _scope_of_fact(head: Sources, base: Sources, path: str, class_name: str, name: str) -> str:
    """`any`: the name is new to the whole tree; `class`: new to this class and its relatives; empty: no facts."""
    scope = "any" if not base.mentions(name) else ""
    if not scope and class_name and _new_to_class(head, base, path, class_name, name):
        scope = "class"
    by_name = re.compile(rb"setattr\([^\n]*[\"']" + name.encode() + rb"[\"']")
    return "" if scope and any(by_name.search(head.data(p)) for p in head.mentions(name)) else scope


def _new_to_class(head: Sources, base: Sources, path: str, class_name: str, name: str) -> bool:
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


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _above(sources: Sources, path: str, node: ast.ClassDef) -> set[str]:
    """Simple names of every class above, over all files; classes of the same name count as one."""
    found: set[str] = set()
    todo = [(path, node)]
    while todo:
        where, one = todo.pop()
        for name in (_original(sources, where, n) for n in map(_last, one.bases) if n):
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
        elif isinstance(node, ast.Assign) and _last(node.value) and name in map(_last, node.targets):
            return _last(node.value)
    return name


# Rounds ---------------------------------------------------------------------------------------------------------


def _reachable(world: World) -> Iterator[Store]:
    for path in world.modules:
        yield from stores(path, world.residual(path))


def _grow(
    world: World, facts: Facts, scopes: Mapping[tuple[str, str, str], str], dropped: set[tuple[str, ...]]
) -> bool:
    """Assume a constant for every attribute that some store sets to one. Whether anything was added."""
    added = False
    for store in _reachable(world):
        scope = scopes.get((store.path, store.class_name, store.name), "")
        if not scope or store.value is None or not is_constant(store.value):
            continue
        value = constant(value_of(store.value), store.value)
        key = (store.path, store.class_name, store.name)
        if scope == "any" and (store.name,) not in dropped and store.name not in facts.attributes:
            facts.attributes[store.name] = value
            added = True
        elif scope == "class" and key not in dropped and key not in facts.of_class:
            facts.of_class[key] = value
            added = True
    return added


def _shrink(world: World, facts: Facts, base: Sources, dropped: set[tuple[str, ...]]) -> bool:
    """Remove what a reachable store or call contradicts. Whether anything was removed."""
    removed = False

    def disagrees(fact: ast.expr, value: ast.expr | None) -> bool:
        return value is None or not is_constant(value) or ast.dump(value) != ast.dump(fact)

    for store in _reachable(world):
        fact = facts.attributes.get(store.name)
        if fact is not None and disagrees(fact, store.value):
            del facts.attributes[store.name]
            dropped.add((store.name,))
            removed = True
        for key in [
            k
            for k in facts.of_class
            if k[2] == store.name and (k[:2] == (store.path, store.class_name) or not store.class_name)
        ]:
            if disagrees(facts.of_class[key], store.value):
                del facts.of_class[key]
                dropped.add(key)
                removed = True
    for key in list(facts.parameters):
        if _passed(world, base, key, facts.parameters[key]):
            del facts.parameters[key]
            removed = True
    return removed


def stores(path: str, body: list[ast.stmt], class_name: str = "", self_name: str = "") -> Iterator[Store]:
    """Every store to an attribute in these statements, class bodies included."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _class_stores(path, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from stores(path, node.body, class_name, self_name)
        else:
            yield from _statement_stores(path, node, class_name, self_name)
            for field in ("body", "orelse", "finalbody"):
                yield from stores(path, getattr(node, field, []) or [], class_name, self_name)
            for inner in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield from stores(path, inner.body, class_name, self_name)


def _class_stores(path: str, node: ast.ClassDef) -> Iterator[Store]:
    for item in node.body:
        if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
            for target in item.targets if isinstance(item, ast.Assign) else [item.target]:
                if isinstance(target, ast.Name):
                    yield Store(path, node.name, target.id, item.value, item.lineno)
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [*item.args.posonlyargs, *item.args.args]
            yield from stores(path, item.body, node.name, positional[0].arg if positional else "")
        elif isinstance(item, ast.ClassDef):
            yield from _class_stores(path, item)


def _statement_stores(path: str, node: ast.stmt, class_name: str, self_name: str) -> Iterator[Store]:
    """Stores in one statement itself."""
    plain = isinstance(node, ast.Assign | ast.AnnAssign)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    blocks = {id(s) for f in ("body", "orelse", "finalbody") for s in getattr(node, f, []) or []}
    todo: list[ast.AST] = [node]
    direct = set(
        map(
            id,
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else [],
        )
    )
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del):
            own = isinstance(part.value, ast.Name) and part.value.id == self_name and bool(self_name)
            stored = value if plain and id(part) in direct else None
            if not (isinstance(node, ast.AnnAssign) and node.value is None):
                yield Store(path, class_name if own else "", part.attr, stored, part.lineno)
        todo += [c for c in parts(part) if id(c) not in blocks and not isinstance(c, ast.ExceptHandler)]


# Parameters -----------------------------------------------------------------------------------------------------


def functions_of(module: ast.Module | None) -> dict[str, FunctionNode]:
    """Qualified name → function, for the module's functions and its classes' methods (the last definition wins)."""
    found: dict[str, FunctionNode] = {}
    for node in module.body if module else []:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[f"{node.name}.{item.name}"] = item
    return found


def _new_parameters(
    head: Sources, base: Sources, files: Iterable[str]
) -> Iterator[tuple[tuple[str, str, str], ast.expr]]:
    """Parameters with a constant default that the head adds to functions of the base, behind all others."""
    for path in files:
        if path not in base:
            continue
        before = functions_of(base.parse(path).module)
        for qualified, node in functions_of(head.parse(path).module).items():
            old = before.get(qualified)
            if old is None:
                continue
            positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            kept = [a.arg for a in (*old.args.posonlyargs, *old.args.args)]
            if positional[: len(kept)] != kept or (old.args.vararg and positional != kept):
                continue
            new = [
                *positional[len(kept) :],
                *(a.arg for a in node.args.kwonlyargs if a.arg not in {k.arg for k in old.args.kwonlyargs}),
            ]
            for name in new:
                default = default_of(node.args, name)
                if default is not None and is_constant(default) and not (old.args.kwarg and base.mentions(name)):
                    yield (path, qualified, name), default


def _passed(world: World, base: Sources, key: tuple[str, str, str], default: ast.expr) -> bool:
    """Whether a reachable call in the changed files may hand this parameter something else than its default."""
    _, qualified, name = key
    old = functions_of(base.parse(key[0]).module)[qualified]
    limit = len(old.args.posonlyargs) + len(old.args.args) - (1 if "." in qualified else 0)
    called = called_as(qualified)
    for path in world.modules:
        for node in (n for s in world.residual(path) for n in walk(s)):
            if not isinstance(node, ast.Call):
                continue
            for keyword in node.keywords:
                if keyword.arg == name and (
                    not is_constant(keyword.value) or ast.dump(keyword.value) != ast.dump(default)
                ):
                    return True
            if _last(node.func) in called and len(node.args) > limit and not old.args.vararg:
                return True
    return False
