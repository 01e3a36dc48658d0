"""Attributes of other classes that have the switch's name: those that hold nothing else while it is off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.isolation_case import context_of, edited, honest
from validator.isolation.rules import switch_ambiguous

READ = "        options = fused_decode_options(engine_config)\n"
KEPT = "        self.k3_fused_decode = None\n"
STATES = {"path": "engine/worker/model_states.py", "old": "        self.model = model\n"}


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("        if options is not None:\n            self.k3_fused_decode = probe()\n", False),
        ("        if options is None:\n            self.k3_fused_decode = probe()\n", True),
        ("        self.k3_fused_decode = probe()\n", True),
    ],
)
def test_what_is_kept_behind_the_switch(stored: str, told: bool, tmp_path: Path) -> None:
    base, head = honest()
    model = {"path": "engine/models/k3.py", "old": READ, "new": READ + KEPT + stored}
    changed = edited(head, [model, STATES | {"new": f"{KEPT}{STATES['old']}"}])
    assert bool(list(switch_ambiguous.check(context_of(base, changed, tmp_path)))) is told
