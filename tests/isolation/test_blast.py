"""Import graph, reach, cycles, private names, patches: on small trees, and beside grimp."""

from __future__ import annotations

import sys
from pathlib import Path

import grimp
import pytest

from tests.support.isolation_case import honest
from tests.support.memory_tree import MemoryTree
from validator.isolation.blast.graph import build, cycles, reach
from validator.isolation.blast.imports import When, imports_of, scan
from validator.isolation.blast.radius import measure
from validator.isolation.source import Sources


def _sources(files: dict[str, str]) -> Sources:
    return Sources(MemoryTree(files), lambda path: path.startswith("pkg/fast/"))


TREE = {
    "pkg/__init__.py": "",
    "pkg/fast/__init__.py": "",
    "pkg/fast/run.py": "import torch\nfrom torch._C import _x\nfrom ..base import Base, _hidden\n\ndef run(): ...\n",
    "pkg/base.py": "class Base:\n    def forward(self): ...\n\n_hidden = 1\n",
    "pkg/model.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.fast.run import run\n\n\n"
        "class M:\n    def go(self):\n        if self.on:\n"
        "            from .fast import run as fast\n            return fast.run()\n"
        "        if not self.off:\n            return None\n        import pkg.fast.run\n"
    ),
    "pkg/app.py": "from pkg import model\n",
    "pkg/other.py": "import os\n",
    "requirements.txt": "torch==2.9.1\n",
}


def test_when_an_import_runs_and_what_guards_it() -> None:
    found = imports_of(_sources(TREE), "pkg/model.py")
    inward = [(i.line, i.module, i.name, i.when, i.inside, i.guards) for i in found if "fast" in i.module + i.name]
    assert inward == [
        (3, "pkg.fast.run", "run", When.TYPE_CHECKING, "", ()),
        (9, "pkg.fast", "run", When.LAZY, "M.go", ("self.on",)),
        (13, "pkg.fast.run", "", When.LAZY, "M.go", ("not (self.on)", "not (not self.off)")),
    ]


def test_reach_tells_import_time_from_call_time() -> None:
    sources = _sources(TREE)
    found = reach(build(sources), ["pkg/fast/run.py", "pkg/fast/__init__.py"])
    assert found.at_import == frozenset()
    assert found.at_call == {"pkg/model.py", "pkg/app.py"}
    eager = _sources(TREE | {"pkg/app.py": "from pkg import model\nimport pkg.fast.run\n"})
    assert reach(build(eager), ["pkg/fast/run.py"]).at_import == {"pkg/app.py"}


def test_what_the_package_uses_outside() -> None:
    radius = measure(_sources(TREE))
    assert radius.outward == ("pkg.base", "torch", "torch._C")
    assert {(u.name, u.third_party, u.pin) for u in radius.private} == {
        ("torch._C._x", True, "torch==2.9.1"),
        ("pkg.base._hidden", False, ""),
    }


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("from pkg.base import Base\nBase.forward = run\n", "Base.forward"),
        ("import pkg.base\npkg.base.Base.forward = run\n", "pkg.base.Base.forward"),
        ("from pkg import base\nsetattr(base.Base, 'forward', run)\n", "base.Base"),
        ("from pkg.base import TABLE\nTABLE['k'] = run\n", "TABLE['k']"),
        ("from pkg.base import TABLE\nTABLE.update(k=run)\n", "TABLE"),
        ("import os\n\ndef f():\n    os.environ['X'] = '1'\n", "os.environ['X']"),
        ("import os\nos.putenv('X', '1')\n", "os.putenv"),
        ("def f(model):\n    model.forward = run\n", "model.forward"),
        ("import torch\ntorch.nn.Linear.forward = run\n", "torch.nn.Linear.forward"),
    ],
)
def test_patches(code: str, target: str) -> None:
    patches = measure(_sources(TREE | {"pkg/fast/patch.py": code})).patches
    assert [p.target for p in patches] == [target]


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def __init__(self):\n        self.x = 1\n        self.forward = None\n",
        "TABLE = {}\nTABLE['k'] = 1\nTABLE.update(j=2)\n",
        "from pkg.base import Base\n\nclass C(Base):\n    def forward(self): ...\n",
        "def f(metadata):\n    metadata.fused_batch = 1\n",
    ],
)
def test_no_patch(code: str) -> None:
    assert measure(_sources(TREE | {"pkg/fast/own.py": code})).patches == ()


def test_cycles_are_eager_only() -> None:
    lazy = TREE | {"pkg/base.py": "def f():\n    import pkg.fast.run\n"}
    inside = frozenset({"pkg/fast/run.py"})
    assert cycles(build(_sources(lazy)), inside) == ()
    eager = TREE | {"pkg/base.py": "import pkg.fast.run\n"}
    assert cycles(build(_sources(eager)), inside) == (("pkg/base.py", "pkg/fast/run.py"),)


def test_the_scan_sees_every_form_of_import() -> None:
    data = (
        b"import a, b.c as d  # e\nfrom .f import (\n    g,  # h\n    i as j,\n)\nif x:\n    import k; import l\n"
        b"from m import *\nimportant = 1\nfrom . import n\n"
        b"from o \\\n    import p\nx = 1; import q\nif x: from r import s\n"
    )
    seen = [(s.level, s.module, s.names, s.eager) for s in scan(data)]
    assert seen == [
        (0, "a", (), True),
        (0, "b.c", (), True),
        (1, "f", ("g", "i"), True),
        (0, "k", (), False),
        (0, "l", (), False),
        (0, "m", ("*",), True),
        (1, "", ("n",), True),
        (0, "o", ("p",), True),
        (0, "q", (), True),
        (0, "r", ("s",), False),
    ]


def test_the_graph_is_grimps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named imports, lazy ones included, are the edges that grimp finds on the same tree."""
    files = {
        p.decode(): n.data.decode("latin-1")
        for p, n in honest()[1].items()
        if p.startswith(b"engine/") and p.endswith(b".py")
    }
    renamed = {f"graphcheck/{p.removeprefix('engine/')}": t.replace("engine.", "graphcheck.") for p, t in files.items()}
    renamed = {p: t.replace("from engine import", "from graphcheck import") for p, t in renamed.items()}
    for path, text in renamed.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    theirs = grimp.build_graph("graphcheck", cache_dir=None, exclude_type_checking_imports=False)
    sources = Sources(MemoryTree(renamed), lambda path: False)
    graph = build(sources)
    ours = {
        (sources.module_name(a), sources.module_name(b)) for a in sources.paths for b in graph.eager[a] | graph.lazy[a]
    }
    expected = {(m, t) for m in theirs.modules for t in theirs.find_modules_directly_imported_by(m)}
    assert ours == expected
    assert len(ours) > 15
    sys.modules.pop("graphcheck", None)


FLAGS = """
import contextlib, os
MODE, TABLE, CACHE, ONCE, COUNT = "a", {}, {}, None, 0
def set_mode(v):
    global MODE
    MODE = v
def put(k, v): TABLE[k] = v
def outer(v): set_mode(v)
def extend(v): TABLE.update(v)
def env(v):
    import os
    os.environ["X"] = v
class Reg:
    models, level = {}, 1
    @classmethod
    def add(cls, k, v): cls.models[k] = v
    @classmethod
    def get(cls, k): return cls.models.get(k)
    @staticmethod
    def set_level(v): Reg.level = v
def cached(k):
    if k not in CACHE:
        CACHE[k] = make(k)
    return CACHE[k]
def cached_too(k):
    try:
        return CACHE[k]
    except KeyError:
        CACHE[k] = make(k)
    return CACHE[k]
def once():
    global ONCE
    if ONCE is None:
        ONCE = make(1)
    return ONCE
def count():
    global COUNT
    COUNT += 1
    return COUNT
@contextlib.contextmanager
def scope(v):
    global MODE
    before, MODE = MODE, v
    try: yield
    finally: MODE = before
def local(v):
    MODE = {}
    MODE[v] = 1
    MODE.update(v)
"""


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        ("set_mode(1)", "MODE"), ("put('a', 1)", "TABLE['a']"), ("outer(1)", "MODE"), ("extend({})", "TABLE"),
        ("env('1')", "os.environ"), ("Reg.add('a', 1)", "cls.models[k]"), ("Reg.set_level(1)", "Reg.level"),
        ("cached(1)", ""), ("cached_too(1)", ""), ("once()", ""), ("count()", ""), ("scope(1)", ""), ("local(1)", ""),
        ("Reg.get('a')", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["from pkg.flags import {0}\n\ndef go():\n    {1}\n", "import pkg.flags as f\nf.{1}\n"])
def test_shared_functions_that_change_what_all_share(call: str, changes: str, how: str) -> None:
    text = how.format(call.partition("(")[0].partition(".")[0], call)
    files = {"pkg/__init__.py": "", "pkg/flags.py": FLAGS, "pkg/fast/__init__.py": "", "pkg/fast/run.py": text}
    found = measure(_sources(files)).patches
    assert [(p.line, p.at_import) for p in found] == (
        [(text.count("\n"), text.startswith("import"))] if changes else []
    )
    assert all(p.target.startswith("pkg.flags: ") and changes.split("[")[0] in p.target for p in found)


CHANGES = [
    ("import pkg.base as b", "setattr(type(model), 'forward', len)"),
    ("import pkg.base as b", "type.__setattr__(model.__class__, 'forward', len)"),
    ("import pkg.base as b", "object.__setattr__(b, '_hidden', 2)"),
    ("import pkg.base as b", "put = setattr\n    put(b, '_hidden', 2)"),
    ("import pkg.base as b", "table = b.TABLE\n    table.update(x=1)"),
    ("import pkg.base as b", "table = b.table\n    table['x'] = 1"),
    ("import os", "os.environ.__setitem__('A', '1')"),
    ("import operator, os", "operator.setitem(os.environ, 'A', '1')"),
    ("import logging", "logging.getLogger('pkg').setLevel(50)"),
    ("import logging", "log = logging.getLogger('pkg')\n    log.addHandler(model)"),
    ("import sys", "sys._getframe(1).f_globals['x'] = 1"),
    ("import torch", "torch.library.Library('aten', 'IMPL')"),
    ("import torch", "torch.library.Library('stock', 'IMPL')"),
    ("import torch", "torch.library.impl('stock::norm', 'CUDA')(model)"),
    ("import torch", "torch.library.register_fake('stock::norm')(model)"),
    ("from torch.library import register_kernel", "register_kernel('aten::add.Tensor', 'cuda')(model)"),
    ("import torch", "torch.cuda.set_device(0)"),
    ("import torch", "torch.backends.cuda.enable_flash_sdp(False)"),
    ("import torch", "torch.set_grad_enabled(False)"),
    ("import torch.multiprocessing as mp", "mp.set_sharing_strategy('file_system')"),
    ("import torch.distributed as dist", "dist.init_process_group('nccl')"),
    ("from torch.cuda import set_device as go", "go(0)"),
    ("import numpy as np", "np.seterr(all='raise')"),
    ("import asyncio", "asyncio.set_event_loop_policy(None)"),
    ("import resource", "resource.setrlimit(1, (1, 1))"),
    ("import os", "os.sched_setaffinity(0, {0})"),
    ("import decimal", "decimal.getcontext().prec = 5"),
    ("import copyreg", "copyreg.pickle(int, len)"),
    ("import wrapt", "wrapt.wrap_function_wrapper('pkg.base', 'add', len)"),
    ("import heapq, pkg.base as b", "heapq.heappush(b.TABLE, 1)"),
    ("import functools, pkg.base as b", "functools.partial(setattr, b, '_hidden')(2)"),
    ("import pkg.base as b", "list(map(setattr, [b], ['_hidden'], [2]))"),
    ("from pkg.base import TABLE", "TABLE |= {'x': 1}"),
    ("from transformers import AutoConfig", "AutoConfig.register('k3', int)"),
    ("import importlib, pkg.base as b", "importlib.reload(b)"),
]
KEEPS = [
    ("from pkg import base", "base.add(1, 2)"),
    ("import pkg.base as b", "table = dict(b.TABLE)\n    table['x'] = 1"),
    ("import pkg.base as b", "setattr(self, 'x', 1)"),
    ("import logging", "logger = logging.getLogger(__name__)\n    logger.setLevel(50)"),
    ("import torch", "torch.library.Library('k3', 'DEF')"),
    ("import torch", "torch.library.Library('stock', 'FRAGMENT')"),
    ("import torch", "torch.library.register_fake('stock::k3_norm')(model)"),
    ("import os", "os.environ.get('A')"),
    ("import torch", "with torch.set_grad_enabled(False): pass"),
    ("import torch", "with torch.cuda.device(0): pass"),
    ("import torch", "g = torch.Generator()\n    g.manual_seed(0)"),
    ("import numpy as np", "found = np.setdiff1d(model, self)"),
    ("import copyreg", "class Own: pass\n    copyreg.pickle(Own, len)"),
    ("import heapq", "heap = []\n    heapq.heappush(heap, 1)"),
    ("from pkg.base import COUNT", "COUNT = 1\n    COUNT += 1"),
]


@pytest.mark.parametrize(
    ("imported", "done", "changes"), [*((*c, True) for c in CHANGES), *((*k, False) for k in KEEPS)]
)
def test_ways_to_change_what_is_outside(imported: str, done: str, changes: bool) -> None:
    text = f"{imported}\n\ndef later(self, model):\n    {done}\n"
    uses = "import torch\n\ndef norm(x):\n    return torch.ops.stock.norm(x)\n"
    found = measure(_sources(TREE | {"pkg/fast/run.py": text, "pkg/uses.py": uses})).patches
    assert [p.line for p in found] == ([text.count("\n")] if changes else [])
