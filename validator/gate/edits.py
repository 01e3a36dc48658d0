"""How an edit of a Python test file changes the tests that were there, seen in the syntax tree.

The question is not whether the new tests are good, only whether the old ones still run as they did: every old
statement is still there unchanged, and nothing that was added runs around them or takes one of their names.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from validator.text import shorten

__all__ = ["Edit", "compare_tests", "first_line", "imported", "parse"]

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_AROUND = ("setup", "teardown", "setUp", "tearDown", "pytest_", "load_tests", "__", "runTest", "asyncSetUp")
"""Functions of these names run around tests that do not name them."""
_STEERING = frozenset({"pytestmark", "collect_ignore", "collect_ignore_glob", "pytest_plugins", "__test__"})
_SKIPS = frozenset({"skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure", "importorskip", "SkipTest"})
_REACHES_OUT = frozenset({"setattr", "delattr", "exec", "eval", "__import__", "patch", "MonkeyPatch", "monkeypatch"})
_TOLERANCES = frozenset({"atol", "rtol", "tol", "eps", "abs", "rel", "delta", "max_ulp", "maxulp", "threshold"})


@dataclass(frozen=True, slots=True)
class Edit:
    """One way in which the old tests are not what they were."""

    what: str
    """`test_decode has 1 assertion, had 3`."""
    line: int | None
    """1-based, in the new text; None when what is meant is gone."""


def compare_tests(old: bytes, new: bytes) -> tuple[Edit, ...] | None:
    """Edits that touch tests of the old text; empty when it only adds. None when either text cannot be parsed."""
    before, after = parse(old), parse(new)
    if before is None or after is None:
        return None
    try:
        return tuple(_bodies(before.body, after.body, "", _used(before)))
    except RecursionError:
        return None


def parse(text: bytes) -> ast.Module | None:
    """The syntax tree; None when there is none, for whatever reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True, slots=True)
class _Used:
    """What the old text relies on."""

    names: frozenset[str]
    """Every name that it binds, reads, imports, or asks for as an argument (fixtures)."""
    attributes: frozenset[str]
    """Every attribute it reads: what a new member of a class could take over."""

    def taken(self, prefix: str) -> frozenset[str]:
        """Names that a new statement must leave alone, at the top level or inside a class."""
        return self.attributes if prefix else self.names


def _used(tree: ast.Module) -> _Used:
    names: set[str] = set()
    attributes: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names.update(imported(node))
            case ast.Attribute(attr=name):
                attributes.add(name)
    return _Used(frozenset(names), frozenset(attributes))


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Names that an import binds."""
    for alias in node.names:
        yield alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)


def _bodies(old: Sequence[ast.stmt], new: Sequence[ast.stmt], prefix: str, used: _Used) -> Iterator[Edit]:
    """Compares two bodies: definitions by name, everything else in order."""
    definitions = {node.name: node for node in new if isinstance(node, _Definition)}
    counts = Counter(node.name for node in new if isinstance(node, _Definition))
    before = {node.name: node for node in old if isinstance(node, _Definition)}
    before_counts = Counter(node.name for node in old if isinstance(node, _Definition))
    for plain, node in before.items():
        name = f"{prefix}{plain}"
        other = definitions.get(plain)
        if other is None:
            yield Edit(f"{name} is gone", None)
        elif counts[plain] > before_counts[plain]:
            yield Edit(f"{name} is defined again, which replaces it", other.lineno)
        else:
            yield from _definition(node, other, name, used)
    yield from _loose(old, new, prefix, used)
    for name, added in definitions.items():
        if name not in before:
            yield from _added(added, prefix, used)


def _loose(old: Sequence[ast.stmt], new: Sequence[ast.stmt], prefix: str, used: _Used) -> Iterator[Edit]:
    """Statements that are not definitions: the old ones in order, and what was put between them."""
    rest = [node for node in new if not isinstance(node, _Definition)]
    dumps = [ast.dump(node) for node in rest]
    places: dict[str, list[int]] = {}
    for number, dump in enumerate(dumps):
        places.setdefault(dump, []).append(number)
    known: set[str] = set()
    kept: set[int] = set()
    at = 0
    for node in (n for n in old if not isinstance(n, _Definition)):
        dump = ast.dump(node)
        known.add(dump)
        later = places.get(dump, [])
        found = bisect_left(later, at)
        if found == len(later):
            yield Edit(f"changed or gone: {prefix}{first_line(node)}", None)
            continue
        at = later[found] + 1
        kept.add(later[found])
    for number, node in enumerate(rest):
        if number not in kept and dumps[number] not in known:
            yield from _added(node, prefix, used)


def _definition(old: _Definition, new: _Definition, name: str, used: _Used) -> Iterator[Edit]:
    if ast.dump(old) == ast.dump(new):
        return
    if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
        if _header(old) != _header(new):
            yield Edit(f"{name}: {_difference(old.decorator_list, new.decorator_list)}", new.lineno)
        yield from _bodies(old.body, new.body, f"{name}.", used)
        return
    yield Edit(f"{name} {_weaker(old, new) or 'is changed'}", new.lineno)


def _header(node: ast.ClassDef) -> list[str]:
    return [ast.dump(part) for part in (*node.decorator_list, *node.bases, *node.keywords)]


def _difference(old: Iterable[ast.expr], new: Iterable[ast.expr]) -> str:
    skips = sum(map(_skips, new)) - sum(map(_skips, old))
    return "is skipped or expected to fail now" if skips > 0 else "its bases or decorators are changed"


def _weaker(old: ast.AST, new: ast.AST) -> str:
    """The plainest way in which a test is weaker now; empty when none is plain."""
    if _skips(new) > _skips(old):
        return "is skipped or expected to fail now"
    if _asserts(new) < _asserts(old):
        return f"has {_asserts(new)} assertions, had {_asserts(old)}"
    looser = [
        f"{key} {before:g} → {now:g}"
        for (key, before), (other, now) in zip(_tolerances(old), _tolerances(new), strict=False)
        if key == other and now > before
    ]
    if looser:
        return f"has a looser tolerance: {', '.join(looser[:3])}"
    if _cases(new) < _cases(old):
        return f"is parametrized with {_cases(new)} values, had {_cases(old)}"
    return ""


def _called(node: ast.AST) -> str:
    """Last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _skips(tree: ast.AST) -> int:
    return sum(_called(node) in _SKIPS for node in ast.walk(tree))


def _asserts(tree: ast.AST) -> int:
    calls = (_called(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    plain = sum(isinstance(node, ast.Assert) for node in ast.walk(tree))
    return plain + sum(name.startswith("assert") or name in ("raises", "warns", "fail") for name in calls)


def _tolerances(tree: ast.AST) -> list[tuple[str, float]]:
    return [
        (node.arg, float(node.value.value))
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
        and node.arg in _TOLERANCES
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int | float)
    ]


def _cases(tree: ast.AST) -> int:
    """Values that `parametrize` decorators list."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and _called(n.func) == "parametrize")
    lists = (argument for call in calls for argument in call.args[1:2])
    return sum(len(values.elts) for values in lists if isinstance(values, ast.List | ast.Tuple))


def _added(node: ast.stmt, prefix: str, used: _Used) -> Iterator[Edit]:
    """Why a new statement may change how the old tests run; nothing when it cannot by its form."""
    reason = _reach(node, used.taken(prefix))
    if reason:
        yield Edit(f"{prefix}{first_line(node)} {reason}", node.lineno)


def _reach(node: ast.stmt, names: frozenset[str]) -> str:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            if node.name in names:
                return "takes a name that the existing tests use"
            around = node.name.startswith(_AROUND) or any(map(_automatic, node.decorator_list))
            return "runs around the existing tests" if around else ""
        case ast.Import() | ast.ImportFrom():
            taken = {"*"} & {a.name for a in node.names} or names & set(imported(node))
            return "takes a name that the existing tests use" if taken else ""
        case ast.Assign(targets=targets, value=value):
            return _assignment(targets, value, names)
        case ast.AnnAssign(target=target, value=value):
            return _assignment([target], value, names)
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return ""
    return "runs when the file is imported, before the existing tests"


def _assignment(targets: Sequence[ast.expr], value: ast.expr | None, names: frozenset[str]) -> str:
    parts = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
    if not all(isinstance(part, ast.Name) for part in parts):
        return "changes something that the existing tests may use"
    bound = {part.id for part in parts if isinstance(part, ast.Name)}
    if bound & _STEERING:
        return "steers which tests run"
    if bound & names:
        return "takes a name that the existing tests use"
    reaching = value is not None and any(_called(n) in _REACHES_OUT for n in ast.walk(value))
    return "changes something that the existing tests may use" if reaching else ""


def _automatic(decorator: ast.expr) -> bool:
    """`@pytest.fixture(autouse=True)`."""
    return any(isinstance(node, ast.keyword) and node.arg == "autouse" for node in ast.walk(decorator))


def first_line(node: ast.stmt) -> str:
    """A statement in short: a definition's name, else its first line."""
    if isinstance(node, _Definition):
        return node.name
    return shorten(ast.unparse(node).split("\n", 1)[0], 80)
