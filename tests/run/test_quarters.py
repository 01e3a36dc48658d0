"""The packages that a worker may import are those that the gate's interpreter would import, wherever they lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from validator.run.adapters import ADAPTERS
from validator.run.channel import Call
from validator.run.limits import Limits
from validator.run.outcome import Outcome
from validator.run.quarters import Quarters
from validator.run.sandbox import Worker

FILES = {
    "one/apart/first/__init__.py": "SAID = 'first'\n",
    "one/apart/cu/lib/here.py": "SAID = 'here'\n",
    "two/apart/second/__init__.py": "SAID = 'second'\n",
    "two/apart/cu/lib/there.py": "SAID = 'there'\n",
    "two/apart/first/__init__.py": "SAID = 'hidden by the first folder'\n",
    "one/apart/whole/hidden.py": "SAID = 'hidden by a package with __init__.py'\n",
    "two/apart/whole/__init__.py": "SAID = 'whole'\n",
    "tree/asks.py": """
import apart.cu.lib.here, apart.cu.lib.there, apart.first, apart.second, apart.whole

def run():
    said = [m.SAID for m in (apart.cu.lib.here, apart.cu.lib.there, apart.first, apart.second, apart.whole)]
    assert said == ["here", "there", "first", "second", "whole"], said
""",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("two", "one"):  # the last one comes first
        monkeypatch.syspath_prepend(tmp_path / name)
    return tmp_path


ADAPTER = replace(ADAPTERS["numpy"], optional=("apart",))


def test_a_package_whose_parts_lie_in_two_folders_is_one(folder: Path) -> None:
    """As `nvidia` is, where a tool is installed beside an environment that has torch's libraries."""
    with Worker("asks:run", folder / "tree", Limits(wall=20, memory=1 << 30), adapter=ADAPTER) as worker:
        reply = worker.call(Call((), ()))
    assert (reply.outcome, reply.detail) == (Outcome.OK, "")


def test_a_package_in_one_folder_is_a_link_and_what_is_made_for_others_goes_with_the_worker(folder: Path) -> None:
    quarters = Quarters.made(ADAPTER)
    assert (quarters.libraries / "numpy").is_symlink()
    assert not (quarters.libraries / "apart").is_symlink()
    quarters.remove()
    assert not quarters.folder.exists()
    assert (folder / "one/apart/cu/lib/here.py").exists()
