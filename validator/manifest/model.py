"""Manifest: what a change says of itself (`rfcs/<id>.toml`). A declaration, never an authority."""

from __future__ import annotations

import re
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from validator.manifest.contract import KernelContract, Step

__all__ = [
    "SCHEMA",
    "Artifact",
    "BatchRange",
    "Build",
    "Claim",
    "Contract",
    "IsolationDeclaration",
    "Manifest",
    "Reference",
    "ScopeDeclaration",
    "Switch",
    "SwitchKind",
    "json_schema",
]

SCHEMA: Final = "validator/manifest/1"

Text = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Names = tuple[Name, ...]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]


def _no_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{', '.join(map(repr, repeated))} is listed more than once")
    return names


NameSet = Annotated[Names, Field(min_length=1, max_length=1000), AfterValidator(_no_repeats)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SwitchKind(StrEnum):
    """What turns the new path on."""

    ENVIRONMENT = "env"
    FLAG = "flag"
    CONFIG = "config"
    BUILD = "build"


class Switch(_Model):
    """`[switch]`: what turns the new path on. With the default value, the change must not be reachable."""

    kind: SwitchKind
    name: Name
    """Variable, flag or key."""
    value: str | bool | int
    """What turns the new path on."""
    default: str | bool | int | None = None
    """What it is when nobody sets it; absent: nothing (`None` in Python), TOML has no word for it."""

    @model_validator(mode="after")
    def _off_is_not_on(self) -> Switch:
        if self.value == self.default:
            raise ValueError(
                f"switch {self.name!r} has the same `value` and `default`: the new path would be on for all"
            )
        return self


class BatchRange(_Model):
    """Smallest and largest batch the change is for, both included."""

    min: Annotated[int, Field(ge=0, strict=True)] = 1
    max: Annotated[int, Field(ge=0, strict=True)]

    @model_validator(mode="after")
    def _ordered(self) -> BatchRange:
        if self.min > self.max:
            raise ValueError(f"batch range is empty: min {self.min} is above max {self.max}")
        return self


class ScopeDeclaration(_Model):
    """`[scope]`: where the new path may run. Whatever is not listed is outside."""

    models: NameSet
    architectures: NameSet
    """Hardware, as `sm_100a`."""
    dtypes: NameSet
    batch: BatchRange
    parallelism: NameSet = ("none",)
    """As `tp8`, `ep4`; `none` for one device."""


class IsolationDeclaration(_Model):
    """`[isolation]`: which paths are this change's own."""

    paths: Annotated[Names, Field(min_length=1)]
    """Globs from the repository root: `*` and `?` stay inside a folder, `**` crosses folders."""
    entry_points: Names = ()
    """`module:function`, where the rest of the program reaches the new path."""
    shared: Names = ()
    """Files outside `paths` that the change means to touch (the switch, the dispatch), shown to the reviewer."""


class Reference(_Model):
    """`[[references]]`: what the candidate is judged against."""

    name: Name
    path: Name
    """File in the base revision; one that the change itself brings is shown as such."""
    note: Text | None = None


class Artifact(_Model):
    """`[[artifacts]]`: a compiled file that belongs to the change."""

    path: Name
    """Path or glob in the head tree."""
    arch: Name | None = None
    """Architecture it was built for; None: the file says."""
    kernels: Names = ()
    """Globs of the kernels it holds; empty: all."""


_FLAG = re.compile(
    r"-O[0-3]|-std=c\+\+\d\d|-[DU]\w+(=[\w.+-]*)?|-I[\w.][\w./+-]*|--?use_fast_math|--?fmad=(true|false)"
    r"|--?maxrregcount=\d+|--?expt-relaxed-constexpr|--?expt-extended-lambda|--?extra-device-vectorization"
    r"|-G|--?ftz=(true|false)|--?prec-(div|sqrt)=(true|false)"
)
"""What a compiler may be told: nothing that names programs to run or places outside the tree."""


class Build(_Model):
    """`[[builds]]`: a source that is compiled here, for every architecture, and what ships of it."""

    source: Name
    """Path in the head tree: a `.cu` file, or a Python file."""
    toolchain: Literal["nvcc", "triton", "cutedsl", "prebuilt"]
    """`triton` compiles the function `entry` of the source; `cutedsl` runs the source, which compiles its kernels;
    `prebuilt` compiles nothing: what ships is taken as it is, and said to be."""
    root: Name = "."
    """Folder of the tree that the source may read."""
    architectures: Names = ()
    """Empty: those in scope."""
    versions: Names = ()
    """Of the compiler, as `13.0.88` or `13.0` for any of that series. Each must build it, and what each makes is
    audited; empty: every one that is found builds it, and the one that made what ships, or the newest, counts."""
    flags: Names = ()
    entry: Name | None = None
    """`triton`: name of the `@triton.jit` function."""
    signature: dict[str, Name] = {}
    """`triton`: argument → type, as `*fp32`, `i32`, `constexpr`."""
    constants: dict[str, int | float | bool] = {}
    """`triton`: values of the `constexpr` arguments."""
    ships: Names = ()
    """Files of the head that were made from it, `{arch}` for the architecture: they are compared with what is built."""

    @model_validator(mode="after")
    def _plain(self) -> Build:
        wrong = [f"flag {flag!r} is not one that a build may give" for flag in self.flags if not _FLAG.fullmatch(flag)]
        paths = [self.source, self.root, *self.ships, *(f[2:] for f in self.flags if f.startswith("-I"))]
        wrong += [f"{p!r} is not a path inside the tree" for p in paths if p.startswith("/") or ".." in p.split("/")]
        inside = self.root in (".", "") or self.source.startswith(self.root.rstrip("/") + "/")
        wrong += [] if inside else [f"`source` {self.source!r} does not lie below `root` {self.root!r}"]
        wrong += [
            f"{arch!r} is no architecture" for arch in self.architectures if not re.fullmatch(r"sm_\d+[af]?", arch)
        ]
        wrong += [f"{v!r} is no version of a compiler" for v in self.versions if not re.fullmatch(r"\d+(\.\w+)*", v)]
        if (self.toolchain == "triton") is not (self.entry is not None):
            wrong.append("`entry` names the function that `triton` compiles, and nothing else")
        if self.toolchain == "prebuilt" and not self.ships:
            wrong.append("`prebuilt` needs `ships`: there is nothing else to look at")
        if wrong:
            raise ValueError("\n".join(wrong))
        return self


class Claim(_Model):
    """`[[claims]]`: something the author says about speed or quality. Not evidence."""

    metric: Name
    """As `tokens/s`."""
    value: Number
    baseline: Number | None = None
    conditions: Text
    """Hardware, model, batch, and what the baseline is."""
    source: Text | None = None
    """Where it was measured: a file or a link."""


class Contract(_Model):
    """The kernel part of a manifest alone: what `validator audit --contract FILE` reads."""

    schema_: Annotated[Literal["validator/manifest/1"], Field(alias="schema")] = SCHEMA
    kernels: tuple[KernelContract, ...] = ()
    steps: tuple[Step, ...] = ()


class Manifest(Contract):
    """One `rfcs/<id>.toml`."""

    id: Identifier
    """Lower case, digits, `.`, `_`, `-`; the file's name without `.toml`."""
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    owners: Names = ()
    """Who answers for the change after the merge, as `@name`."""
    created: date
    expires: date
    """The day the path is removed or promoted; policy bounds how far away it may be."""
    summary: Text
    isolation: IsolationDeclaration
    switch: Switch | None = None
    scope: ScopeDeclaration
    references: tuple[Reference, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    builds: tuple[Build, ...] = ()
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Manifest:
        wrong = []
        if self.expires <= self.created:
            wrong.append(f"`expires` ({self.expires}) is not after `created` ({self.created})")
        outside = sorted({a.arch for a in self.artifacts if a.arch and a.arch not in self.scope.architectures})
        if outside:
            wrong.append(f"`artifacts` are built for {', '.join(outside)}, which `scope.architectures` does not list")
        both = sorted(set(self.isolation.paths) & set(self.isolation.shared))
        if both:
            wrong.append(f"`isolation` lists {', '.join(map(repr, both))} both as its own and as shared")
        stable = (name for kernel in self.kernels for argument in kernel.args for name in argument.unjustified)
        wrong += [f"role 'stable' of {name!r} needs a written `justification`: it is taken on trust" for name in stable]
        if wrong:
            raise ValueError("\n".join(wrong))
        return self


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a manifest."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Manifest.model_json_schema(by_alias=True)}
