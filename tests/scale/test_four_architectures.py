"""The demo's change across four architectures, on both executors: the same bundle."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.scale.demo import ARCHITECTURES, build
from validator.build.toolchains import find_toolchains
from validator.pipeline import Options, check
from validator.report.bundle import save_bundle
from validator.scale.cluster import Cluster
from validator.scale.engine import Engine
from validator.scale.local import Local

BUILT = ("sm_100a", "sm_120a", "sm_103a")
"""One that ships and is compared, and two that do not."""
DAY = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.sass
def test_the_demo_runs_across_four_architectures_on_both_executors(tmp_path: Path, ray_address: str) -> None:
    compiled = bool(find_toolchains("nvcc"))
    repository = build(tmp_path / "repository", compiled=compiled, built=BUILT if compiled else ARCHITECTURES)
    ids = {}
    for name, executor in (("local", Local(jobs=2, in_place=False)), ("ray", Cluster(ray_address))):
        with executor:
            options = Options(repository, "main", "change", seed=20261201)
            result = check(options, clock=lambda: DAY, work=Engine(executor))
        ids[name] = save_bundle(result, tmp_path / name)
        audited = {e.figures["arch"] for e in result.evidence if e.kind == "ordering-audit"}
        assert audited == set(ARCHITECTURES)
        settled = {o.id: (o.status.value, o.reason) for o in result.obligations}
        assert settled["ordering/kda_decode"][0] == "proven"
        assert settled["differential/kda_decode"][0] == "proven"
        if compiled:
            builds = {i: s for i, s in settled.items() if i.startswith("build/")}
            assert builds == {f"build/fastpath/kda_decode/kernels/kda_decode.cu@{a}": ("proven", "") for a in BUILT}
    assert ids["local"] == ids["ray"]
