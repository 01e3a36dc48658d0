"""What the compiler moved, in both directions, and nothing where it moved nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from validator.manifest.load import load_contract
from validator.ordering.artifacts import audit_artifacts
from validator.ordering.program import Isa
from validator.ordering.sass.moved import moved_findings

RULES = Path(__file__).parents[3] / "fixtures/ordering/rules"

pytestmark = pytest.mark.sass


def audit(name, *files):
    folder = RULES / name
    kernels, _ = load_contract((folder / "contract.toml").read_bytes(), "contract.toml")
    paths = [folder / f for f in files] if files else sorted(folder.glob("sm_*"))
    return audit_artifacts([(f"{name}/{p.name}", p.read_bytes()) for p in paths], kernels)


@pytest.mark.parametrize(
    ("name", "rule", "argument"),
    [("hoisted-load/bad", "order/hoisted-load", "act"), ("lost-prefetch/bad", "order/lost-prefetch", "w")],
)
def test_moved_accesses_are_paired_with_their_source(tools, name, rule, argument):
    (found,) = moved_findings(audit(name).kernels)
    assert (found.rule, found.count) == (rule, 2)
    assert f"'{argument}'" in found.message
    assert "non-coherent" in found.why
    assert "ld.relaxed.gpu" in found.fix
    assert found.where.path.endswith(".cubin")


def test_the_early_read_says_who_moved_it_and_how_to_hold_it(tools):
    machine = next(k for k in audit("hoisted-load/bad").kernels if k.isa is Isa.SASS)
    (early,) = (f for f in machine.findings if f.rule == "order/early-read")
    assert "the compiler moved it above the wait" in early.message
    assert early.message in machine.reasons
    assert "move it below" not in early.fix
    assert "ld.relaxed.gpu" in early.fix
    (alone,) = audit("hoisted-load/bad", "sm_90a.cubin").kernels
    assert not any("the PTX" in f.message for f in alone.findings)


def test_what_the_source_reads_early_is_not_laid_to_the_compiler(tools):
    for kernel in audit("early-read/bad").kernels:
        assert not any("compiler moved" in f.message for f in kernel.findings)


@pytest.mark.parametrize("name", ["hoisted-load/good", "lost-prefetch/good", "movable-load/good", "early-read/bad"])
def test_nothing_moved_nothing_said(tools, name):
    assert moved_findings(audit(name).kernels) == ()


def test_the_audit_of_both_files_says_it(tools):
    assert "order/lost-prefetch" in {f.rule for f in audit("lost-prefetch/bad").findings}
    assert "order/lost-prefetch" not in {f.rule for f in audit("lost-prefetch/bad", "sm_90a.cubin").findings}


class TestPairing:
    @pytest.fixture
    def pair(self, tools):
        kernels = audit("lost-prefetch/bad").kernels
        return next(k for k in kernels if k.isa is Isa.PTX), next(k for k in kernels if k.isa is Isa.SASS)

    def test_other_architectures_are_not_paired(self, pair):
        ptx, sass = pair
        assert moved_findings([replace(ptx, arch="sm_100a"), sass]) == ()

    def test_two_sources_that_fit_say_nothing(self, pair):
        ptx, sass = pair
        other = replace(ptx, digest="other")
        assert moved_findings([ptx, other, sass]) == ()
        assert moved_findings([ptx, replace(other, artifact="elsewhere/x.ptx"), sass])

    def test_other_parameters_are_another_kernel(self, pair):
        ptx, sass = pair
        assert moved_findings([ptx, replace(sass, parameters=sass.parameters[:2])]) == ()

    def test_without_a_wait_on_either_side_nothing_crossed_it(self, pair):
        ptx, sass = pair
        assert moved_findings([replace(ptx, wait_count=0), sass]) == ()
