"""Delays on a device that is played: the first seed that fails is minimised; a kernel that varies proves nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from validator.gpu import perturb
from validator.gpu.delays import sites
from validator.gpu.perturb import LAUNCHES, SEEDS

PTX = """.visible .entry k()
{
	bar.sync 	0;
	membar.gl;
	bar.sync 	0;
	ret;
}
"""
LAUNCHABLE: Any = None


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch):
    """`fails` decides on the text of a delayed kernel."""

    def play(fails: Any) -> Any:
        def differing(device: Any, right: Any, candidate: Any, launchable: Any, launches: int) -> Any:
            return SimpleNamespace(wrong=launches if fails(candidate.decode()) else 0)

        monkeypatch.setattr(perturb, "differing", differing)
        return SimpleNamespace(function=lambda image, name: image)

    return play


def held_up(text: str, index: int) -> bool:
    return f"%validator_{index}_from" in text


def test_the_site_that_matters_is_named(device):
    seen = perturb.perturb(device(lambda text: held_up(text, 3)), PTX, "k", LAUNCHABLE)
    assert seen.shown
    assert (seen.sites, seen.launches, seen.wrong) == (6, LAUNCHES, LAUNCHES)
    assert seen.delays is not None
    assert seen.delays.chosen == (3,)
    assert seen.where == (sites(PTX, "k")[3],)
    assert str(seen.where[0]) == "after line 4: membar.gl"


def test_a_kernel_that_keeps_its_word_is_left_in_peace(device):
    seen = perturb.perturb(device(lambda text: False), PTX, "k", LAUNCHABLE)
    assert not seen.shown
    assert (seen.launches, seen.wrong, seen.delays) == (SEEDS * LAUNCHES, 0, None)


def test_a_kernel_that_does_not_repeat_itself_proves_nothing(device):
    seen = perturb.perturb(device(lambda text: True), PTX, "k", LAUNCHABLE)
    assert seen.undelayed == LAUNCHES
    assert not seen.shown


def test_without_sites_nothing_is_launched_delayed(device):
    seen = perturb.perturb(
        device(lambda text: False), PTX.replace("bar.sync", "add").replace("membar.gl", "x"), "k", None
    )  # type: ignore[arg-type]
    assert (seen.sites, seen.launches) == (0, 0)
