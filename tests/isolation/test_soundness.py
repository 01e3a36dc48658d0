"""Ways in which a fact about an attribute, a name or a place could be believed wrongly."""

from __future__ import annotations

import textwrap

import pytest

from tests.isolation.test_offpath import _prove, _proven

BASE = """
from settings import Config


class Layer(Above):
    def __init__(self, config: Config):
        self.config = config
        self.stock = make(config)

    def forward(self, x):
        return self.stock(x)
"""
HEAD = """
from settings import Config


class Layer(Above):
    def __init__(self, config: Config):
        self.config = config
        self.stock = make(config)
        self.run = None
        if config.fused:
            self.run = Run()

    def forward(self, x):
        if self.run is not None:
            return self.run(x)
        return self.stock(x)
"""


def _with(text: str, imported: str = "", more: str = "") -> str:
    text = text if imported else text.replace("(Above)", "")
    return f"{imported}\n{text}{textwrap.dedent(more)}"


def test_the_control_is_proven() -> None:
    assert _proven(_prove(_with(BASE), _with(HEAD), other="class Other:\n    def f(self):\n        self.run = 1\n"))
    named = "def f(o, k):\n    setattr(o, f'walk_{k}', 1)\n    setattr(o, f'{k}_run', 1)\n    vars(o).update(rerun=1)\n"
    assert _proven(_prove(_with(BASE), _with(HEAD), other=named))
    above = "class Above:\n    def warm(self):\n        self.rerun = start()\n"
    assert _proven(_prove(_with(BASE, "from p import Above"), _with(HEAD, "from p import Above"), p=above))


STORES = "\n    def warm(self):\n        self.run = start()\n"


@pytest.mark.parametrize(
    ("imported", "files"),
    [
        ("from p import Above", {"p": f"class Above:{STORES}"}),
        ("from p import Other as Above", {"p": f"class Other:{STORES}"}),
        ("from p import Above", {"p": "from q import Top\nclass Above(Top): ...\n", "q": f"class Top:{STORES}"}),
        ("from p import Above", {"p": "class Above:\n    def __getattribute__(self, name):\n        return 1\n"}),
        ("from p import Above", {"p": "class Above:\n    def __setattr__(self, name, value):\n        log(name)\n"}),
        ("from p import Above", {"p": "class Above:\n    __slots__ = ('config', 'stock')\n"}),
        ("from p import Above", {"p": "class Above:\n    run = Descriptor()\n"}),
        ("", {"p": "from a import Layer\nclass Sub(Layer): ...\n", "q": f"from p import Sub\nclass Low(Sub):{STORES}"}),
        ("", {"p": "from a import Layer as L\nclass Sub(L):\n    run = 3\n"}),
        ("", {"p": "def attach(self):\n    self.run = start()\n"}),
        ("", {"p": "def attach(o, v):\n    o.__dict__.update(run=v)\n"}),
        ("", {"p": "def attach(o, k, v):\n    setattr(o, f'ru{k}', v)\n"}),
        ("", {"p": "def attach(o, k, v):\n    setattr(o, 'ru' + k, v)\n"}),
        ("", {"p": "def attach(o, k, v):\n    setattr(o, f'{k}un', v)\n"}),
        ("", {"p": "def attach(layers):\n    for layers[0].run in x: ...\n"}),
    ],
)
def test_an_attribute_that_relatives_or_strangers_may_set(imported: str, files: dict[str, str]) -> None:
    assert not _proven(_prove(_with(BASE, imported), _with(HEAD, imported), **files))


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("def k(a: int): ...\n", "def k(a: intt): ...\n"),
        ("def k(a: int): ...\n", "def k(a: 'int' | None): ...\n"),
        ("@register\ndef k(a): ...\n", "@register\ndef k(a: int): ...\n"),
        ("@register\ndef k(a: int): ...\n", "from __future__ import annotations\n@register\ndef k(a: int): ...\n"),
        ("import os\n", "import os\n\nTILE = os.environ['K3_TILE']\n"),
        ("import sys\n", "import sys\n\nMAIN = sys.modules['engine']\n"),
        ("start()\nimport other\n", "import other\nstart()\n"),
        ("def k(): return start\nstart()\n", "start()\ndef k(): return start\n"),
        ("def s():\n    globals()['NEW'] = 1\n", "NEW = None\ndef s():\n    globals()['NEW'] = 1\n    if NEW: go()\n"),
        ("from other import *\ndef s(): ...\n", "LIMIT = 0\nfrom other import *\ndef s():\n    if LIMIT: go()\n"),
        ("def s(o):\n    return vars(o)\n", "def s(o):\n    o.new_one = None\n    return vars(o)\n"),
    ],
)
def test_what_a_definition_or_its_place_may_do(base: str, head: str) -> None:
    assert not _proven(_prove(base, head, other="LIMIT = 1\nbegin()\n"))


NEW = "def fast(x):\n    return x\n"


@pytest.mark.parametrize(
    ("asking", "proven"),
    [
        ("try:\n    from a import fast\nexcept ImportError:\n    fast = None\n", False),
        ("def g():\n    from a import fast as f\n    return f\n", False),
        ("from b import fast\n", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import fast\n", True),
        ("from a import k\n# fast\n", True),
    ],
)
def test_a_name_that_the_base_asks_this_module_for(asking: str, proven: bool) -> None:
    assert _proven(_prove("def k(): ...\n", f"def k(): ...\n{NEW}", asks=asking, b=NEW)) is proven


@pytest.mark.parametrize(
    ("body", "new", "proven"),
    [
        ("def g(self): ...\n    v = max(1, 2)\n", "def max(self): ...", False),
        ("def g(self) -> list[int]: ...\n", "def list(self): ...", False),
        ("def g(self, x=type): ...\n", "type = None", False),
        ("def g(self): return max(1, 2)\n", "def max(self): ...", True),
        ("class In:\n        def g(self): return max(1, 2)\n", "def max(self): ...", True),
        ("v = max(1, 2)\n", "least = None", True),
    ],
)
def test_a_new_member_and_what_the_class_body_reads(body: str, new: str, proven: bool) -> None:
    base = f"class K:\n    {body}"
    assert _proven(_prove(base, base.replace("class K:\n", f"class K:\n    {new}\n"))) is proven


GUARDS = {
    "bool": "if bool(config.fused): return 0",
    "any": "if any((config.fused, 0)): return 0",
    "getattr": "if getattr(config, 'fused', None) == 'on': return 0",
    "isinstance": "if isinstance(config.fused, str): return 0",
    "len": "if len(config.fused or ()): return 0",
}


@pytest.mark.parametrize("name", GUARDS)
@pytest.mark.parametrize(
    "text",
    [
        "import builtins\nbuiltins.NAME = other\n",
        "import builtins as b\n\ndef install():\n    b.NAME = other\n",
        "import builtins\nsetattr(builtins, 'NAME', other)\n",
        "import builtins\nvars(builtins).update(NAME=other)\n",
        "__builtins__['NAME'] = other\n",
    ],
)
def test_builtins_that_the_base_replaces_are_not_worked_out(name: str, text: str) -> None:
    base = "from settings import Config\n\ndef f(x, config: Config):\n    return stock(x)\n"
    head = base.replace("    return", f"    {GUARDS[name]}\n    return")
    assert _proven(_prove(base, head, other="import builtins\nbuiltins.print = quiet\nf = builtins.NAME\n"))
    assert not _proven(_prove(base, head, other=text.replace("NAME", name)))
    assert not _proven(_prove(base + f"def {name}(*a): return 1\n", head + f"def {name}(*a): return 1\n"))
