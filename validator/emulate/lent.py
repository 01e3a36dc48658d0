"""Shared memory that other CTAs of a cluster use: it lives as long as its CTA does, so their uses must be ordered
behind the start of that CTA and before its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.hazard import Hazard, HazardKind
from validator.emulate.lanes import Array
from validator.emulate.lateness import PEERS
from validator.emulate.shadow import clocks_of, places_of, record, threads_of

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["Lent"]


class Lent:
    def __init__(self) -> None:
        self._uses: dict[int, dict[int, int]] = {}
        """CTA → thread of another → record of its latest use."""

    def use(self, m: Machine, threads: Array, owners: Array, index: int) -> None:
        """Threads access shared memory of these CTAs."""
        foreign = owners != threads // m.per_cta
        threads, owners = threads[foreign], owners[foreign]
        if not len(threads):
            return
        records = record(threads, m.order.clock[threads], index, False)
        for owner in np.unique(owners).tolist():
            mine = owners == owner
            latest = dict(zip(threads[mine].tolist(), records[mine].tolist(), strict=True))
            self._uses.setdefault(owner, {}).update(latest)
            unsure = m.seen[threads[mine]] & np.uint64(PEERS) == 0
            if unsure.any():
                unsure &= ~m.order.knows_of(threads[mine], owner)
            if unsure.any():
                self._report(
                    m, records[mine][unsure], owner,
                    "nothing says that this CTA has begun: a cluster barrier, or a signal of it, has to come first",
                )  # fmt: skip
            if not self._alive(m, owner):
                self._report(m, records[mine], owner, "the CTA that owns this shared memory may have ended")

    def left(self, m: Machine, threads: Array) -> None:
        """These threads are done: CTAs that end with them."""
        if not self._uses or not m.order.fine:
            return
        for owner in np.unique(threads // m.per_cta).tolist():
            if owner not in self._uses or self._alive(m, owner):
                continue
            records = np.array(list(self._uses[owner].values()), np.int64)
            members = np.arange(owner * m.per_cta, (owner + 1) * m.per_cta)
            open_ = ~m.order.known_to_any(threads_of(records), clocks_of(records), members)
            if open_.any():
                self._report(m, records[open_], owner, "nothing orders the end of the owning CTA behind this use")

    def _alive(self, m: Machine, cta: int) -> bool:
        return bool(m.alive[cta * m.per_cta : (cta + 1) * m.per_cta].any())

    def _report(self, m: Machine, records: Array, owner: int, why: str) -> None:
        place = m.place(int(places_of(records)[0]), int(threads_of(records)[0]))
        memory = f"shared memory of CTA {owner}"
        m.hazards.add(Hazard(HazardKind.RACE, place, memory, None, None, why, len(records)))
