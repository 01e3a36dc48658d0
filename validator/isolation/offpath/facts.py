"""Facts about attributes and parameters with the switch off, as the largest set that no reachable store contradicts.

A fact `x.name is None` is assumed for every attribute that some store sets to a constant; `x.name` is an empty list or
dict, stays empty, or is another name for something that does not change, in the same way. The files are evaluated under
all assumptions; a reachable store of anything else, or a use that may fill what is empty, removes its assumption, and
the evaluation starts again. What is left holds by induction over the run: the first store that breaks a fact would be
reachable under the facts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from validator.isolation.offpath.aliases import alias_of
from validator.isolation.offpath.constants import constant, empty_display, is_constant, value_of
from validator.isolation.offpath.enums import member_of
from validator.isolation.offpath.idle import idle_in
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.notes import Idle
from validator.isolation.offpath.parameters import may_be_passed, new_parameters
from validator.isolation.offpath.scopes import bindings, walk_scope
from validator.isolation.offpath.stores import Store, stores
from validator.isolation.offpath.switch import OffForm
from validator.isolation.offpath.world import Facts, World
from validator.isolation.source import Sources
from validator.isolation.syntax import functions, nodes, walk

__all__ = ["solve"]

_ROUNDS = 8
_Scopes = Mapping[tuple[str, str, str], str]


def solve(
    names: Names,
    base: Sources,
    form: OffForm,
    modules: Mapping[str, ast.Module],
    fresh: frozenset[str],
    scopes: _Scopes,
) -> World:
    """A world for the head with the facts that hold in these files. `scopes`: see `freshness.fact_scopes`."""
    facts = Facts(
        of_module=dict(_shared_names(names, modules, fresh)),
        parameters=dict(new_parameters(names.sources, base, modules)),
        absent=_never_defined(
            {name for (_, _, name), scope in scopes.items() if scope == "any"}
            | _asked_for(names.sources, base, modules),
            modules,
        ),
    )
    search = _Search(names, base, form, modules, fresh, scopes, facts)
    for _ in range(_ROUNDS):
        if not search.grow(search.world()):
            break
    while search.shrink(world := search.world()):
        pass
    world.idle, world.surely_idle = idle_in(world, base), idle_in(world, base, sure=True)
    return world


def _own_names(scopes: _Scopes) -> set[str]:
    return {name for (_, _, name), scope in scopes.items() if scope == "any"}


def _asked_for(head: Sources, base: Sources, modules: Mapping[str, ast.Module]) -> set[str]:
    """Attributes that the files look for by name, and that no other shared file and nothing at the base names."""
    found: set[str] = set()
    for node in (call for module in modules.values() for call in nodes(module, ast.Call)):
        match node:
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]):
                if not _may_be_attribute(base, name) and all(
                    p in modules or not _may_be_attribute(head, name, p) for p in head.mentions(name)
                ):
                    found.add(name)
    return found


def _may_be_attribute(sources: Sources, name: str, path: str = "") -> bool:
    """Whether code can mean an attribute by the word, in one file or in all: prose may hold it."""
    word = re.escape(name).encode("utf-8", "surrogateescape")
    code = re.compile(
        rb"\.\s*" + word + rb"\b|[\"']" + word + rb"[\"']|\b(?:def|class|as|import)\s+" + word + rb"\b"
        rb"|\b" + word + rb"\s*[:=,)\]]"
    )
    return any(code.search(sources.data(p)) for p in ([path] if path else sources.mentions(name)))


def _shared_names(
    names: Names, modules: Mapping[str, ast.Module], fresh: frozenset[str]
) -> Iterator[tuple[tuple[str, str], ast.expr]]:
    """Names that only the head has, that a module binds to a constant and that some function may bind anew."""
    for path, module in modules.items():
        for name in {n for node in nodes(module, ast.Global) for n in node.names} & fresh:
            match names.bindings(path).get(name, []):
                case [ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value)] if is_constant(value):
                    yield (path, name), value


def _never_defined(attributes: set[str], modules: Mapping[str, ast.Module]) -> set[str]:
    """Those that no function or class of the files has as its name."""
    defined: set[str] = set()
    for module in modules.values():
        defined |= {n.name for n in [*nodes(module, ast.ClassDef), *functions(module)]}
    return attributes - defined


class _Search:
    """Assumes facts and drops those that do not hold."""

    def __init__(
        self,
        names: Names,
        base: Sources,
        form: OffForm,
        modules: Mapping[str, ast.Module],
        fresh: frozenset[str],
        scopes: _Scopes,
        facts: Facts,
    ) -> None:
        self.names = names
        self.base = base
        self.form = form
        self.modules = modules
        self.fresh = fresh
        self.scopes = scopes
        self.facts = facts
        self.dropped: set[tuple[str, ...]] = set()

    def world(self) -> World:
        """One in which the facts of the moment hold."""
        return World(self.names, self.form, self.facts, self.fresh, self.modules)

    def _reachable(self, world: World, idle: Idle) -> Iterator[Store]:
        for path in world.modules:
            yield from (s for s in stores(path, world.residual(path)) if not idle.covers(path, s.line))

    def grow(self, world: World) -> bool:
        """Assume what some store says of every attribute. Whether anything was added."""
        facts, added = self.facts, False
        for store in self._reachable(world, idle_in(world, self.base, sure=True)):
            key = (store.path, store.class_name, store.name)
            scope = self.scopes.get(key, "")
            value = self._assumed(world, store) if scope else None
            if value is None or key in self.dropped or (store.name,) in self.dropped:
                continue
            if scope == "any" and (is_constant(value) or empty_display(value) is not None):
                added |= store.name not in facts.attributes
                facts.attributes.setdefault(store.name, value)
            else:
                added |= key not in facts.of_class
                facts.of_class.setdefault(key, value)
        return added

    def _assumed(self, world: World, store: Store) -> ast.expr | None:
        """What reads of the attribute may be taken for, going by this store; None: nothing."""
        if store.value is None:
            return None
        if is_constant(store.value):
            return constant(value_of(store.value), store.value)
        empty = empty_display(store.value)
        if empty is not None:
            hidden = any(self.names.binds(store.path, kind) for kind in ("dict", "list", "set", "frozenset"))
            used = self.scopes.get((store.path, store.class_name, store.name)) == "set"
            return None if hidden or used else empty
        if store.class_name and member_of(self.names, store.path, store.value) is not None:
            return store.value
        return alias_of(world, store)

    def shrink(self, world: World) -> bool:
        """Remove what a reachable store, use or call contradicts. Whether anything was removed."""
        facts, before = self.facts, len(self.dropped)
        idle = idle_in(world, self.base, sure=True)
        for store in self._reachable(world, idle):
            fact = facts.attributes.get(store.name)
            if fact is not None and self._disagrees(world, store, fact):
                self._drop(facts.attributes, store.name, (store.name,))
            for key in [k for k in facts.of_class if k[2] == store.name]:
                if (key[:2] == (store.path, store.class_name) or not store.class_name) and self._disagrees(
                    world, store, facts.of_class[key]
                ):
                    self._drop(facts.of_class, key, key)
            if store.name in facts.absent:
                facts.absent.discard(store.name)
                self.dropped.add(("absent", store.name))
        for name in self._uses(world, idle):
            if name in facts.attributes and empty_display(facts.attributes[name]) is not None:
                self._drop(facts.attributes, name, (name,))
            for key in [k for k, v in facts.of_class.items() if k[2] == name and empty_display(v) is not None]:
                self._drop(facts.of_class, key, key)
        for path, name in self._bound_anew(world, idle):
            if facts.of_module.pop((path, name), None) is not None:
                self.dropped.add(("module", path, name))
        for parameter in list(facts.parameters):
            if may_be_passed(world, idle, self.base, parameter, facts.parameters[parameter]):
                self._drop(facts.parameters, parameter, parameter)
        return len(self.dropped) > before

    def _bound_anew(self, world: World, idle: Idle) -> Iterator[tuple[str, str]]:
        """(path, name) of what is left of stores to names of the module, in functions that say `global`."""
        for path in world.modules:
            for function in functions(ast.Module(world.residual(path), [])):
                shared = {n for g in walk_scope(function.body) if isinstance(g, ast.Global) for n in g.names}
                for name, node in bindings(function.body) if shared else ():
                    if name in shared and not idle.covers(path, getattr(node, "lineno", 0)):
                        yield path, name

    def _drop(self, facts: dict[Any, ast.expr], key: Any, what: tuple[str, ...]) -> None:
        del facts[key]
        self.dropped.add(what)

    def _disagrees(self, world: World, store: Store, fact: ast.expr) -> bool:
        value = self._assumed(world, store)
        return value is None or ast.dump(value) != ast.dump(fact)

    def _uses(self, world: World, idle: Idle) -> Iterator[str]:
        """Attributes that are left to be read: what is empty may be filled, or handed to somebody who fills it."""
        for path in world.modules:
            attributes = (n for s in world.residual(path) for n in walk(s) if isinstance(n, ast.Attribute))
            read = (n for n in attributes if not isinstance(n.ctx, ast.Store))
            yield from (n.attr for n in read if not idle.covers(path, n.lineno))
