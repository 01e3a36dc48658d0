"""A small change with two kernels on numpy and one compiled file: what a check of it runs takes seconds."""

from __future__ import annotations

from pathlib import Path

from tests.support.repository import Node, RepositoryBuilder
from validator.resources import resource

STOCK = "def scale(x, w, out):\n    out[...] = x * w\n\n\ndef shift(x, w, out):\n    out[...] = x + w\n"
FAST = """\
def scale(x, w, out):
    for column in range(x.shape[1]):
        out[:, column] = x[:, column] * w[column]


def shift(x, w, out):
    for row in range(x.shape[0]):
        out[row] = x[row] + w
"""
POLICY = """\
schema = "validator/policy/1"
obligations = ["gate", "isolation/paths", "scope", "ordering", "differential"]
[isolation]
binary = ["fast/**"]
[ordering]
required = false
[differential]
min_cases = 40
"""
_KERNEL = """
[[kernels]]
match = "{name}"
candidate = "fast.model:{name}"
reference = "stock.ops:{name}"
dims = ["B in {{1, 4}}", "D in {{1, 40}}"]
[[kernels.args]]
name = "x"
role = "activation"
dtype = "float32"
shape = ["B", "D"]
[[kernels.args]]
name = "w"
role = "weight"
dtype = "float32"
shape = ["D"]
[[kernels.args]]
name = "out"
role = "output"
dtype = "float32"
shape = ["B", "D"]
"""
MANIFEST = """\
schema = "validator/manifest/1"
id = "small"
title = "Two small kernels"
owners = ["@ann"]
created = 2026-11-02
expires = 2027-03-31
summary = "Two small kernels."
[switch]
kind = "env"
name = "FAST"
value = "1"
default = "0"
[isolation]
paths = ["fast/**", "rfcs/small.toml"]
[scope]
models = ["m"]
architectures = ["sm_90a"]
dtypes = ["float32"]
batch = { min = 1, max = 4 }
[[artifacts]]
path = "fast/*.cubin"
""" + "".join(_KERNEL.format(name=name) for name in ("scale", "shift"))


def build(folder: Path, *, cases: int = 40) -> Path:
    """The repository, with the branches `main` and `change`. `cases`: that its policy asks for."""
    builder = RepositoryBuilder(folder)
    base = {
        b"policies/fast-track.toml": Node(POLICY.replace("= 40", f"= {cases}").encode()),
        b"stock/__init__.py": Node(b""),
        b"stock/ops.py": Node(STOCK.encode()),
    }
    cubin = resource("fixtures/demo") / "good/fastpath/kda_decode/kernels/kda_decode.sm_90a.cubin"
    head = {
        **base,
        b"fast/__init__.py": Node(b""),
        b"fast/model.py": Node(FAST.encode()),
        b"fast/kda_decode.sm_90a.cubin": Node(cubin.read_bytes()),
        b"rfcs/small.toml": Node(MANIFEST.encode()),
    }
    first = builder.commit(base, branch="main")
    builder.commit(head, first, branch="change")
    return folder
