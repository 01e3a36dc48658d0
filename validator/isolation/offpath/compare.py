"""What differs between two canonical modules: the smallest pairs of places, and what is harmless."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import groupby
from typing import Protocol

from validator.isolation.offpath.nodes import inert, origin_of, ranks
from validator.isolation.offpath.scopes import bound_names
from validator.isolation.syntax import unparse

__all__ = ["Context", "Difference", "Kind", "Residue", "added", "compare", "is_standard"]


class Kind(StrEnum):
    """What remains different and changes nothing that runs with the switch off."""

    MODULE_LOADED = "module-loaded"
    ATTRIBUTE_STORE = "attribute-store"
    NEW_DEFINITION = "new-definition"
    NEW_NAME = "new-name"
    NEW_FIELD = "new-field"
    NEW_PARAMETER = "new-parameter"
    ANNOTATION = "annotation"
    MOVED = "moved"
    EXTRA_READ = "extra-read"
    REWRITTEN = "rewritten"


@dataclass(frozen=True, slots=True)
class Residue:
    """One harmless thing that remains."""

    kind: Kind
    what: str
    """A sentence."""
    line: int
    """1-based, at the head."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the two do not agree. Lines are 1-based and 0 where that side has nothing."""

    base_line: int
    base_end: int
    head_line: int
    head_end: int
    inside: str
    """`Class.method` or `function`; empty at module level."""
    reason: str = ""
    """Why it is not harmless, where that was looked at."""
    lookup: str = ""
    """`path:line` of the code that finds it by name: only a person can tell whether it does."""
    undecided: bool = False
    """Rests on facts that the source text does not hold: unproven, not refuted."""
    raises: bool = False
    """Of these: nothing shows that evaluating it raises no error."""

    @property
    def line(self) -> int:
        """Where to point at the head."""
        return self.head_line


@dataclass(frozen=True, slots=True)
class Context:
    """Where statements stand."""

    kind: str
    """`module`, `class` or `function`."""
    inside: str = ""
    owner: ast.ClassDef | None = None
    """The class as the head has it."""
    decorated: bool = False
    """Whether a decorator may look at the function."""

    def enter(self, kind: str, name: str, owner: ast.ClassDef | None = None, *, decorated: bool = False) -> Context:
        """The context of a definition inside this one."""
        return Context(kind, f"{self.inside}.{name}" if self.inside else name, owner, decorated)


Item = Residue | Difference


class Judge(Protocol):
    """Knows the trees that the statements stand in."""

    def __call__(self, node: ast.stmt, at: Context) -> Sequence[Item]:
        """What a statement that only the head has amounts to. Empty: it is a difference like any other."""

    def reordered(self, node: ast.stmt, passed: Sequence[ast.stmt], at: Context) -> Sequence[Difference]:
        """What it amounts to that an import stands on the other side of these imports."""

    def removed(self, node: ast.stmt, at: Context) -> Residue | None:
        """What a statement that only the base has amounts to; None: it is a difference."""

    def mixed_in(self, base: ast.expr, at: Context) -> Sequence[Item] | None:
        """What a class above amounts to that only the head has; None: it is a difference."""


def added(node: ast.stmt, at: Context, reason: str, lookup: str = "", *, undecided: bool = False) -> Difference:
    """A difference at a statement that only the head has."""
    return Difference(0, 0, node.lineno, node.end_lineno or node.lineno, at.inside, reason, lookup, undecided)


def compare(base: list[ast.stmt], head: list[ast.stmt], judge: Judge) -> list[Item]:
    """Every difference and residue, by line at the head."""
    items = list(dict.fromkeys(_Comparison(judge).blocks(base, head, Context("module"), 1)))
    return sorted(items, key=lambda i: (i.line, isinstance(i, Difference)))


def dump(node: ast.AST) -> str:
    """Text that is equal for equal code, whatever its place."""
    return ast.dump(node)


def _span(nodes: Sequence[ast.AST]) -> tuple[int, int]:
    lines: list[int] = [n.lineno for n in nodes if hasattr(n, "lineno")]
    ends: list[int] = [getattr(n, "end_lineno", None) or n.lineno for n in nodes if hasattr(n, "lineno")]
    return (min(lines), max(ends)) if lines else (0, 0)


class _Comparison:
    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    # Statements ------------------------------------------------------------------------------------------------

    def blocks(self, base: list[ast.stmt], head: list[ast.stmt], at: Context, near: int) -> Iterator[Item]:
        """Two lists of statements. `near`: a line at the head to point at when the head has nothing."""
        a, b = [dump(s) for s in base], [dump(s) for s in head]
        if a == b:
            return
        ranked = [set(zip(texts, ranks(body), strict=True)) for texts, body in ((a, base), (b, head))]
        moved = {text for text, _ in ranked[0] & ranked[1]}
        moved |= {dump(s) for s in base if is_standard(s)} & set(b)
        moved -= {dump(s) for s in _rebinding(base) + _rebinding(head)}
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            here = _span(head[j1 : j1 + 1])[0] or _span(head[j1 - 1 : j1])[1] or near
            olds = [s for s, d in zip(base[i1:i2], a[i1:i2], strict=True) if not (_movable(s, at) and d in moved)]
            news = [s for s, d in zip(head[j1:j2], b[j1:j2], strict=True) if not (_movable(s, at) and d in moved)]
            for statement, text in zip(head[j1:j2], b[j1:j2], strict=True):
                if _movable(statement, at) and text in moved:
                    passed = _passed(text, a, b)
                    others = [s for s, d in zip(head, b, strict=True) if d in passed and _is_import(s)]
                    yield from self.judge.reordered(statement, others, at) if _is_import(statement) else ()
                    yield Residue(
                        Kind.MOVED, f"`{unparse(statement).splitlines()[0]}` stands elsewhere", statement.lineno
                    )
            yield from self._pairs(olds, news, at, here)

    def _pairs(self, base: list[ast.stmt], head: list[ast.stmt], at: Context, near: int) -> Iterator[Item]:
        """Pair statements that are versions of each other; what is left over was removed or added."""
        keys_a, keys_b = [_key(s) for s in base], [_key(s) for s in head]
        if head and all(map(origin_of, head)) and not {k for k in keys_a if len(k) > 1} & set(keys_b):
            yield from self._left_over(base, head, at, near)
            return
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_opcodes():
            if tag == "equal" or (tag == "replace" and _alike(base[i1:i2], head[j1:j2])):
                for old, new in zip(base[i1:i2], head[j1:j2], strict=True):
                    yield from self.nodes(old, new, at, new.lineno)
            else:
                yield from self._left_over(base[i1:i2], head[j1:j2], at, near)

    def _left_over(self, base: list[ast.stmt], head: list[ast.stmt], at: Context, near: int) -> Iterator[Item]:
        """Statements without a counterpart, the branches of decided conditions one by one."""
        for origin, run in groupby(head, key=origin_of):
            added = list(run)
            unexplained: list[ast.stmt] = []
            for statement in added:
                verdict = self.judge(statement, at)
                yield from verdict
                unexplained += [] if verdict else [statement]
            if unexplained:
                found = self._difference(base, unexplained, at, near)
                # The whole branch of a condition is new: the condition is to blame.
                whole = origin is not None and origin[1] == len(added)
                yield replace(found, head_line=origin[0]) if origin and whole else found
                base = []
        gone = []
        for statement in base:
            harmless = self.judge.removed(statement, at)
            if harmless is None:
                gone.append(statement)
            else:
                yield replace(harmless, line=near)
        if gone:
            yield self._difference(gone, [], at, near)

    def _difference(self, base: Sequence[ast.AST], head: Sequence[ast.AST], at: Context, near: int) -> Difference:
        base_span, head_span = _span(base), _span(head)
        line = head_span[0] or near
        return Difference(*base_span, line, head_span[1] or line - 1, at.inside)

    # Nodes -----------------------------------------------------------------------------------------------------

    def nodes(self, base: ast.AST, head: ast.AST, at: Context, near: int) -> Iterator[Item]:
        """Two nodes that stand for each other."""
        near = getattr(head, "lineno", near)
        if dump(base) == dump(head):
            return
        if type(base) is not type(head):
            yield self._difference([base], [head], at, near)
            return
        if isinstance(base, ast.Dict) and isinstance(head, ast.Dict):
            yield from self._dicts(base, head, at, near)
            return
        inner = at
        if isinstance(head, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = at.enter("function", head.name, decorated=not all(map(_blind, head.decorator_list)))
        elif isinstance(head, ast.ClassDef):
            inner = at.enter("class", head.name, head)
        for name, old in ast.iter_fields(base):
            yield from self._field(name, old, getattr(head, name), (base, head), inner, near)

    def _field(
        self, name: str, old: object, new: object, parents: tuple[ast.AST, ast.AST], at: Context, near: int
    ) -> Iterator[Item]:
        base, head = parents
        if name in ("annotation", "returns") and self._annotation_is_inert(head, at):
            if (old and dump(old)) != (new and dump(new)):  # type: ignore[arg-type]
                yield Residue(Kind.ANNOTATION, f"the annotation in `{at.inside or 'module'}` differs", near)
        elif isinstance(old, ast.AST) and isinstance(new, ast.AST):
            yield from self.nodes(old, new, at, near)
        elif isinstance(old, list) and isinstance(new, list):
            if name == "bases":
                known = [dump(b) for b in old]
                more = [self.judge.mixed_in(b, at) for b in new if dump(b) not in known]
                if known == [dump(b) for b in new if dump(b) in known] and all(found is not None for found in more):
                    yield from (item for found in more for item in found or ())
                    return
            if any(isinstance(x, ast.stmt) for x in [*old, *new]):
                yield from self.blocks(old, new, at, near)
            else:
                yield from self._lists(old, new, parents, at, near)
        elif old != new or type(old) is not type(new):
            yield self._difference([base], [head], at, near)

    def _annotation_is_inert(self, head: ast.AST, at: Context) -> bool:
        """Annotations of functions are evaluated, not obeyed, unless a decorator or a class's machinery reads them."""
        return isinstance(head, ast.arg | ast.FunctionDef | ast.AsyncFunctionDef) and not at.decorated

    def _lists(
        self, old: list[object], new: list[object], parents: tuple[ast.AST, ast.AST], at: Context, near: int
    ) -> Iterator[Item]:
        a = [dump(x) if isinstance(x, ast.AST) else repr(x) for x in old]
        b = [dump(x) if isinstance(x, ast.AST) else repr(x) for x in new]
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            if i2 - i1 == j2 - j1:
                for x, y in zip(old[i1:i2], new[j1:j2], strict=True):
                    if isinstance(x, ast.AST) and isinstance(y, ast.AST):
                        yield from self.nodes(x, y, at, near)
                    else:
                        yield self._difference([parents[0]], [parents[1]], at, near)
                continue
            olds = [x for x in old[i1:i2] if isinstance(x, ast.AST)]
            news = [x for x in new[j1:j2] if isinstance(x, ast.AST)]
            if not _span(olds)[0] and not _span(news)[0]:
                yield self._difference([parents[0]], [parents[1]], at, near)
            else:
                yield self._difference(olds, news, at, near)

    def _dicts(self, base: ast.Dict, head: ast.Dict, at: Context, near: int) -> Iterator[Item]:
        """Displays of a dictionary: entries are paired by key, a new entry is judged like a statement."""
        old = {dump(k) if k else "**": (k, v) for k, v in zip(base.keys, base.values, strict=True)}
        new = {dump(k) if k else "**": (k, v) for k, v in zip(head.keys, head.values, strict=True)}
        kept = [k for k in new if k in old]
        if len(old) != len(base.keys) or len(new) != len(head.keys) or kept != [k for k in old if k in new]:
            yield self._difference([base], [head], at, near)
            return
        for key in kept:
            yield from self.nodes(old[key][1], new[key][1], at, near)
        gone = [v for k, v in old.items() if k not in new]
        if gone:
            yield self._difference([k or v for k, v in gone], [], at, near)
        for key, (name, value) in new.items():
            if key not in old:
                place = name or value
                entry = ast.copy_location(ast.Expr(value=ast.Dict(keys=[name], values=[value])), place)
                verdict = self.judge(entry, at)
                yield from verdict or [self._difference([], [place], at, near)]


def _rebinding(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements whose place matters: they bind a name that another one binds, or a star may."""
    names = [set(bound_names([s])) for s in body]
    counted = Counter(name for found in names for name in found)
    starred = counted["*"] > 0
    return [s for s, found in zip(body, names, strict=True) if starred or any(counted[n] > 1 for n in found)]


def is_standard(node: ast.stmt) -> bool:
    """An import from the standard library: nothing depends on when it runs."""
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
    return bool(names) and all(n.split(".")[0] in sys.stdlib_module_names for n in names)


def _blind(decorator: ast.expr) -> bool:
    """Whether the decorator never looks at annotations."""
    return isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod", "property")


def _movable(node: ast.stmt, at: Context) -> bool:
    """An import or a definition whose place does not matter: nothing runs when it is made."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return at.kind in ("module", "class") and inert(node)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _passed(text: str, base: list[str], head: list[str]) -> set[str]:
    """What stands before it on one side and behind it on the other."""
    before = [set(side[: side.index(text)]) for side in (base, head)]
    return (before[0] ^ before[1]) & set(base) & set(head)


def _key(node: ast.stmt) -> tuple[str, ...]:
    """Equal for two versions of the same statement."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return "def", name
        case ast.ClassDef(name=name):
            return "class", name
        case ast.Assign(targets=targets):
            return "store", *map(dump, targets)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return "store", dump(target)
        case ast.If(test=test) | ast.While(test=test):
            return type(node).__name__, dump(test)
        case ast.For(target=target, iter=iterated):
            return "for", dump(target), dump(iterated)
        case ast.ImportFrom() | ast.Import():
            return "import", dump(node)
        case ast.Expr(value=ast.Call(func=function)):
            return "call", dump(function)
    return (type(node).__name__,)


def _alike(base: list[ast.stmt], head: list[ast.stmt]) -> bool:
    """Whether the statements can be paired in order: as many, of the same types, none a definition."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return len(base) == len(head) and all(
        type(a) is type(b) and not isinstance(a, definitions) for a, b in zip(base, head, strict=True)
    )
