"""A kernel's PTX with delays at its synchronisation sites, on a device: does it still compute the same?"""

from __future__ import annotations

from dataclasses import dataclass

from validator.gpu.delays import Delays, Site, inject, minimised, sites
from validator.gpu.driver import Device
from validator.gpu.launch import Launchable
from validator.gpu.neighbour import differing

__all__ = ["Perturbed", "perturb"]

NANOSECONDS = 20_000
SEEDS = 4
LAUNCHES = 40


@dataclass(frozen=True, slots=True)
class Perturbed:
    """What came of it."""

    sites: int
    """Places where threads can be held up."""
    launches: int
    """Under all seeds together."""
    undelayed: int
    """Launches of the PTX as it is that differed from the first: then a delay proves nothing."""
    wrong: int
    """Delayed launches that differed."""
    delays: Delays | None = None
    """The smallest set of delays that still fails; replays it."""
    where: tuple[Site, ...] = ()

    @property
    def shown(self) -> bool:
        return self.wrong > 0 and self.undelayed == 0


def perturb(device: Device, ptx: str, kernel: str, launchable: Launchable, seeds: int = SEEDS) -> Perturbed:
    """Runs every seed until one fails, then leaves out what does not matter. Raises DeviceError for a failed launch."""
    places = sites(ptx, kernel)
    right = device.function(ptx.encode(), kernel)
    undelayed = differing(device, right, right, launchable, LAUNCHES).wrong

    def wrong(delays: Delays) -> int:
        delayed = device.function(inject(ptx, kernel, delays).encode(), kernel)
        return differing(device, right, delayed, launchable, LAUNCHES).wrong

    for seed in range(seeds) if places and not undelayed else ():
        every = Delays(seed, NANOSECONDS, tuple(range(len(places))))
        if found := wrong(every):
            few = minimised(every.chosen, lambda chosen, seed=seed: wrong(Delays(seed, NANOSECONDS, chosen)) > 0)  # type: ignore[misc]
            where = tuple(places[index] for index in few)
            launches = (seed + 1) * LAUNCHES
            return Perturbed(len(places), launches, undelayed, found, Delays(seed, NANOSECONDS, few), where)
    return Perturbed(len(places), seeds * LAUNCHES if places else 0, undelayed, 0)
