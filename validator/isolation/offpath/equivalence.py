"""Off-path equivalence: with the switch off, each changed shared file does what it did before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from validator.isolation.offpath.causes import Cause, causes
from validator.isolation.offpath.compare import Difference, Kind, Residue, compare
from validator.isolation.offpath.computed_stores import ComputedStores
from validator.isolation.offpath.constants import value_of
from validator.isolation.offpath.facts import solve
from validator.isolation.offpath.freshness import fact_scopes
from validator.isolation.offpath.harmless import Harmless
from validator.isolation.offpath.kinds import Class, Kinds
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.normalise import normalise
from validator.isolation.offpath.place import place_at
from validator.isolation.offpath.prune import prune
from validator.isolation.offpath.raising import Raising
from validator.isolation.offpath.rewritten import Side, rewritten
from validator.isolation.offpath.scopes import annotations_of, functions_of
from validator.isolation.offpath.stores import stores
from validator.isolation.offpath.switch import Off, OffForm, SwitchSpec
from validator.isolation.offpath.unbound import newly_unbound, unbound_reads
from validator.isolation.offpath.world import World
from validator.isolation.source import Sources, compile_problem
from validator.isolation.syntax import parts, walk

__all__ = ["Fact", "FileProof", "Shown", "prove"]


_MAX_NODES = 30_000
"""Of the syntax of what is not word for word the same on both sides: some 6,000 lines."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A difference with both texts, and the ways of being off under which it remains."""

    difference: Difference
    base_text: str
    head_text: str
    ways: tuple[Off, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """What the proof uses about an attribute or parameter."""

    text: str
    rests_on: str


@dataclass(frozen=True, slots=True)
class FileProof:
    """The outcome for one changed file."""

    path: str
    ways: tuple[Off, ...]
    differences: tuple[Shown, ...] = ()
    """Empty and no `problem`: proven."""
    residue: tuple[Residue, ...] = ()
    facts: tuple[Fact, ...] = ()
    problem: str = ""
    """Why it could not be evaluated."""
    line: int | None = None
    reads_switch: bool = False
    reached: frozenset[int] = frozenset()
    """Lines of what runs with the switch off and is not in a function that only the head has."""
    causes: tuple[Cause, ...] = ()
    """Where a function of this file lets something through; looked for only where differences are left."""


def prove(base: Sources, head: Sources, switch: SwitchSpec, files: Sequence[tuple[str, str]]) -> tuple[FileProof, ...]:
    """Settle each pair (path at base, path at head) of changed files outside the isolated paths."""
    readable = [(b, h) for b, h in files if base.parse(b).module is not None and head.parse(h).module is not None]
    forms = [
        f for f in switch.forms() if f.way is not Off.CONTAINER_ABSENT or _container_may_be_absent(base, head, switch)
    ]
    found: dict[str, list[tuple[OffForm, Sequence[Residue | Difference], World]]] = {h: [] for _, h in files}
    problems: dict[str, str] = {}
    assumed: dict[str, dict[str, None]] = {h: {} for _, h in files}
    fresh = frozenset(n for b, h in readable for n in head.words(h).bound - base.words(b).bound)
    pruned = {h: prune(base.parse(b), head.parse(h)) for b, h in readable}
    large = {h for h, pair in pruned.items() if any(sum(1 for _ in walk(m)) > _MAX_NODES for m in pair)}
    problems |= dict.fromkeys(large, f"differs in more code than is evaluated ({_MAX_NODES:,} nodes)")
    readable = [(b, h) for b, h in readable if h not in large]
    before = {b: pruned[h][0] for b, h in readable}
    after = {h: pruned[h][1] for _, h in readable}
    scopes = fact_scopes(head, base, after)
    missing = {h: newly_unbound(base.parse(b), head.parse(h)) for b, h in readable}
    base_names, head_names = Names(base), Names(head)
    for form in forms:
        try:
            head_world = solve(head_names, base, form, after, fresh, scopes)
            base_world = World(base_names, form, modules=before)
        except RecursionError:
            problems |= {h: "is nested too deeply to be evaluated" for _, h in readable}
            continue
        read = _attributes_read(head_world, [h for _, h in readable])
        for old, new in readable:
            try:
                kinds = Kinds(head_world)
                items = _items(base_world, head_world, old, new, read, Raising(kinds))
                live = [n for n in missing[new] if not head_world.idle.covers(new, n.lineno)]
                items += unbound_reads(live, new, head_world.names_read)
            except RecursionError:
                problems[new] = "is nested too deeply to be evaluated"
                continue
            found[new].append((form, items, head_world))
            assumed[new] |= dict.fromkeys(sorted(kinds.assumed))
    proofs = tuple(
        _file_proof(base, head, old, new, found[new], problems.get(new, ""), forms, assumed[new]) for old, new in files
    )
    if not any(not s.difference.undecided for p in proofs for s in p.differences):
        return proofs
    worlds = {id(w): w for results in found.values() for _, _, w in results}
    blamed = tuple(dict.fromkeys(c for w in worlds.values() for c in causes(w, base, after)))
    return tuple(replace(p, causes=tuple(c for c in blamed if c.path == p.path)) for p in proofs)


def _attributes_read(world: World, paths: Iterable[str]) -> frozenset[str]:
    """Attributes that are left to be read."""
    reads = ((p, n) for p in paths for s in world.residual(p) for n in walk(s) if isinstance(n, ast.Attribute))
    return frozenset(
        n.attr for p, n in reads if isinstance(n.ctx, ast.Load) and not world.surely_idle.covers(p, n.lineno)
    )


def _items(
    base: World, head: World, old: str, new: str, read: frozenset[str], raises: Raising
) -> list[Residue | Difference]:
    left = normalise(base, old, base.residual(old))
    right, same = rewritten(
        Side(base.names, old, left), Side(head.names, new, normalise(head, new, head.residual(new)))
    )
    raising = _may_raise(base, head, old, new, raises)
    annotations = _annotations(base, head, old, new, raises)
    known = {text for _, _, text in base.idle_decorators}
    same += (
        Residue(Kind.REWRITTEN, f"the decorator `{text}` hands back what it gets, or hands every call on", line)
        for path, line, text in sorted(head.idle_decorators)
        if path == new and text not in known
    )
    differences = compare(left, right, Harmless(old, new, base, head, read, raises))
    return [*same, *differences, *raising, *annotations, *_set_by_computed_names(head, new, raises)]


def _set_by_computed_names(head: World, path: str, raises: Raising) -> Iterator[Difference]:
    """Attributes that the proof takes for what a store says, and that other code of the class may set by the way."""
    computed = ComputedStores(raises.kinds)
    known = {name for _, _, name in head.facts.of_class} | set(head.facts.attributes)
    told: set[tuple[str, str]] = set()
    for store in stores(path, head.residual(path)):
        if store.name not in known & head.facts_used or (store.class_name, store.name) in told:
            continue
        owner = raises.kinds.bound(path, store.class_name) if store.class_name else None
        found = computed.on(owner, store.name) if isinstance(owner, Class) else None
        if found is not None:
            told.add((store.class_name, store.name))
            where, line, text = found
            what = (
                f"`{store.class_name}.{store.name}` holds what is stored here unless `{text}` sets it to something else"
            )
            yield Difference(0, 0, store.line, store.line, store.class_name, what, f"{where}:{line}", undecided=True)


def _annotations(base: World, head: World, old: str, new: str, raises: Raising) -> Iterator[Difference]:
    """Annotations that only the head has, and that are evaluated with the definitions they stand in."""
    body = head.residual(new)
    if any(isinstance(s, ast.ImportFrom) and s.module == "__future__" for s in body):
        return
    known = {ast.dump(a) for a in annotations_of([*base.residual(old), *base.overloads.get(old, ())])}
    for node in (*annotations_of([*body, *head.overloads.get(new, ())]), *head.arguments.left_out(new)):
        if ast.dump(node) in known:
            continue
        place = place_at(head.sources, new, node.lineno, inside=False)
        part = raises.annotation(node, place)
        if part is not None:
            end = part.end_lineno or part.lineno
            what = raises.sentence(part, new, new)
            yield Difference(0, 0, part.lineno, end, place.qualified, what, undecided=True, raises=True)


def _may_raise(base: World, head: World, old: str, new: str, raises: Raising) -> Iterator[Difference]:
    """What is evaluated at the head alone, has no effect, and may be an error."""
    idle = head.idle
    notes = [n for n in head.notes if n.file == new and not idle.covers(new, n.root)]
    for note, part in raises.problems(notes, [note for note in base.notes if note.file == old]):
        what = raises.sentence(part, note.place.path, new)
        line = part.lineno if note.place.path == new else 1
        end = part.end_lineno or line if note.place.path == new else 0
        yield Difference(0, 0, line, end, note.place.qualified, what, undecided=True, raises=True)


def _file_proof(
    base: Sources,
    head: Sources,
    old: str,
    new: str,
    found: Sequence[tuple[OffForm, Sequence[Residue | Difference], World]],
    problem: str,
    forms: Sequence[OffForm],
    assumed: Iterable[str],
) -> FileProof:
    ways = tuple(f.way for f in forms)
    for sources, path, side in ((base, old, "base"), (head, new, "head")):
        source = sources.parse(path)
        if source.module is None:
            return FileProof(new, ways, problem=f"{source.problem} (at the {side})", line=source.line)
    refused = compile_problem(head.parse(new))
    if refused and compile_problem(base.parse(old)) is None:
        return FileProof(new, ways, problem=refused[0], line=refused[1])
    if problem or not found:
        return FileProof(new, ways, problem=problem or "was not evaluated")
    differences: dict[Difference, list[Off]] = {}
    residue: dict[Residue, None] = {}
    facts: dict[Fact, None] = dict.fromkeys(Fact(text, "nothing checks it when the code runs") for text in assumed)
    for form, items, world in found:
        for item in items:
            if isinstance(item, Residue):
                residue[item] = None
            else:
                differences.setdefault(item, []).append(form.way)
        facts |= dict.fromkeys(_facts(world, new))
    before, after = base.parse(old), head.parse(new)
    shown = [
        Shown(
            d,
            before.text(d.base_line, d.base_end) if d.base_line else "",
            after.text(d.head_line, d.head_end) if d.head_end >= d.head_line else "",
            tuple(off),
        )
        for d, off in differences.items()
    ]
    shown.sort(key=lambda s: (s.difference.undecided, s.difference.line))
    reads = any(world.seen_switch for _, _, world in found)
    return FileProof(
        new,
        ways,
        tuple(shown),
        tuple(residue),
        tuple(facts),
        reads_switch=reads,
        reached=_reached(base, old, new, found),
    )


def _reached(
    base: Sources, old: str, new: str, found: Sequence[tuple[OffForm, Sequence[Residue | Difference], World]]
) -> frozenset[int]:
    known = {*functions_of(base.parse(old).module)}
    functions = (item for _, _, world in found for item in functions_of(_module(world.residual(new))).items())
    fresh = {id(function) for name, function in functions if name not in known}

    def lines(node: ast.AST) -> Iterator[int]:
        if id(node) not in fresh:
            yield from [node.lineno] if hasattr(node, "lineno") else []
            for part in parts(node):
                yield from lines(part)

    return frozenset(line for _, _, world in found for statement in world.residual(new) for line in lines(statement))


def _module(body: list[ast.stmt]) -> ast.Module:
    return ast.Module(body=body, type_ignores=[])


def _facts(world: World, path: str) -> Iterable[Fact]:
    used = world.sources.words(path).attributes
    for name, value in sorted(world.facts.attributes.items()):
        if name in used:
            yield Fact(
                f"`.{name}` is {value_of(value)!r}",
                "the name occurs nowhere in the base, and every store that can run sets it so",
            )
    for (where, owner, name), value in sorted(world.facts.of_class.items()):
        if where == path:
            yield Fact(
                f"`{owner}.{name}` is {value_of(value)!r}",
                "no base code uses it on this class, and every store that can run sets it so",
            )
    for (where, name), value in sorted(world.facts.of_module.items()):
        if where == path:
            yield Fact(f"`{name}` is {value_of(value)!r}", "every store that can run with the switch off sets it so")
    for (where, function, name), value in sorted(world.facts.parameters.items()):
        if where == path:
            yield Fact(
                f"`{name}` of `{function}` is {value_of(value)!r}",
                "it is its default, and no call that can run passes anything else",
            )


def _container_may_be_absent(base: Sources, head: Sources, switch: SwitchSpec) -> bool:
    """Whether any code says that the container of the switch may be `None` or missing."""
    if not switch.container:
        return False
    name = re.escape(switch.container)
    pattern = re.compile(
        rf"\b{name}\b(?:\s*:[^=\n]*)?\s*=\s*None\b|\b{name}\s+is\s+(?:not\s+)?None\b|\b{name}\s+or\b|\b{name}\s+and\b"
        rf"|if\s+(?:not\s+)?[\w.]*\b{name}\s*[:)]|[\"']{name}[\"']|\b{name}\s*:\s*[^=\n]*(?:None|Optional)".encode()
    )
    return any(pattern.search(s.data(p)) for s in (base, head) for p in s.mentions(switch.container))
