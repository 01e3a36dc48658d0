"""What else has the switch's name: attributes that hold nothing else while it is off, and what the base writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.isolation_case import context_of, edited, honest
from tests.support.repository import Node
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f(config):\n    config.k3_fused_decode = True\n", 2),
        ("def f(make):\n    return make(\n        k3_fused_decode=True)\n", 3),
        ("def f(config):\n    config.additional_config['k3_fused_decode'] = True\n", 2),
        ("def f(table):\n    table.setdefault('k3_fused_decode', True)\n", 2),
        ("def f(make):\n    return make(k3_fused_decode=False)\n", 0),
        ("def f(make, on):\n    return make(k3_fused_decode=on)\n", 0),
    ],
)
def test_what_the_base_writes_under_the_name(text: str, line: int, tmp_path: Path) -> None:
    base, head = ({**tree, b"engine/tools.py": Node(text.encode())} for tree in honest())
    found = [(f.where.path, f.where.line) for f in switch_ambiguous.check(context_of(base, head, tmp_path))]
    assert found == ([("engine/tools.py", line)] if line else [])
