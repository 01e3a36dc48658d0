"""One case of a run: a small value that names its data by a seed; in words, and as the line that is stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from validator.differential.errors import DifferentialError
from validator.differential.inputs import VARIANTS
from validator.differential.pinned import Pinned
from validator.errors import Problem

__all__ = ["CASE_SCHEMA", "PLANS", "Case", "case_text", "load_case"]

CASE_SCHEMA = "validator/case/1"

PLANS = (
    "repeat", "same-buffer", "other-buffer", "flip", "recheck",
    "a-b-a", "batch-mates", "any-order", "carried-on", "many-calls", "fresh",
)  # fmt: skip
"""What is done around the first two calls of a case (`validator.differential.plans`)."""
_Size = Annotated[int, Field(ge=0, lt=1 << 64)]


@dataclass(frozen=True, slots=True)
class Case:
    """One case. Only what is out of the ordinary is listed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kernel: str
    """The contract's `match`."""
    dims: tuple[tuple[str, _Size], ...]
    seed: _Size
    """Of the data."""
    plan: str = "repeat"
    dtypes: tuple[tuple[str, str], ...] = ()
    """Argument → element type, for arguments that have a choice."""
    variants: tuple[tuple[str, str], ...] = ()
    """Argument → name of its variant, for arguments that are not filled plainly."""
    layouts: tuple[tuple[str, str], ...] = ()
    """Argument → layout, for arguments that are not contiguous."""
    aliased: tuple[str, ...] = ()
    """Arguments that share the memory of their `alias_of`."""
    padding: bool = False
    """What no index points to and no length covers holds NaN."""
    configuration: tuple[tuple[str, int], ...] = ()
    """What the candidate is told to choose, where it has a choice."""
    pinned: Pinned = ()
    """Argument → its elements, for numbers and few whole ones that the seed does not draw."""
    origin: str = ""
    """Why the case exists, in words."""
    input_class: str = ""
    """The class it was made for; `random` when hypothesis drew it."""

    @property
    def id(self) -> str:
        """The same for the same case on any machine; says nothing of why it exists."""
        facts = {name: getattr(self, name) for name in _FACTS}
        for later in ("configuration", "pinned"):  # ids of cases without them are older than they are
            if not facts[later]:
                del facts[later]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def words(self) -> str:
        """The inputs as a sentence."""
        parts = [", ".join(f"{name} = {value}" for name, value in self.dims) or "no dimensions"]
        parts += [f"{name} as {dtype}" for name, dtype in self.dtypes]
        parts += [f"{name} {VARIANTS[variant].words}" for name, variant in self.variants]
        parts += [f"{name} lies {layout} in memory" for name, layout in self.layouts]
        parts += [f"{name} shares memory with its alias" for name in self.aliased]
        parts += ["unused parts hold NaN"] if self.padding else []
        chosen = ", ".join(f"{name} = {value}" for name, value in self.configuration)
        parts += [f"candidate configured with {chosen}"] if chosen else []
        parts += [f"{name} = {', '.join(f'{value:.6g}' for value in values)}" for name, values in self.pinned]
        return "; ".join(parts) + f"; plan {self.plan}"


@cache
def _adapter() -> TypeAdapter[Case]:
    return TypeAdapter(Case)


_FACTS = tuple(field.name for field in fields(Case) if field.name not in ("origin", "input_class"))
"""What makes a case the case it is."""


def case_text(case: Case) -> str:
    """A case as one line of JSON: what `validator replay` takes and what a corpus holds."""
    plain = {k: v for k, v in asdict(case).items() if v not in ((), "") and v is not False}
    return json.dumps({"schema": CASE_SCHEMA, **plain}, separators=(",", ":"))


def load_case(text: str, where: str) -> Case:
    """The case of one such line. Raises `DifferentialError`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DifferentialError(f"{where}: not JSON: {error}") from None
    if not isinstance(data, dict) or data.pop("schema", None) != CASE_SCHEMA:
        raise DifferentialError(f'{where}: not a case ("schema": "{CASE_SCHEMA}" comes first)')
    try:
        case = _adapter().validate_json(json.dumps(data))
    except ValidationError as error:
        raise DifferentialError(
            *(
                Problem(f"not a case: {e['msg'].lower()}", f"{where}: {'.'.join(map(str, e['loc']))}")
                for e in error.errors(include_url=False)[:10]
            )
        ) from None
    unknown = [v for _, v in case.variants if v not in VARIANTS] + [p for p in [case.plan] if p not in PLANS]
    if unknown:
        named = ", ".join(map(repr, unknown))
        raise DifferentialError(f"{where}: the case names {named}, which this version does not know")
    return case
