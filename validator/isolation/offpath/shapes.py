"""Steps of `canonical` that look at statements as a whole: before a function is flattened, and after."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence, Set

from validator.isolation.offpath.nodes import clone, with_fields
from validator.isolation.offpath.scopes import FunctionNode, bound_names, parameters
from validator.isolation.syntax import walk

__all__ = [
    "Numbering",
    "bound_inside",
    "is_none",
    "is_temporary",
    "leaves_code",
    "positive_first",
    "renamed",
    "single_exit",
    "surely_bound",
    "without_empty_keywords",
]


def is_temporary(atom: ast.expr) -> bool:
    return isinstance(atom, ast.Name) and atom.id[:1] == "<" and atom.id[1:2].isdigit()


def single_exit(body: Sequence[ast.stmt]) -> bool:
    """Whether the end of the body is the only place where it returns."""
    returns = [n for s in body for n in walk(s) if isinstance(n, ast.Return)]
    return not returns or (len(returns) == 1 and bool(body) and body[-1] is returns[0])


def surely_bound(function: FunctionNode) -> bool:
    """Whether every local name is bound, in the block around it, wherever it is read: a call starts without any, code
    in its place could find what an earlier round of a loop left."""
    local = set(bound_names(function.body)) - set(parameters(function.args))
    return _bound_before_read(function.body, set(), local)


def _bound_before_read(body: Sequence[ast.stmt], bound: set[str], local: Set[str]) -> bool:
    bound = set(bound)
    for statement in body:
        blocks = [b for f in ("body", "orelse", "finalbody") if (b := getattr(statement, f, None))]
        blocks += [h.body for h in getattr(statement, "handlers", [])]
        inside = {id(n) for block in blocks for s in block for n in walk(s)}
        own = [n for n in walk(statement) if id(n) not in inside]
        read = {n.id for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} & local
        if isinstance(statement, ast.AugAssign):
            read |= set(bound_names([statement])) & local
        if read - bound:
            return False
        stored = {n.id for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        stored |= set(bound_names([statement])) if isinstance(statement, ast.Import | ast.ImportFrom) else set()
        if not all(_bound_before_read(block, bound | (stored if blocks else set()), local) for block in blocks):
            return False
        bound |= stored if not isinstance(statement, ast.For | ast.While) else set()
    return True


def leaves_code(function: FunctionNode) -> bool:
    """Whether something in the function may run when it has returned."""
    return any(isinstance(n, ast.Lambda | ast.GeneratorExp | ast.Yield) for s in function.body for n in walk(s))


_NEGATIVE = {ast.NotIn: ast.In, ast.IsNot: ast.Is}


def positive_first(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A function's statements with `if not a: … return` turned round where all that follows may stand in the branch."""
    for at, node in enumerate(body):
        if not isinstance(node, ast.If) or node.orelse or not node.body or not _leaves(node.body):
            continue
        rest = [*body[at + 1 :]]
        rest = rest if rest and _leaves(rest) else [*rest, ast.Return(value=None)]
        opposite = _opposite(node.test)
        if opposite is not None:
            return [*body[:at], with_fields(node, test=opposite, body=positive_first(rest)), *node.body]
        return [*body[: at + 1], *positive_first(body[at + 1 :])]
    return list(body)


def _opposite(test: ast.expr) -> ast.expr | None:
    """The condition without its negation; None: it has none."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Compare(ops=[op]) if type(op) in _NEGATIVE:
            return with_fields(test, ops=[_NEGATIVE[type(op)]()])
    return None


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise)


def renamed(node: ast.expr) -> ast.expr:
    """A comprehension with its own names numbered, where no scope inside it could mean another thing by them."""
    if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return node
    own = dict.fromkeys(n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name))
    scopes = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
    outside = {n.id for n in walk(node.generators[0].iter) if isinstance(n, ast.Name)}
    if outside & set(own) or any(isinstance(n, scopes) for n in walk(node) if n is not node):
        return node
    names = {name: f"<=c{number}>" for number, name in enumerate(own)}
    for part in walk(node):
        if isinstance(part, ast.Name) and part.id in names:
            part.id = names[part.id]
    return node


def bound_inside(node: ast.expr) -> Iterator[str]:
    for part in walk(node):
        if isinstance(part, ast.comprehension):
            yield from (n.id for n in walk(part.target) if isinstance(n, ast.Name))
        elif isinstance(part, ast.Lambda):
            yield from parameters(part.args)


def without_empty_keywords(body: list[ast.stmt]) -> list[ast.stmt]:
    """Without empty dictionaries that only hand keywords on: `f(**{})` is `f()`."""
    every = [n for s in body for n in walk(s)]
    empty = {
        n.targets[0].id
        for n in every
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and is_temporary(n.targets[0])
        and isinstance(n.value, ast.Dict) and not n.value.keys
    }  # fmt: skip
    reads = Counter(n.id for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in empty)
    handed = Counter(
        k.value.id
        for n in every
        if isinstance(n, ast.Call)
        for k in n.keywords
        if k.arg is None and isinstance(k.value, ast.Name)
    )
    gone = {name for name in empty if reads[name] == handed[name]}
    return [_Without(gone).visit(clone(s)) for s in body if not _stores_one_of(s, gone)] if gone else body


class _Without(ast.NodeTransformer):
    def __init__(self, gone: Set[str]) -> None:
        self.gone = gone

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """The call without the empty dictionary."""
        self.generic_visit(node)
        node.keywords = [
            k for k in node.keywords if k.arg or not (isinstance(k.value, ast.Name) and k.value.id in self.gone)
        ]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        """No statement where the empty dictionary was made."""
        self.generic_visit(node)
        return None if _stores_one_of(node, self.gone) else node


def _stores_one_of(node: ast.stmt, names: Set[str]) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names


def is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


class Numbering(ast.NodeTransformer):
    """Numbers our names in the order in which they stand."""

    def __init__(self) -> None:
        self.numbers: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Names of parameters keep theirs."""
        if node.id.startswith("<") and not node.id.startswith(("<=", "<v:")):
            return ast.Name(id=self.numbers.setdefault(node.id, f"<{len(self.numbers)}>"), ctx=node.ctx)
        return node
