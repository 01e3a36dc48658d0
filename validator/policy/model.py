"""Policy: what every fast-track change must satisfy (`policies/*.toml` at the base revision).

Several files are one policy: each key is set in one file only. `policies/README.md` explains every key.
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from validator.verdict.model import Strength

__all__ = [
    "SCHEMA",
    "WAIVER_SCHEMA",
    "BatchLimit",
    "DependencyPolicy",
    "DifferentialPolicy",
    "EvidencePolicy",
    "IsolationPolicy",
    "ManifestPolicy",
    "OrderingPolicy",
    "Policy",
    "ScopePolicy",
    "Tolerance",
    "ToleranceKind",
    "TrustedPaths",
    "Waiver",
    "WaiverPolicy",
    "json_schema",
]

SCHEMA: Final = "validator/policy/1"
WAIVER_SCHEMA: Final = "validator/waivers/1"

Globs = tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...]
Names = Globs
Count = Annotated[int, Field(ge=0, strict=True)]
Days = Annotated[int, Field(gt=0, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Positive = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class IsolationPolicy(_Model):
    """`[isolation]`: where a change may live, and how much of the shared code it may touch."""

    roots: Globs = ("**",)
    """Where a manifest may declare isolated paths."""
    shared: Globs = ("**",)
    """Shared files that may be touched at all."""
    max_shared_files: Count = 5
    max_shared_lines: Count = 100
    """Lines added plus deleted, over all shared files."""
    run_tests: Flag = False
    """Run the base's tests of the touched shared files over the head, in a sandbox, with the switch off and on."""
    binary: Globs = ()
    """Where binary files may be added."""
    executable: Globs = ()
    """Where the executable bit may be set."""
    symlinks: Globs = ()
    """Where symbolic links may be added."""
    max_file_bytes: Annotated[int, Field(gt=0, strict=True)] = 2 * 1024 * 1024
    """Largest file a change may bring."""


class TrustedPaths(_Model):
    """`[trusted]`: files that judge a change. A change that edits one is told so, in a finding that nothing waives."""

    policies: Globs = ("policies/**",)
    waivers: Globs = ("policies/waivers/**",)
    tests: Globs = (
        "**/tests/**",
        "**/test_*.py",
        "**/*_test.py",
        "**/golden/**",
        "**/goldens/**",
        "**/__snapshots__/**",
    )
    references: Globs = ("**/reference/**", "**/references/**")
    ci: Globs = (
        ".github/**",
        ".buildkite/**",
        ".gitlab-ci.yml",
        ".gitlab/**",
        ".circleci/**",
        ".ci/**",
        "**/Jenkinsfile*",
        "action.yml",
        "action.yaml",
        "azure-pipelines.yml",
        ".azure-pipelines/**",
        "bitbucket-pipelines.yml",
        ".travis.yml",
        ".drone.yml",
        ".woodpecker/**",
        ".woodpecker.yml",
        "appveyor.yml",
        "**/CODEOWNERS",
        "**/.gitattributes",
        ".pre-commit-config.yaml",
    )
    """Also what decides who reviews (CODEOWNERS) and what a review shows (.gitattributes hides files from a diff)."""
    validator: Globs = (".validator/**", "validator.toml")
    """The validator's own configuration, besides what is always guarded (conftest, start-up hooks …)."""


class BatchLimit(_Model):
    """Smallest and largest batch a change may ask for."""

    min: Count = 0
    max: Count

    @model_validator(mode="after")
    def _ordered(self) -> BatchLimit:
        if self.min > self.max:
            raise ValueError(f"batch limit is empty: min {self.min} is above max {self.max}")
        return self


class ScopePolicy(_Model):
    """`[scope]`: the widest scope a manifest may declare. An absent key does not limit."""

    models: Globs | None = None
    """Globs over model names."""
    architectures: Globs | None = None
    """As `sm_100a`, globs."""
    dtypes: Globs | None = None
    batch: BatchLimit | None = None
    parallelism: Globs | None = None
    """As `tp8`, globs; `none` is always allowed."""


class ManifestPolicy(_Model):
    """`[manifest]`: what a manifest must say."""

    files: Globs = ("rfcs/*.toml",)
    """Where manifests live."""
    required: Flag = True
    max_days: Days = 180
    """Longest life, from `created` to `expires`."""
    min_owners: Count = 1
    owners: Names | None = None
    """Globs over who may own a change; absent: anybody."""
    switch_required: Flag = True


class DependencyPolicy(_Model):
    """`[dependencies]`: files that decide what is installed."""

    files: Globs = (
        "**/requirements*.txt",
        "requirements/**",
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "**/*.lock",
        "CMakeLists.txt",
        "cmake/**",
        "**/Dockerfile*",
        "docker/**",
        ".gitmodules",
        "**/package.json",
        "**/package-lock.json",
        "**/Cargo.toml",
    )
    allowed: Globs = ()
    """Of those, the ones a fast-track change may edit."""


class OrderingPolicy(_Model):
    """`[ordering]`: proof that nothing is read before the wait that makes it valid."""

    required: Flag = True
    min_strength: Literal[Strength.MACHINE_CODE, Strength.PTX] = Strength.PTX
    """`proof-on-machine-code` or `proof-on-ptx`; machine code is the stronger."""


class ToleranceKind(StrEnum):
    """How a candidate's error is judged."""

    BASELINE = "relative-to-baseline"
    ABSOLUTE = "absolute"
    ULP = "ulp"
    EXACT = "exact"
    PROPERTY = "property"


class Tolerance(_Model):
    """`[differential.tolerances."KERNEL GLOB"]`."""

    kind: ToleranceKind = ToleranceKind.BASELINE
    rms_ratio: Positive = 2.0
    """`relative-to-baseline`: RMS error over the trusted implementation's own, both against float64."""
    max_ratio: Positive = 4.0
    """The same for the largest error."""
    atol: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] | None = None
    rtol: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] | None = None
    ulp: Count | None = None


Confinement = Literal["limits", "namespaces", "disk", "no-new-privileges", "files", "system-calls"]
"""What a candidate's process can be confined by, as `validator.run.confine` names it."""


class DifferentialPolicy(_Model):
    """`[differential]`: candidate against reference."""

    required: Flag = True
    min_strength: Literal[Strength.GPU_RUN, Strength.PTX_RUN, Strength.CPU_MODEL] = Strength.CPU_MODEL
    """`run-on-gpu`, `ptx-run-on-cpu` or `run-of-cpu-model`, strongest first."""
    min_cases: Annotated[int, Field(gt=0, strict=True)] = 50
    """Judged cases per kernel; void ones do not count."""
    seeds: Annotated[int, Field(ge=1, le=64, strict=True)] = 1
    """Root seeds, each with cases and data of its own: what depends on the values drawn shows under one of many."""
    strength: Annotated[int, Field(ge=2, le=6, strict=True)] | None = None
    """So many sizes, types, layouts and choices at a time must meet in some case, as far as the contract allows, and
    all such cases are run. Absent: pairs, of which at most half of `min_cases` are run."""
    confinement: tuple[Confinement, ...] = ()
    """What the machine must enforce on the candidate's process; where it does not, nothing is proven."""
    corpus: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Folder of the base revision with cases that failed once (`*.json`), tried before all others."""
    tolerances: dict[str, Tolerance] = {}
    """Glob over kernel names → the widest tolerance a manifest may ask for; the first that matches counts."""


class EvidencePolicy(_Model):
    """`[evidence]`: how long a run counts."""

    max_days: Days = 30
    """Older evidence is stale: `validator history` and `validator verify` say so."""


class WaiverPolicy(_Model):
    """`[waivers]`: exceptions, read from the base revision only."""

    files: Globs = ("policies/waivers/*.toml",)
    max_days: Days = 90
    """Longest life of a waiver."""
    warn_days: Count = 14
    """Report a waiver that expires within so many days."""


class Policy(_Model):
    """All of `policies/*.toml`, merged."""

    schema_: Annotated[Literal["validator/policy/1"], Field(alias="schema")] = SCHEMA
    name: str = "policy"
    obligations: Names = ("gate", "isolation", "scope", "ordering", "differential")
    """Obligations (or whole families) that must be settled; one that no stage produced is unproven."""
    isolation: IsolationPolicy = IsolationPolicy()
    trusted: TrustedPaths = TrustedPaths()
    scope: ScopePolicy = ScopePolicy()
    manifest: ManifestPolicy = ManifestPolicy()
    dependencies: DependencyPolicy = DependencyPolicy()
    ordering: OrderingPolicy = OrderingPolicy()
    differential: DifferentialPolicy = DifferentialPolicy()
    evidence: EvidencePolicy = EvidencePolicy()
    waivers: WaiverPolicy = WaiverPolicy()


class Waiver(_Model):
    """`[[waivers]]` of a file in `policies/waivers/`: one finding, accepted for a while by somebody by name."""

    finding: Annotated[str, StringConstraints(pattern=r"^[a-z]+/[a-z0-9-]+:[0-9a-f]{12}$")]
    """Exact finding id, as every report shows it."""
    owner: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    reason: Annotated[str, StringConstraints(min_length=10, max_length=2000)]
    link: Annotated[str, StringConstraints(pattern=r"^https?://\S+$", max_length=500)]
    """Where it was discussed."""
    created: date
    expires: date

    @model_validator(mode="after")
    def _lives(self) -> Waiver:
        if self.expires <= self.created:
            raise ValueError(f"`expires` ({self.expires}) is not after `created` ({self.created})")
        return self


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one policy file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Policy.model_json_schema(by_alias=True)}
