"""Builds as cells: a source, an architecture and a compiler each, built twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from pydantic import ConfigDict, TypeAdapter, ValidationError

from validator.build.compile import build_once
from validator.build.toolchains import Toolchain, find_toolchains, host_compiler
from validator.errors import Problem, ValidatorError
from validator.manifest.model import Build
from validator.scale.cell import UNREADABLE, Cell, Content

__all__ = ["BuildError", "Made", "Result", "cell_of", "read_result", "run_build"]


class BuildError(ValidatorError):
    """A compiler that was asked for is not on the machine that should run it."""


class Result(StrEnum):
    """How a build ended."""

    BUILT = "built"
    FAILED = "failed"
    NOT_RUN = "not run"
    """Not reached within a budget, another shard's, lost with the machine, or the compiler is not there."""
    DIFFERS = "not reproducible"
    """Two builds of the same source with the same compiler gave two results."""


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a build; it travels as JSON."""

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    result: Result
    why: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    enforced: Mapping[str, str] = field(default_factory=dict)


@cache
def _made() -> TypeAdapter[Made]:
    return TypeAdapter(Made)


def cell_of(number: int, build: Build, arch: str, toolchain: Toolchain, tree: str) -> Cell:
    """`tree`: name of the folder with the sources; `number`: of the build in its manifest."""
    payload = {"build": build.model_dump_json(), "arch": arch, "version": toolchain.version, "tree": tree}
    host = {"host compiler": host_compiler()} if toolchain.name == "nvcc" else {}
    return Cell(
        id=f"build/{number:02}.{arch}/{toolchain.name}-{toolchain.version}",
        task=f"{__name__}:run_build",
        payload=json.dumps(payload, sort_keys=True).encode(),
        content=(tree,),
        rests_on={toolchain.name: toolchain.version, **host},
        seconds=8.0,
        what=f"{build.source} for {arch} with {toolchain.name} {toolchain.version}, twice",
    )


def run_build(payload: bytes, content: Content) -> bytes:
    """The task. Raises `BuildError` where the compiler is not on this machine."""
    asked = json.loads(payload)
    build = Build.model_validate_json(asked["build"])
    toolchain = next((t for t in find_toolchains(build.toolchain) if t.version == asked["version"]), None)
    if toolchain is None:
        raise BuildError(Problem(f"{build.toolchain} {asked['version']} is not on the machine that should run it"))
    tree = content(asked["tree"])
    first, second = (build_once(build, asked["arch"], toolchain, tree) for _ in range(2))
    failed = first.failed or second.failed
    result = Result.FAILED if failed else Result.BUILT if first.files == second.files else Result.DIFFERS
    differing = sorted(n for n in first.files.keys() | second.files.keys() if first.files.get(n) != second.files.get(n))
    why = failed or (f"two builds differ in {', '.join(differing)}" if result is Result.DIFFERS else "")
    kept = first.files if result is Result.BUILT else {}
    return _made().dump_json(Made(result, why, kept, first.enforced))


def read_result(data: bytes) -> Made:
    """Of a cell that is done; not run where that cannot be read."""
    try:
        return _made().validate_json(data)
    except ValidationError:
        return Made(Result.NOT_RUN, UNREADABLE)
