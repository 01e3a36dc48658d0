"""What a condition that chooses the path may not read: the device, clocks, chance, what differs from rank to rank."""

from __future__ import annotations

import pytest

from tests.support.memory_tree import MemoryTree
from validator.isolation.dispatch import choices
from validator.isolation.source import Sources

BASE = "def step(self, x, meta):\n    return stock(x)\n"


@pytest.mark.parametrize(
    ("condition", "certain"),
    [
        ("meta.lens.unique().numel() == 1", True),
        ("torch.is_nonzero(meta.flag)", True),
        ("time.monotonic_ns() % 2", True),
        ("os.environ['LOCAL_RANK'] == '0'", True),
        ("os.getenv('OMPI_COMM_WORLD_LOCAL_RANK') == '0'", True),
        ("torch.cuda.current_device() == 0", True),
        ("torch.cuda.mem_get_info()[0] > 1", True),
        ("torch.cuda.memory_allocated() > 1", True),
        ("threading.get_ident() % 2", True),
        ("torch.cuda.current_stream().query()", True),
        ("self.done_event.query()", True),
        ("os.path.exists('a')", False),
        ("meta.lens.max() < 8", False),
        ("x.shape[0] <= 4 and x.is_cuda and meta.count == 1", None),
        ("torch.cuda.is_current_stream_capturing()", None),
        ("self.database.query()", None),
        ("os.environ['ENGINE_FUSED'] == '1'", None),
        ("self.memory_limit > 1", None),
    ],
)
def test_what_a_condition_reads(condition: str, certain: bool | None) -> None:
    head = BASE.replace("    return", f"    if self.fused and {condition}:\n        return 0\n    return")
    base = Sources(MemoryTree({"a.py": BASE}), lambda _: False)
    found = choices(
        base, Sources(MemoryTree({"a.py": head}), lambda _: False, twin=base), [("a.py", "a.py")], frozenset()
    )
    hazards = [hazard for choice in found for hazard in choice.hazards]
    assert [(h.line, h.certain) for h in hazards] == ([] if certain is None else [(2, certain)])
