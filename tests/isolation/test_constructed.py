"""Attributes that the constructor sets are there only where it ran, and hold only what it set."""

from __future__ import annotations

import pytest

from tests.isolation.test_offpath import CONFIG, _prove, _proven

BASE = """
from settings import Config

class Layer:
    def __init__(self, config: Config):
        self.config = config

    def forward(self, x):
        return stock(x)
"""
HEAD = BASE.replace("= config\n", "= config\n        self.runner = None\n").replace(
    "        return stock", "        if self.runner is not None: return self.runner(x)\n        return stock"
)
BELOW = "from a import Layer\n\nclass Other(Layer):\n"
MIXED = "from a import Layer\n\nclass Other(Mixin, Layer):\n    pass\n"


@pytest.mark.parametrize(
    "text",
    [
        "from a import Layer\nmade = Layer.__new__(Layer)\n",
        "from a import Layer as L\nmade = object.__new__(L)\n",
        "from a import Layer\nMade = type('Made', (Layer,), {'__init__': lambda self: None})\n",
        "from a import Layer\nMade = type('Made', (Layer,), {'__init__': quick})\n",
        "from a import Layer\n\ndef f(t, x):\n    return Layer.forward(t, x)\n",
        "from a import Layer\n\nclass Other:\n    forward = Layer.forward\n",
        "import a\nimport types\nrun = types.MethodType(a.Layer.forward, object())\n",
        "from a import Layer\nLayer.__init__ = quick\n",
        BELOW + "    def __init__(self):\n        pass\n",
        BELOW + "    def __init__(self):\n        if late(): super().__init__(None)\n",
        BELOW + "    def __init__(self):\n        super(Layer, self).__init__()\n",
        "import torch.nn as nn\n" + BELOW + "    def __init__(self):\n        nn.Module.__init__(self)\n",
        BELOW + "    pass\n\nclass Third(Other):\n    def __init__(self):\n        pass\n",
        "class Mixin:\n    def __init__(self):\n        pass\n\n" + MIXED,
        "from a import Layer as Stock\n\nclass Other(Stock):\n    def __init__(self):\n        pass\n",
        BELOW + "    @classmethod\n    def empty(cls):\n        return cls.__new__(cls)\n",
        BELOW + "    def __setstate__(self, state):\n        self.config = state\n",
        BELOW + "    def __setattr__(self, name, value):\n        object.__setattr__(self, name, 1)\n",
    ],
)
def test_an_object_without_its_constructor_is_told(text: str) -> None:
    proof = _prove(BASE, HEAD, CONFIG, other=text)
    told = [s.difference for s in proof.differences]
    assert all(d.raises and d.undecided for d in told), told
    assert any("other.py:" in d.reason for d in told), told


@pytest.mark.parametrize(
    "text",
    [
        "from a import Layer\nmade = Layer(None)\n",
        "import inspect\nfrom a import Layer\nshape = inspect.signature(Layer.forward)\n",
        "from a import Layer\nsame = other.forward is not Layer.forward\n",
        BELOW + "    def __init__(self):\n        super().__init__(None)\n",
        BELOW + "    def __init__(self):\n        Layer.__init__(self, None)\n",
        BELOW + "    def forward(self, x):\n        return Layer.forward(self, x)\n",
        BELOW + "    def __copy__(self):\n        new = type(self).__new__(type(self))\n"
        "        new.__dict__.update(self.__dict__)\n        return new\n",
        BELOW + "    def __getstate__(self):\n        return self.__dict__.copy()\n",
        BELOW + "    def __new__(cls, *args):\n        return super().__new__(cls)\n",
        "class Layer:\n    pass\n\nclass Other(Layer):\n    def __init__(self):\n        pass\n",
        "class Mixin:\n    pass\n\n" + MIXED,
    ],
)
def test_an_object_with_it_is_as_good_as_before(text: str) -> None:
    proof = _prove(BASE, HEAD, CONFIG, other=text)
    assert _proven(proof), proof.differences


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BELOW + "    def take(self, more):\n        for k, v in more.items(): setattr(self, k, v)\n", 5),
        (BELOW + "    def take(self, more):\n        self.__dict__.update(more)\n", 5),
        (BELOW + "    def take(self, more):\n        vars(self).update(**more)\n", 0),
        (BELOW + "    def take(self, key, value):\n        vars(self)[key] = value\n", 5),
        (BELOW + "    def take(self, more):\n        self.__dict__ = more\n", 5),
        (BELOW + "    def take(self, key, value):\n        object.__setattr__(self, key, value)\n", 5),
        ("from a import Layer\n\ndef take(layer: Layer, k, v):\n    setattr(layer, k, v)\n", 4),
        ("from a import Layer\n\ndef take(k, v):\n    layer = Layer(None)\n    setattr(layer, k, v)\n", 5),
        ("from a import Layer\n\ndef take(k, v):\n    setattr(Layer, k, v)\n", 4),
        # Told by name, of another class, or with the names in sight.
        (BELOW + "    def take(self, name, value):\n        setattr(self, f'weight_{name}', value)\n", 0),
        (BELOW + "    def take(self):\n        for name in ('a', 'b'): setattr(self, name, 1)\n", 0),
        (BELOW + "    def __setstate__(self, state):\n        self.__dict__.update(state)\n", 0),
        (BELOW + "    def twin(self, other):\n        self.__dict__.update(other.__dict__)\n", 0),
        ("from a import Layer\n\nclass Other:\n    def take(self, k, v):\n        setattr(self, k, v)\n", 0),
        ("from a import Layer\n\ndef take(weight, k, v):\n    setattr(weight, k, v)\n", 0),
    ],
)
def test_attributes_that_are_set_under_computed_names_are_told(text: str, line: int) -> None:
    proof = _prove(BASE, HEAD, CONFIG, other=text)
    told = [s.difference for s in proof.differences]
    assert [(d.line, d.lookup, d.undecided) for d in told] == ([(7, f"other.py:{line}", True)] if line else [])
