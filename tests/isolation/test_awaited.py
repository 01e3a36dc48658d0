"""Modules that the base asks for and only the head has: an optional import that failed until now takes its branch,
and what loads the files that it finds finds more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.isolation_case import context_of, honest
from tests.support.repository import Node
from validator.isolation.analysis import Analysis
from validator.isolation.rules import not_evaluated

NEW = {b"engine/fast.py": b"def run(x):\n    return x\n"}
K3 = "engine.models.k3_fused"


def _asked(asking: str, folder: Path, at: bytes = b"engine/asks.py") -> list[tuple[str, str, int]]:
    base, good = honest()
    shared = {at: Node(asking.encode())}
    new = {path: Node(text) for path, text in NEW.items()}
    analysis = Analysis(context_of(base | shared, good | shared | new, folder))
    found = [(a.name, a.asked_by, a.line) for a in analysis.awaited]
    assert len(list(not_evaluated.expected(analysis))) == len(found)
    return found


@pytest.mark.parametrize(
    ("asking", "name", "line"),
    [
        ("try:\n    from engine.fast import run\nexcept ImportError:\n    run = None\n", "engine.fast", 2),
        ("try:\n    from . import fast\nexcept ImportError:\n    fast = None\n", "engine.fast", 2),
        ("def f():\n    import engine.fast as e\n    return e\n", "engine.fast", 2),
        ("import importlib.util as u\nHAS = u.find_spec('engine.fast') is not None\n", "engine.fast", 2),
        (f"import importlib\n\n\ndef f():\n    return importlib.import_module('{K3}.executor')\n", K3, 5),
        (f"def f():\n    try:\n        from {K3} import executor\n    except ImportError:\n        pass\n", K3, 3),
    ],
)
def test_the_base_asks_for_what_the_head_brings(asking: str, name: str, line: int, tmp_path: Path) -> None:
    assert _asked(asking, tmp_path) == [(name, "engine/asks.py", line)]


@pytest.mark.parametrize(
    "asking",
    [
        "import engine.layers.norm as fast\n",
        "from other import fast\nfrom engine.fast_one import run\n",
        "# from engine.fast import run\nMODE = 'fast'\n",
        '"""Tell `engine.fast` from others."""\n',
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from engine.fast import run\n",
    ],
)
def test_the_base_asks_for_something_else(asking: str, tmp_path: Path) -> None:
    assert _asked(asking, tmp_path) == []


FINDS = "import importlib\n\nKNOWN = {'K': 'k3'}\n\n\ndef f(arch, package):\n    return importlib.import_module(NAME)\n"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("f'engine.models.{arch}'", True),
        ("'engine.models.' + arch", True),
        ("'engine.%s.executor' % arch", True),
        ("'engine.models.{}'.format(arch)", True),
        ("'.'.join(['engine.models', arch])", True),
        ("f'.models.{arch}', package='engine'", True),
        ("f'engine.models.{arch}.executor'", True),
        ("f'engine.models.{arch}_one'", False),
        ("f'engine.layers.{arch}'", False),
        ("f'engine.models.{KNOWN[arch]}'", False),
        ("f'{package}.{arch}'", False),
        ("arch", False),
    ],
)
def test_names_that_are_put_together_can_be_that_of_a_new_module(name: str, found: bool, tmp_path: Path) -> None:
    asked = _asked(FINDS.replace("NAME", name), tmp_path)
    assert [(by, line) for _, by, line in asked] == ([("engine/asks.py", 7)] if found else [])


def test_a_loop_over_names_asks_for_those(tmp_path: Path) -> None:
    loop = "import importlib\n\nfor name in ('k3', 'LAST'):\n    importlib.import_module(f'engine.models.{name}')\n"
    assert not _asked(loop, tmp_path)
    assert _asked(loop.replace("LAST", "k3_fused"), tmp_path) == [(K3, "engine/asks.py", 4)]


LOADS = "import importlib, os\nfor f in {how}:\n    importlib.import_module(f'engine.models.{{f}}')\n"


@pytest.mark.parametrize(
    ("asking", "at", "found"),
    [
        (LOADS.format(how="os.listdir(HERE)"), b"engine/models/scan.py", True),
        (LOADS.format(how="HERE.rglob('*.py')"), b"engine/models/scan.py", True),
        (LOADS.format(how="('llama', 'k3')"), b"engine/models/scan.py", False),
        (
            f"import os\nN = os.listdir('w')\n{'# far away' * 200}\n{LOADS.format(how='NAMES')}",
            b"engine/scan.py",
            False,
        ),
        (LOADS.format(how="os.listdir(HERE)"), b"engine/layers/scan.py", False),
        ("from pathlib import Path\nW = list(Path('w').glob('*.bin'))\n", b"engine/models/scan.py", False),
    ],
)
def test_code_that_loads_the_files_that_it_finds(asking: str, at: bytes, found: bool, tmp_path: Path) -> None:
    base, head = honest()
    shared = {at: Node(asking.encode())}
    analysis = Analysis(context_of(base | shared, head | shared, tmp_path))
    assert bool(list(not_evaluated.walked(analysis))) is found


def test_tests_may_ask(tmp_path: Path) -> None:
    assert _asked("import engine.fast\n", tmp_path, b"tests/test_fast.py") == []
