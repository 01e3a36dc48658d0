"""Off-path equivalence on small programs: what is proven, what is refuted, and on which line."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.memory_tree import MemoryTree
from validator.isolation.offpath.compare import Kind
from validator.isolation.offpath.equivalence import FileProof, prove
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.source import Sources

CONFIG = SwitchSpec.parse("config", "fused", "on", None)
NESTED = SwitchSpec.parse("config", "additional_config.fused", True, None)
ENV = SwitchSpec.parse("env", "ENGINE_FUSED", "1", "0")
FLAG = SwitchSpec.parse("flag", "--fused", True, False)


def _prove(base: str, head: str, switch: SwitchSpec = CONFIG, **others: str) -> FileProof:
    """`others`: further files of both sides, `/` written as `__`."""
    more = {f"{name.replace('__', '/')}.py": textwrap.dedent(text) for name, text in others.items()}
    before = Sources(MemoryTree(more | {"a.py": textwrap.dedent(base)}), lambda p: p.startswith("fast/"))
    after = Sources(MemoryTree(more | {"a.py": textwrap.dedent(head)}), before.isolated, twin=before)
    return prove(before, after, switch, [("a.py", "a.py")])[0]


def _proven(proof: FileProof) -> bool:
    return not proof.problem and not proof.differences


BASE = """
    class Layer:
        def __init__(self, config):
            self.config = config
            self.stock = make(config)

        def forward(self, x, scale=1.0):
            y = self.stock(x)
            return y * scale
"""


def _with(old: str, new: str) -> str:
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


Y = "            y = self.stock(x)\n"
STOCK = "            self.stock = make(config)\n"
SAME = {
    "if guard": _with(Y, "            if self.config.fused == 'on':\n                return run(x)\n" + Y),
    "is not None": _with(Y, "            if self.config.fused is not None:\n                return run(x)\n" + Y),
    "membership": _with(Y, "            if self.config.fused in ('on', 'auto'):\n                return run(x)\n" + Y),
    "truth": _with(Y, "            if self.config.fused:\n                return run(x)\n" + Y),
    "getattr": _with(Y, "            if getattr(self.config, 'fused', None):\n                return run(x)\n" + Y),
    "else branch": _with(
        Y,
        """\
            if self.config.fused is None:
                y = self.stock(x)
            else:
                y = run(x)
""",
    ),
    "early return of the stock path": _with(
        Y + "            return y * scale\n",
        """\
            if self.config.fused is None:
                y = self.stock(x)
                return y * scale
            from fast.run import run
            return run(x)
""",
    ),
    "conditional expression": _with(Y, "            y = run(x) if self.config.fused else self.stock(x)\n"),
    "short circuit and": _with(Y, "            y = (self.config.fused and run(x)) or self.stock(x)\n"),
    "guard with a pure part first": _with(
        Y, "            if x.shape[0] == 1 and self.config.fused is not None:\n                return run(x)\n" + Y
    ),
    "guard with a call behind": _with(
        Y, "            if self.config.fused is not None and admits(x):\n                return run(x)\n" + Y
    ),
    "not": _with(Y, "            if not (self.config.fused is None):\n                return run(x)\n" + Y),
    "walrus": _with(Y, "            if (mode := self.config.fused) is not None:\n                return run(x, mode)\n" + Y),
    "local": _with(Y, "            mode = self.config.fused\n            if mode == 'on':\n                return run(x)\n" + Y),
    "alias": _with(Y, "            f = self.stock\n            if self.config.fused:\n                f = run\n            y = f(x)\n"),
    "attribute holding None": _with(
        STOCK, STOCK + "            self.exec = None\n            if config.fused:\n                self.exec = Exec()\n"
    ).replace(Y, "            if self.exec is not None:\n                return self.exec(x)\n" + Y),
    "attribute by conditional": _with(STOCK, STOCK + "            self.exec = Exec() if config.fused else None\n").replace(
        Y, "            if self.exec:\n                return self.exec(x)\n" + Y
    ),
    "attribute that depends on another": _with(
        STOCK, STOCK + "            self.opts = config.fused\n            self.exec = Exec(self.opts) if self.opts else None\n"
    ).replace(Y, "            if self.exec is not None:\n                return self.exec(x)\n" + Y),
    "class attribute": _with("    class Layer:\n", "    class Layer:\n        exec_ = None\n\n").replace(
        Y, "            if self.exec_ is not None:\n                return self.exec_(x)\n" + Y
    ),
    "config function": _with(Y, "            if options(self.config) is not None:\n                return run(x)\n" + Y)
    + "\n    def options(config):\n        mode = config.fused\n        if mode is None:\n            return None\n        return {'mode': mode}\n",
    "config method": _with(Y, "            if self._fused():\n                return run(x)\n" + Y)
    + "\n        def _fused(self):\n            return self.config.fused == 'on' and cuda()\n",
    "config property": _with(Y, "            if self.is_fused:\n                return run(x)\n" + Y)
    + "\n        @property\n        def is_fused(self):\n            return self.config.fused is not None\n",
    "default argument that keeps calls": _with("scale=1.0):", "scale=1.0, executor=None):").replace(
        Y, "            if executor is not None:\n                return executor(x)\n" + Y
    ),
    "module constant": _with(Y, "            if MODE is not None:\n                return run(x)\n" + Y) + "\n    MODE = None\n",
    "loop": _with(Y, "            for hook in ():\n                hook(x)\n" + Y).replace("()", "([run] if self.config.fused else ())")
    .replace("make([run] if self.config.fused else ())", "make()"),
    "decorator that returns the function": "\n    def maybe(f):\n        return f\n"
    + _with("        def forward", "        @maybe\n        def forward"),
    "type checking": "\n    from typing import TYPE_CHECKING\n    if TYPE_CHECKING:\n        from fast.run import run\n" + BASE,
    "annotations": _with("self, x, scale=1.0):", "self, x: Tensor, scale: float = 1.0) -> Tensor:"),
    "docstring and comment": _with(Y, "            'Runs it.'  # so\n" + Y),
    "match left alone": _with(Y, "            if self.config.fused:\n                match x:\n                    case 1: pass\n" + Y),
    "new function": BASE + "\n    def helper(x):\n        return run(x)\n",
    "elif chain": _with(
        Y,
        """\
            if self.config.fused == 'on':
                y = run(x)
            elif self.config.fused == 'debug':
                y = debug(x)
            else:
                y = self.stock(x)
""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_proven(name: str) -> None:
    proof = _prove(BASE, SAME[name])
    assert _proven(proof), [(s.difference, s.base_text, s.head_text) for s in proof.differences]


DIFFERENT = {
    "or": _with(Y, "            if self.config.fused or x.ndim == 2:\n                return run(x)\n" + Y),
    "turned round": _with(Y, "            if self.config.fused is None:\n                return run(x)\n" + Y),
    "another attribute": _with(Y, "            if self.config.fast:\n                return run(x)\n" + Y),
    "a call in front": _with(Y, "            if log(x) and self.config.fused:\n                return run(x)\n" + Y),
    "a sync in front": _with(Y, "            if x.max().item() > 0 and self.config.fused:\n                return run(x)\n" + Y),
    "default that is on": _with(Y, "            if getattr(self.config, 'fused', 'on'):\n                return run(x)\n" + Y),
    "import in front": _with(Y, "            from fast.run import run\n" + Y),
    "attribute set elsewhere": _with(
        STOCK, STOCK + "            self.exec = Exec() if config.fused else None\n"
    ).replace(Y, "            if self.exec:\n                return self.exec(x)\n" + Y)
    + "\n        def load(self):\n            self.exec = Exec()\n",
    "attribute set from outside": _with(STOCK, STOCK + "            self.exec = None\n").replace(
        Y, "            if self.exec:\n                return self.exec(x)\n" + Y
    )
    + "\n    def install(layer):\n        layer.exec = Exec()\n",
    "attribute set by name": _with(STOCK, STOCK + "            self.exec = None\n            setattr(self, 'exec', Exec())\n").replace(
        Y, "            if self.exec:\n                return self.exec(x)\n" + Y
    ),
    "local rebound in a loop": _with(
        Y, "            mode = None\n            for m in x:\n                if mode:\n                    return run(x)\n                mode = m\n" + Y
    ),
    "local rebound in a try": _with(
        Y,
        "            mode = None\n            try:\n                mode = probe()\n            except OSError:\n                pass\n"
        "            if mode:\n                return run(x)\n" + Y,
    ),
    "nonlocal": _with(
        Y,
        "            mode = None\n\n            def turn():\n                nonlocal mode\n                mode = 1\n\n"
        "            turn()\n            if mode:\n                return run(x)\n" + Y,
    ),
    "global": _with(Y, "            if MODE:\n                return run(x)\n" + Y)
    + "\n    MODE = None\n\n    def turn():\n        global MODE\n        MODE = 1\n",
    "property with an effect, dropped": _with(Y, "            if self.tick and self.config.fused:\n                return run(x)\n" + Y)
    + "\n        @property\n        def tick(self):\n            return count()\n",
    "alias of something that a call may change": _with(
        "            y = self.stock(x)\n", "            f = self.stock\n            self.reset()\n            y = f(x)\n"
    ),
    "order of two calls": _with(Y, "            z = scale()\n            y = self.stock(x)\n").replace("y * scale", "y * z"),
    "decorator that wraps": "\n    def maybe(f):\n        return wrap(f)\n" + _with("        def forward", "        @maybe\n        def forward"),
    "argument that a call passes": _with("scale=1.0):", "scale=1.0, executor=None):").replace(
        Y, "            if executor is not None:\n                return executor(x)\n" + Y
    )
    + "\n        def twice(self, x):\n            return self.forward(x, executor=self.config.other)\n",
    "changed default": _with("scale=1.0", "scale=2.0"),
    "config function with an effect": _with(Y, "            if options(self.config) is not None:\n                return run(x)\n" + Y)
    + "\n    def options(config):\n        log('asked')\n        return None\n",
    "a method overridden below": _with(Y, "            if self._fused():\n                return run(x)\n" + Y)
    + "\n        def _fused(self):\n            return False\n\n    class Sub(Layer):\n        def _fused(self):\n            return True\n",
    "statement moved out of the guard": _with(Y, "            if self.config.fused:\n                pass\n            x = prepare(x)\n" + Y),
    "comprehension over the switch's default": _with(Y, "            x = [run(v) for v in x if self.config.fused is None]\n" + Y),
    "exception handler added": _with(Y, "            try:\n                y = self.stock(x)\n            except KeyError:\n                y = x\n"),
    "value of a name shadowed": _with(Y, "            int = probe\n            if int('0'):\n                return run(x)\n" + Y),
    "a shadowed module constant": _with("scale=1.0):", "scale=1.0, *, MODE):").replace(
        Y, "            if MODE is not None:\n                return run(x)\n" + Y
    )
    + "\n    MODE = None\n",
    "del": _with(STOCK, STOCK + "            del self.config.cache\n"),
    "augmented": _with(Y, "            scale += 0\n" + Y),
    "yield": _with(Y, "            if self.config.fused:\n                yield x\n" + Y),
    "async": _with("        def forward", "        async def forward"),
    "global default_factory": BASE + "\n    REGISTRY.append(run)\n",
    "base class changed": _with("class Layer:", "class Layer(Fast):"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_refuted(name: str) -> None:
    proof = _prove(BASE, DIFFERENT[name])
    assert any(not s.difference.undecided for s in proof.differences), (name, proof)


@pytest.mark.parametrize(
    ("read", "proven"),
    [
        ("config.additional_config is not None and config.additional_config.get('fused')", True),
        ("(config.additional_config or {}).get('fused')", True),
        ("'fused' in (config.additional_config or {}) and config.additional_config['fused']", True),
        ("config.additional_config and config.additional_config.get('fused', False)", True),
        ("config.additional_config.get('fused')", False),  # an error where the container is absent
        ("(config.additional_config or {}).get('fused', True)", False),
        ("(config.additional_config or {'fused': 1}).get('fused')", False),
        ("config.additional_config is None", False),
    ],
)
def test_every_way_of_being_off_of_a_key_in_a_container(read: str, proven: bool) -> None:
    base = "def forward(x, config):\n    if config.additional_config is None:\n        check(x)\n    return stock(x)\n"
    head = base.replace("    return stock", f"    if {read}:\n        return run(x)\n    return stock")
    assert _proven(_prove(base, head, NESTED)) is proven


@pytest.mark.parametrize(
    ("read", "proven"),
    [
        ("os.environ.get('ENGINE_FUSED') == '1'", True),
        ("os.environ.get('ENGINE_FUSED', '0') == '1'", True),
        ("os.getenv('ENGINE_FUSED', '0').lower() in ('1', 'true')", True),
        ("bool(int(os.getenv('ENGINE_FUSED', '0')))", True),
        ("envs.ENGINE_FUSED == '1'", True),
        ("os.environ.get('ENGINE_FUSED', '1') == '1'", False),
        ("os.environ.get('ENGINE_FUSED')", False),  # '0' is true
        ("os.environ.get('ENGINE_FUSED_') == '1'", False),
        ("'ENGINE_FUSED' in os.environ", False),
        ("os.environ['ENGINE_FUSED'] == '1'", False),  # an error when it is not set
    ],
)
def test_every_way_of_being_off_of_an_environment_variable(read: str, proven: bool) -> None:
    base = "import os\n\ndef forward(x):\n    return stock(x)\n"
    head = base.replace("    return stock", f"    if {read}:\n        return run(x)\n    return stock")
    assert _proven(_prove(base, head, ENV)) is proven


def test_a_function_argument_that_is_off_by_default() -> None:
    base = "def forward(x, fused=False):\n    return stock(x)\n"
    head = "def forward(x, fused=False):\n    if fused:\n        return run(x)\n    return stock(x)\n"
    assert _proven(_prove(base, head, FLAG))
    assert not _proven(_prove(base, head.replace("fused=False", "fused=True"), FLAG))


def test_the_smallest_difference_is_shown_side_by_side() -> None:
    head = _with("return y * scale", "return y * (scale + 1)")
    (shown,) = _prove(BASE, head).differences
    assert shown.difference.line == 9
    assert shown.base_text.strip() == "return y * scale"
    assert shown.head_text.strip() == "return y * (scale + 1)"
    assert shown.difference.inside == "Layer.forward"


def test_one_entry_of_a_long_table() -> None:
    base = "TABLE = {\n" + "".join(f"    'k{i}': {i},\n" for i in range(50)) + "}\n"
    (shown,) = _prove(base, base.replace("'k30': 30", "'k30': 31")).differences
    assert shown.difference.line == 32
    (shown,) = _prove(base, base.replace("    'k30': 30,\n", "")).differences
    assert shown.difference.base_line == 32


def test_residue_is_listed_by_kind() -> None:
    head = "import json\n" + SAME["attribute holding None"].replace("\n    ", "\n")
    proof = _prove(BASE, head)
    assert _proven(proof)
    assert {r.kind for r in proof.residue} == {Kind.MODULE_LOADED, Kind.ATTRIBUTE_STORE}
    assert any("`.exec` is None" in fact.text for fact in proof.facts)


def test_facts_of_a_class_whose_attribute_others_use_too() -> None:
    other = "class Runner:\n    def __init__(self):\n        self.exec = start()\n\n    def go(self):\n        return self.exec\n"
    assert _proven(_prove(BASE, SAME["attribute holding None"], runner=other))
    stores = other + "\ndef patch(layer):\n    layer.exec = start()\n"
    assert not _proven(_prove(BASE, SAME["attribute holding None"], runner=stores))
    sub = "from a import Layer\n\nclass Sub(Layer):\n    def __init__(self):\n        self.exec = start()\n"
    assert not _proven(_prove(BASE, SAME["attribute holding None"], sub=sub))


def test_a_function_in_another_file_is_followed() -> None:
    options = "from settings import DEFAULT\n\ndef options(config):\n    if config.fused is None:\n        return None\n    return 1\n"
    head = "    from options import options\n" + SAME["config function"].split("\n    def options")[0]
    assert _proven(_prove(BASE, head, options=options, settings="DEFAULT = 1\n"))
    assert not _proven(_prove(BASE, head, options=options.replace("return None", "return 2"), settings="DEFAULT = 1\n"))


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n",
        "x = '\n",
        "\0",
        "# -*- coding: nonsense -*-\n",
        "x = " + "(" * 5000 + ")" * 5000 + "\n",
        "x = " + "+".join(["1"] * 20000) + "\n",
        "def f():\n" + "".join(" " * (i + 1) + "if x:\n" for i in range(120)) + " " * 122 + "pass\n",
    ],
)
def test_what_cannot_be_read_is_a_problem_and_no_crash(text: str) -> None:
    for base, head in ((BASE, text), (textwrap.dedent(text), BASE)):
        proof = _prove(base, head)
        assert proof.problem or proof.differences


@pytest.mark.parametrize(
    "new",
    [
        "type Pair[T] = tuple[T, T]\n",
        "def pick[T: int](x: T) -> T:\n    return x\n",
        "class Box[T]:\n    pass\n",
        "def g(x):\n    try:\n        return x\n    except KeyError, ValueError:\n        return 0\n",
        "def h(x):\n    return t'{x}'\n",
        "def m(x):\n    match x:\n        case {'a': [1, *rest], **more}:\n            return rest\n",
        "def e(x):\n    try:\n        pass\n    except* ValueError:\n        pass\n",
    ],
)
def test_syntax_of_newer_pythons_is_read(new: str) -> None:
    base = "def f(x):\n    return x\n"
    for both in (new + base, base + new):
        assert _proven(_prove(both, both + "\n"))
        (shown,) = _prove(both, both.replace("    return x\n", "    return x + 1\n", 1)).differences[:1]
        assert "return x + 1" in shown.head_text


def test_the_off_value_is_not_taken_from_a_name_that_only_looks_alike() -> None:
    head = _with(Y, "            if self.config.fused_mode:\n                return run(x)\n" + Y)
    assert not _proven(_prove(BASE, head))


def test_an_import_in_the_guarded_branch_makes_the_name_local() -> None:
    base = "import torch\n\n\ndef forward(x, config):\n    return torch.relu(x)\n"
    head = base.replace("    return", "    if config.fused:\n        import torch\n        return fast(x)\n    return")
    (shown,) = _prove(base, head).differences
    assert shown.difference.line == 6
    assert "`torch` is bound only where the switch is on" in shown.difference.reason


def test_an_annotation_of_a_name_that_only_type_checkers_import() -> None:
    base = "def forward(x: int):\n    return x\n"
    head = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fast import Fast\n\n\ndef forward(x: Fast):\n    return x\n"
    assert not _proven(_prove(base, head))
    assert _proven(_prove(base, "from __future__ import annotations\n" + head))
    assert _proven(_prove(base, head.replace("x: Fast", "x: 'Fast'")))
