"""Audits as cells: one compiled file each, with the contracts that it is judged by, and put together again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter, ValidationError

from validator.manifest.contract import KernelContract, Step
from validator.ordering.ahead import compiled_later
from validator.ordering.artifacts import Artifact, audit_artifacts
from validator.ordering.assembly import assemble
from validator.ordering.result import Audit, KernelAudit, Skipped
from validator.ordering.steps import apply_steps
from validator.scale.cell import UNREADABLE, Cell, Content, Outcome, State, Work

__all__ = ["cells_of", "put_together", "run_file"]

_START = 0.3
"""Seconds to start a disassembler."""
_BYTES_A_SECOND = 1 << 20
_PARALLEL = 4 << 20
"""Bytes of one file from which it pays to audit it in more processes."""


@dataclass(frozen=True, slots=True)
class _Audited:
    """What is known of one file."""

    kernels: tuple[KernelAudit, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    tools: dict[str, str] = field(default_factory=dict)


@cache
def _audited() -> TypeAdapter[_Audited]:
    return TypeAdapter(_Audited)


@cache
def _contracts() -> TypeAdapter[tuple[KernelContract, ...]]:
    return TypeAdapter(tuple[KernelContract, ...])


def cells_of(
    blobs: Sequence[tuple[str, bytes]],
    contracts: tuple[KernelContract, ...],
    folder: Path,
    work: Work,
    made_in: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Cell]:
    """One cell a file.

    Args:
        folder: where their content is laid for whoever runs them.
        made_in: file → id of the cell that made it.
    """
    said = _contracts().dump_json(contracts).decode()
    tools = _tools()
    for number, (name, data) in enumerate(blobs):
        path = folder / f"artifact{number}"
        path.write_bytes(data)
        kept = work.keep(path)
        yield Cell(
            id=f"ordering/{name}/audit",
            task=f"{__name__}:run_file",
            payload=json.dumps({"name": name, "file": kept, "contracts": said}).encode(),
            content=(kept,),
            rests_on=tools,
            seconds=_START + len(data) / _BYTES_A_SECOND,
            what=f"waits in {name} ({len(data):,} bytes)",
            group=made_in.get(name, ""),
        )


def run_file(payload: bytes, content: Content) -> bytes:
    """The task: the audit of one file."""
    asked = json.loads(payload)
    path = content(asked["file"])
    jobs = (os.cpu_count() or 1) if path.stat().st_size > _PARALLEL else 1
    found = audit_artifacts(
        [Artifact(asked["name"], path=path)], _contracts().validate_json(asked["contracts"]), jobs=jobs
    )
    later = set(compiled_later(found.kernels))  # a matter of all files together
    skipped = tuple(item for item in found.skipped if item not in later)
    return _audited().dump_json(_Audited(found.kernels, skipped, found.tools))


def put_together(
    outcomes: Iterable[Outcome], contracts: tuple[KernelContract, ...], steps: tuple[Step, ...] = ()
) -> Audit:
    """One audit out of its cells'. A file without an outcome was not audited, and why is said."""
    kernels: list[KernelAudit] = []
    skipped: list[Skipped] = []
    tools: dict[str, str] = {}
    for outcome in sorted(outcomes, key=lambda o: o.cell.id):
        if outcome.state is not State.DONE:
            skipped.append(Skipped(json.loads(outcome.cell.payload)["name"], outcome.why))
            continue
        try:
            part = _audited().validate_json(outcome.data)
        except ValidationError:
            skipped.append(Skipped(json.loads(outcome.cell.payload)["name"], UNREADABLE))
            continue
        kernels += part.kernels
        skipped += part.skipped
        tools |= part.tools
    judged, findings = apply_steps(kernels, contracts, steps) if steps else (kernels, ())
    return assemble(judged, [*skipped, *compiled_later(judged)], findings, tools)


def _tools() -> dict[str, str]:
    from validator.binary.tools import Tools

    return dict(Tools.find().versions)
