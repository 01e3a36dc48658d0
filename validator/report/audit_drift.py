"""What changed between two audits: `validator audit --against OLD.json`.

Kernels are paired by mangled name, ISA and architecture, several of one name by where they stand or by their code. The
earlier result is an untrusted file: it is checked against its schema before anything is read from it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
    pairs: list[tuple[KernelAuditDocument, KernelAuditDocument]] = []
    vanished: list[KernelAuditDocument] = []
    appeared: list[KernelAuditDocument] = []
    for key in sorted(before.keys() | after.keys()):
        both, gone, fresh = _paired(before.get(key, []), after.get(key, []))
        pairs += both
        vanished += gone
        appeared += fresh
    return {
        "appeared": [_name(kernel) for kernel in appeared],
        "vanished": [_name(kernel) for kernel in vanished],
        "status": [
            f"{_name(b)}: {a['status']} before, {b['status']} now" for a, b in pairs if a["status"] != b["status"]
        ],
        "new_early": [line for a, b in pairs for line in _more(b, _rows(a, False), _rows(b, False), "more")],
        "gone_early": [line for a, b in pairs for line in _more(b, _rows(b, False), _rows(a, False), "fewer")],
        "lost_prefetch": [line for a, b in pairs for line in _more(b, _rows(b, True), _rows(a, True), "fewer")],
    }


def _by_key(kernels: Iterable[KernelAuditDocument]) -> dict[Key, list[KernelAuditDocument]]:
    groups: dict[Key, list[KernelAuditDocument]] = defaultdict(list)
    for kernel in sorted(kernels, key=lambda k: (k["artifact"], k["digest"])):
        groups[(kernel["name"], kernel["isa"], kernel["arch"])].append(kernel)
    return groups


def _paired(
    before: list[KernelAuditDocument], after: list[KernelAuditDocument]
) -> tuple[list[tuple[KernelAuditDocument, KernelAuditDocument]], list[KernelAuditDocument], list[KernelAuditDocument]]:
    """(pairs, vanished, appeared) of kernels of one name.

    Several of them are paired by their code, then where they stand, then in order: inside a library cubins are
    numbered, and one more of them moves all numbers behind it.
    """
    pairs: list[tuple[KernelAuditDocument, KernelAuditDocument]] = []
    for same in (_code, _place, _name):
        waiting: dict[str, list[KernelAuditDocument]] = defaultdict(list)
        for kernel in after:
            waiting[same(kernel)].append(kernel)
        left = []
        for kernel in before:
            partners = waiting[same(kernel)]
            if partners:
                pairs.append((kernel, partners.pop(0)))
            else:
                left.append(kernel)
        before, after = left, [kernel for partners in waiting.values() for kernel in partners]
    return pairs, before, after


def _place(kernel: KernelAuditDocument) -> str:
    return kernel["artifact"]


def _code(kernel: KernelAuditDocument) -> str:
    return kernel["digest"]


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
