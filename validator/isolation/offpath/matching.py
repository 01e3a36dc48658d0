"""Whether a pattern of a `match` statement fits a constant."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from validator.isolation.offpath.constants import UNKNOWN, compare, name_of, value_of
from validator.isolation.syntax import walk

__all__ = ["bound_by", "matches", "never_none"]


def matches(subject: ast.expr, pattern: ast.pattern) -> bool | None:
    """Whether the pattern fits the constant; None where that is not known."""
    value = value_of(subject)
    match pattern:
        case ast.MatchValue(value=expected):
            other = value_of(expected)
            equal = UNKNOWN if UNKNOWN in (value, other) else compare(value, ast.Eq(), other)
            return None if equal is UNKNOWN else bool(equal)
        case ast.MatchSingleton(value=expected):
            return None if value is UNKNOWN else value is expected
        case ast.MatchOr(patterns=alternatives):
            return _any(matches(subject, one) for one in alternatives)
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return matches(subject, inner)
        case ast.MatchSequence() | ast.MatchMapping() if not isinstance(value, tuple) and value is not UNKNOWN:
            return False  # text is no sequence here
        case ast.MatchClass(cls=kind) if value is None and never_none(kind):
            return False
    return None


def _any(outcomes: Iterable[bool | None]) -> bool | None:
    """Of alternatives, tried in order."""
    unknown = False
    for fits in outcomes:
        if fits:
            return None if unknown else True
        unknown |= fits is None
    return None if unknown else False


def bound_by(pattern: ast.pattern) -> frozenset[str]:
    """Names that the pattern binds."""
    captures = (n for n in walk(pattern) if isinstance(n, ast.MatchAs | ast.MatchStar) and n.name)
    rests = (n.rest for n in walk(pattern) if isinstance(n, ast.MatchMapping) and n.rest)
    return frozenset({*(str(n.name) for n in captures), *rests})


def never_none(kind: ast.expr) -> bool:
    """Whether `isinstance(None, kind)` is false: named classes, none of them `object` or `NoneType`."""
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return all(name_of(k) and name_of(k).split(".")[-1] not in _MAY_BE_NONE for k in kinds) and bool(kinds)


_MAY_BE_NONE = frozenset({"object", "NoneType", "Hashable", "Any", "Optional", "Union"})
