"""How authors put a fast path behind a switch, and what looks the same and is not."""

from __future__ import annotations

import pytest

from tests.isolation.test_offpath import CONFIG, _prove, _proven

BASE = """
import contextlib
from settings import Config

class Layer:
    def __init__(self, config: Config):
        self.config = config

    def stock(self, x): return x
    def fast(self, x): return 0

    def forward(self, x):
        return self.stock(x)
"""
ASYNC = BASE.replace(
    "    def forward(self, x):\n        return self.stock(x)",
    "    async def forward(self, x):\n        y = await self.run(x)\n        return y",
)
PATHS = "def fast(layer, x): return 0\nPATHS = {'on': fast}\n"
STACK = """\
        with contextlib.ExitStack() as stack:
            if self.config.fused CONDITION 'on':
                stack.enter_context(contextlib.suppress(OSError))
            return self.stock(x)
"""


def _forward(body: str, more: str = "") -> str:
    return BASE.replace("        return self.stock(x)\n", body).replace("\nclass Layer", f"{more}\nclass Layer")


DISPLAY = "        return {'on': self.fast}.get(self.config.fused, self.stock)(x)\n"
GET = """\
        fn = PATHS.get(self.config.fused)
        if fn is not None: return fn(self, x)
        return self.stock(x)
"""
MEMBER = """\
        if self.config.fused in PATHS: return PATHS[self.config.fused](self, x)
        return self.stock(x)
"""
DELETED = """\
        mode = self.config.fused
        if mode == 'on': return 0
        del mode
        return self.stock(x)
"""
CLOSED = STACK.replace("            return", "            stack.close()\n            return")
READ = DELETED.replace("        return self.stock", "        print(mode)\n        return self.stock")
HELPED = """\
    async def forward(self, x):
        if self.config.fused == 'on':
            return 0
        return await self._stock(x)

    async def _stock(self, x):
        found = await self.run(x)
        return found
"""
ASKED = ASYNC[ASYNC.index("    async def") :]


@pytest.mark.parametrize(
    ("base", "same", "different"),
    [
        (BASE, _forward(DISPLAY), _forward(DISPLAY.replace("'on': ", "None: "))),
        (BASE, _forward(DISPLAY), _forward(DISPLAY.replace("self.fast}", "self.slow}"))),
        (BASE, _forward(GET, PATHS), _forward(GET, PATHS + "PATHS[None] = fast\n")),
        (BASE, _forward(GET, PATHS), _forward(GET, PATHS + "def add(k): PATHS.update(k)\n")),
        (BASE, _forward(GET, PATHS), _forward(GET, PATHS.replace("'on': fast", "**other"))),
        (BASE, _forward(MEMBER, PATHS), _forward(MEMBER.replace(" in ", " not in "), PATHS)),
        (BASE, _forward(STACK.replace("CONDITION", "==")), _forward(STACK.replace("CONDITION", "!="))),
        (
            BASE,
            _forward(STACK.replace("CONDITION", "==")),
            _forward(CLOSED.replace("CONDITION", "==")),
        ),
        (BASE, _forward(DELETED), _forward(READ)),
        (BASE, _forward(DELETED), _forward(DELETED.replace("del mode", "del mode, self.config"))),
        (ASYNC, ASYNC.replace("y =", "z =").replace("return y", "return z"), ASYNC.replace("await ", "")),
        (ASYNC, ASYNC.replace(ASKED, HELPED), ASYNC.replace(ASKED, HELPED.replace("await self._stock", "self._stock"))),
        (ASYNC, ASYNC.replace(ASKED, HELPED), ASYNC.replace(ASKED, HELPED.replace("self.run(x)", "self.run(x + 1)"))),
    ],
)  # fmt: skip
def test_ways_to_choose_a_path(base: str, same: str, different: str) -> None:
    proof = _prove(base, same)
    assert _proven(proof), [(s.difference, s.base_text, s.head_text) for s in proof.differences]
    assert not _proven(_prove(base, different))


STATE = """
from dataclasses import dataclass
@dataclass
class State:
    a: int
    b: int = 0

def parser(p):
    p.add_argument("--name", default="")

def make(args):
    return State(a=args.name)
"""
FIELD = STATE.replace("b: int = 0\n", "b: int = 0\n    fused: str | None = None\n").replace(
    'default="")\n', 'default="")\n    p.add_argument("--fused", default=None, choices=["on"])\n'
)


@pytest.mark.parametrize(
    ("given", "proven"),
    [
        ("fused=None", True), ("fused=args.fused", True), ("fused=getattr(args, 'fused', None)", True),
        ("fused='on'", False), ("fused=args.name", False), ("b=None", False), ("**{'fused': None}", False),
    ],
)  # fmt: skip
def test_a_field_that_is_handed_its_default(given: str, proven: bool) -> None:
    assert _proven(_prove(STATE, FIELD.replace("a=args.name", f"a=args.name, {given}"), CONFIG)) is proven


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@dataclass\n", "@dataclass(init=False)\n"),
        ("    b: int", "    def __init__(self, a, b=0, **more): self.a = more\n    b: int"),
        ("\n@dataclass\nclass State", "\nclass State"),
        ('    p.add_argument("--fused", default=None, choices=["on"])\n', ""),
    ],
)
def test_a_field_that_a_constructor_may_look_at(old: str, new: str) -> None:
    assert old in FIELD
    head = FIELD.replace(old, new).replace("a=args.name", "a=args.name, fused=args.fused")
    assert not _proven(_prove(STATE.replace(old, new), head, CONFIG))


RUNNER = """
import logging
from settings import Config
logger = logging.getLogger(__name__)

class Runner:
    def __init__(self, config: Config):
        self.config = config
        self.init_backend()

    def init_backend(self):
        self.backend = make(self.config)

    def forward(self, batch):
        return self.backend.forward(batch)

def make(config, **more): return [config]
"""
INIT = "        self.backend = make(self.config)\n"
FORWARD = "        return self.backend.forward(batch)\n"


@pytest.mark.parametrize(
    ("old", "same", "different"),
    [
        (
            INIT,
            f"        if self.config.fused == 'on':\n            return\n{INIT}",
            f"        if self.konfig.fused == 'on':\n            return\n{INIT}",
        ),
        (
            FORWARD,
            "        fast = getattr(self, '_k3_fast', None)\n"
            f"        if fast is not None:\n            return fast(batch)\n{FORWARD}",
            "        fast = getattr(self, 'backend', None)\n"
            f"        if fast is not None:\n            return fast(batch)\n{FORWARD}",
        ),
        (
            INIT,
            "        more = {}\n        if self.config.fused == 'on':\n            more['fused'] = True\n"
            "        self.backend = make(self.config, **more)\n",
            "        more = {}\n        if self.config.fused != 'on':\n            more['fused'] = True\n"
            "        self.backend = make(self.config, **more)\n",
        ),
        (
            INIT,
            "        more = []\n        if self.config.fused == 'on':\n            more.append(1)\n"
            "        self.backend = make(self.config, *more)\n",
            "        more = []\n        more.append(1)\n        self.backend = make(self.config, *more)\n",
        ),
    ],
)
def test_ways_to_hand_the_fast_path_on(old: str, same: str, different: str) -> None:
    proof = _prove(RUNNER, RUNNER.replace(old, same))
    assert _proven(proof), [(s.difference, s.base_text, s.head_text) for s in proof.differences]
    assert not _proven(_prove(RUNNER, RUNNER.replace(old, different)))


def test_an_attribute_that_another_shared_file_may_set() -> None:
    head = RUNNER.replace(FORWARD, f"        if getattr(self, 'k3_fast', None):\n            return 0\n{FORWARD}")
    assert _proven(_prove(RUNNER, head))
    assert not _proven(_prove(RUNNER, head, new={"late": "def warm(runner):\n    runner.k3_fast = 1\n"}))
    assert not _proven(
        _prove(RUNNER, head.replace("self.init_backend()\n", "self.init_backend()\n        self.k3_fast = 1\n", 1))
    )


def test_a_group_of_options_and_a_default_that_a_field_has() -> None:
    base = STATE.replace("p.add_argument", "p.add_argument")
    group = '    g = p.add_argument_group("k3")\n    g.add_argument("--fused", default=State.fused)\n'
    head = FIELD.replace('    p.add_argument("--fused", default=None, choices=["on"])\n', group)
    assert not _proven(_prove(base, head.replace("State.fused", "make(p)")))
    assert not _proven(_prove(base, head.replace('p.add_argument_group("k3")', "p.add_subparsers()")))
