"""What changed between two audits: `validator audit --against OLD.json`.

Kernels are paired by mangled name, ISA and architecture, and by artifact where a name occurs more than once. The
earlier result is an untrusted file: it is checked against its schema before anything is read from it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from validator.errors import Problem, ValidatorError
from validator.report.audit_document import AuditDocument

if TYPE_CHECKING:
    from validator.report.audit_document import AccessDocument, DriftDocument, KernelAuditDocument

__all__ = ["DriftError", "compare", "load_audit"]

Key = tuple[str, ...]
MAX_BYTES = 1 << 30


class DriftError(ValidatorError):
    """The earlier audit cannot be read."""


def load_audit(data: bytes, name: str) -> AuditDocument:
    """An earlier `validator/audit/1` document. Raises `DriftError` with every problem (the first 20)."""
    hint = "write one with `validator audit --format json`"
    if len(data) > MAX_BYTES:
        raise DriftError(Problem("is larger than 1 GiB", name))
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DriftError(Problem(f"is not JSON ({error})", name, hint)) from None
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema != "validator/audit/1":
        raise DriftError(Problem(f"has schema {schema!r}, not 'validator/audit/1'", name, hint))
    try:
        return TypeAdapter(AuditDocument).validate_python(raw)
    except ValidationError as error:
        problems = [
            Problem(e["msg"].lower(), f"{name}: {'.'.join(map(str, e['loc']))}", hint)
            for e in error.errors(include_url=False)[:20]
        ]
        raise DriftError(*problems) from None


def compare(old: AuditDocument, new: AuditDocument) -> DriftDocument:
    """Every difference that matters, each a sentence, sorted."""
    before, after = _by_key(old["kernels"]), _by_key(new["kernels"])
    both = sorted(before.keys() & after.keys())
    pairs = [(before[key], after[key]) for key in both]
    return {
        "appeared": [_name(after[key]) for key in sorted(after.keys() - before.keys())],
        "vanished": [_name(before[key]) for key in sorted(before.keys() - after.keys())],
        "status": [
            f"{_name(b)}: {a['status']} before, {b['status']} now" for a, b in pairs if a["status"] != b["status"]
        ],
        "new_early": [line for a, b in pairs for line in _more(b, _rows(a, False), _rows(b, False), "more")],
        "gone_early": [line for a, b in pairs for line in _more(b, _rows(b, False), _rows(a, False), "fewer")],
        "lost_prefetch": [line for a, b in pairs for line in _more(b, _rows(b, True), _rows(a, True), "fewer")],
    }


def _by_key(kernels: Iterable[KernelAuditDocument]) -> dict[Key, KernelAuditDocument]:
    groups: dict[Key, list[KernelAuditDocument]] = defaultdict(list)
    for kernel in kernels:
        groups[(kernel["name"], kernel["isa"], kernel["arch"])].append(kernel)
    return dict(_keyed(groups))


def _keyed(groups: Mapping[Key, list[KernelAuditDocument]]) -> Iterator[tuple[Key, KernelAuditDocument]]:
    for key, members in groups.items():
        if len(members) == 1:
            yield key, members[0]
            continue
        for number, kernel in enumerate(sorted(members, key=lambda k: (k["artifact"], k["digest"]))):
            yield (*key, kernel["artifact"], str(number)), kernel


def _name(kernel: KernelAuditDocument) -> str:
    return f"{kernel['demangled'] or kernel['name']} ({kernel['isa']}, {kernel['arch']})"


def _rows(kernel: KernelAuditDocument, allowed: bool) -> dict[tuple[str, str], int]:
    """(access, parameters) → static instructions, of the rows that are or are not allowed early."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row in kernel["early"]:
        if row["allowed"] is allowed:
            counts[row["access"], _param(row)] += row["count"]
    return counts


def _param(row: AccessDocument) -> str:
    param: Any = row["param"]
    params = param if isinstance(param, list) else [param] if param else []
    names = " or ".join(p["name"] for p in params) or "an unknown address"
    return f"{names} (through {row['level'] - 1} loaded pointers)" if row["level"] > 1 else names


def _more(
    kernel: KernelAuditDocument, low: dict[tuple[str, str], int], high: dict[tuple[str, str], int], word: str
) -> Iterator[str]:
    for (access, param), count in sorted(high.items()):
        difference = count - low.get((access, param), 0)
        if difference > 0:
            yield f"{_name(kernel)}: {difference:,} {word} early {access} of {param}"
