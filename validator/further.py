"""What a check over whole tables would say if single keys in them were not wrong already.

Such checks run where every key can be read. So what is wrong is taken out, or made right where it is one of few words,
and what a second look finds is told with the rest, unless it is about what was taken out.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from validator.positions import Path

__all__ = ["further_errors"]

_MOST = 200
"""Errors after which nobody asks for more."""
_LOOKS = 4
"""Times that everything is looked at: tables, tables around them, and what is around those."""


def further_errors(
    model: type[BaseModel], values: Mapping[str, Any], first: ValidationError, known: Callable[[Path], Path]
) -> Iterator[Any]:
    """pydantic's further errors, of checks over whole tables alone. `known`: an error's place as a path of the file."""
    left, names = copy.deepcopy(dict(values)), set[str]()
    shifted: dict[Path, int] = {}
    told, errors = set(), first.errors(include_url=False)
    for _ in range(_LOOKS if len(errors) <= _MOST else 0):
        told |= {_key(item) for item in errors}
        for path, item in sorted(((known(tuple(e["loc"])), e) for e in errors), key=_latest_first, reverse=True):
            names |= _named(left, path)
            _mend(left, path, item, shifted)
        try:
            model.model_validate(left)
        except ValidationError as error:
            errors = [item for item in error.errors(include_url=False) if _key(item) not in told]
        else:
            return
        if not errors:
            return
        for item in errors:
            moved = any(item["loc"][: len(at)] == at and len(item["loc"]) > len(at) for at in shifted)
            if item["type"] == "value_error" and not moved:
                parts = str(item["ctx"]["error"]).replace("; ", "\n").split("\n")
                kept = [part for part in parts if not any(f"'{name}'" in part for name in names)]
                if kept:
                    yield {**item, "ctx": {"error": ValueError("; ".join(kept))}}


def _key(item: Any) -> tuple[Any, ...]:
    return (*item["loc"], item["msg"])


def _latest_first(one: tuple[Path, Any]) -> list[tuple[bool, str | int]]:
    return [(isinstance(part, int), part if isinstance(part, int) else str(part)) for part in one[0]]


def _around(values: Any, path: Path) -> list[Any]:
    """Every table and list on the way to a place, the outermost first."""
    found = [values]
    for part in path:
        try:
            found.append(found[-1][part])
        except (KeyError, IndexError, TypeError):
            break
    return found


def _named(values: Any, path: Path) -> set[str]:
    """The name of the innermost table around a place that has one."""
    tables = [one for one in _around(values, path) if isinstance(one, dict)]
    return next(({name} for one in reversed(tables) if isinstance(name := one.get("name"), str)), set())


def _mend(values: Any, path: Path, item: Any, shifted: dict[Path, int]) -> None:
    """What is wrong is taken out, or is another word that may stand there."""
    if not path or len(around := _around(values, path)) <= len(path):
        return
    holder, last = around[len(path) - 1], path[-1]
    words = re.findall(r"'([^']*)'", item.get("ctx", {}).get("expected", ""))
    if item["type"] in ("enum", "literal_error") and words:
        holder[last] = words[0]
    elif isinstance(holder, dict):
        holder.pop(last, None)
    elif isinstance(holder, list) and isinstance(last, int):
        del holder[last]
        shifted[path[:-1]] = min(last, shifted.get(path[:-1], last))
