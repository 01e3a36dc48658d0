"""What the whole suite shares: how tests are handed to workers, and one disassembly of everything that is stored."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
STORED = (ROOT / "fixtures", ROOT.parent / "shared" / "cases")
"""Where compiled kernels lie."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker takes half of what is there, and the idle one takes from the other's end; as `--dist` where given.

    Neighbours stay together, so that what a module builds is built once.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what takes a minute at a stretch: at the end, the other workers would wait for it."""
    items.sort(key=lambda item: item.path.name != "test_demo.py")


@pytest.fixture(scope="session")
def disassembled() -> None:
    """Every stored kernel, in one run of the disassembler for each architecture: starting it is what costs time."""
    from validator.binary.elf import Cubin
    from validator.binary.tools import Tools
    from validator.ordering.sass.disassemble import decoder_for
    from validator.ordering.sass.errors import SassError

    tools = Tools.find()
    codes: dict[int, list[bytes]] = {}
    for file in (f for folder in STORED for f in sorted(folder.rglob("*.cubin"))) if tools.nvdisasm else ():
        with contextlib.suppress(SassError):  # a damaged one is a test of its own
            cubin = Cubin(file.read_bytes(), file.name)
            codes.setdefault(cubin.sm, []).extend(bytes(kernel.code) for kernel in cubin.kernels())
    for sm, found in codes.items():
        decoder_for(tools, sm).learn(found)
