"""From `validator init` to `pass`, by what the commands, the two files and the README say, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.repository import RepositoryBuilder

Cli = Callable[..., Any]

BASE = {
    "stock/__init__.py": "",
    "stock/scale.py": "def scale(x, w, out):\n    out[...] = x * w\n",
    "serving/__init__.py": "",
    "serving/model.py": """\
import os

from stock.scale import scale


def decode(x, w, out):
    scale(x, w, out)
""",
}

CHANGE = {
    "fastpath/__init__.py": "",
    "fastpath/fused_scale/__init__.py": "",
    "fastpath/fused_scale/model.py": """\
import numpy as np


def scale(x, w, out):
    np.multiply(x, w, out=out)
""",
    "fastpath/fused_scale/scale.sm_100a.ptx": """\
.version 8.6
.target sm_100a
.address_size 64

.visible .entry scale(.param .u64 x, .param .u64 w, .param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<11>;

    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [w];
    ld.param.u64 %rd3, [out];
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd7, %r1, 4;
    add.s64 %rd8, %rd5, %rd7;
    ld.global.f32 %f1, [%rd8];
    griddepcontrol.wait;
    add.s64 %rd9, %rd4, %rd7;
    ld.global.f32 %f2, [%rd9];
    mul.f32 %f3, %f1, %f2;
    add.s64 %rd10, %rd6, %rd7;
    st.global.f32 [%rd10], %f3;
    ret;
}
""",
    "serving/model.py": """\
import os

from stock.scale import scale


def decode(x, w, out):
    if os.environ.get("SERVING_FUSED_SCALE", "0") == "1":
        from fastpath.fused_scale.model import scale as fused

        fused(x, w, out)
        return
    scale(x, w, out)
""",
}

POLICY_EDITS = {
    # This machine may have no disassembler; the README says what PTX alone does not show.
    'min_strength = "proof-on-machine-code"': 'min_strength = "proof-on-ptx"',
    '"**/reference/**", "**/references/**"': '"stock/**"',
}

MANIFEST_EDITS = {
    "TODO: what it is, in one line": "Fused scale",
    "@TODO": "@ann",
    "TODO: what it does, for whom, and why it is worth a path of its own": "Scales without a temporary.",
    '"fastpath/fused_scale/**"': '"fastpath/fused_scale/**", "fastpath/__init__.py"',
    "entry_points = []": 'entry_points = ["fastpath.fused_scale.model:scale"]',
    "shared = []": 'shared = ["serving/model.py"]',
    "TODO_ENABLE_FUSED_SCALE": "SERVING_FUSED_SCALE",
    '"TODO"': '"tiny"',
    "max = 1 }": "max = 4 }",
    '"bfloat16"': '"float32"',
}

KERNEL = """
[[artifacts]]
path = "fastpath/fused_scale/scale.sm_100a.ptx"

[[kernels]]
match = "scale"
launch = { pdl = true }
candidate = "fastpath.fused_scale.model:scale"
reference = "stock.scale:scale"
dims = ["B in 1..4", "D in 1..64"]
batch = "B"

[[kernels.args]]
name = "x"
role = "activation"
dtype = "float32"
shape = ["B", "D"]
domain = { low = -2.0, high = 2.0 }

[[kernels.args]]
name = "w"
role = "weight"
dtype = "float32"
shape = ["D"]
domain = { low = -2.0, high = 2.0 }

[[kernels.args]]
name = "out"
role = "output"
dtype = "float32"
shape = ["B", "D"]
"""


def edit(path: Path, edits: Mapping[str, str]) -> None:
    text = path.read_text()
    for old, new in edits.items():
        assert old in text, f"{path.name} as `validator init` writes it has no {old!r}"
        text = text.replace(old, new)
    path.write_text(text)


def test_from_init_to_pass(cli: Cli, tmp_path: Path) -> None:
    repo = RepositoryBuilder(tmp_path / "repo")

    def commit(files: Mapping[str, str], *paths: str) -> None:
        for name, text in files.items():
            (repo.path / name).parent.mkdir(parents=True, exist_ok=True)
            (repo.path / name).write_text(text)
        repo.git("add", *files, *paths)
        repo.git("commit", "-q", "-m", "step")

    def check() -> Any:
        return cli("check", "--base", "main", "--head", "HEAD", "--seed", "1", cwd=repo.path)

    repo.git("checkout", "-q", "-B", "main")
    assert cli("init", "fused-scale", cwd=repo.path).code == 0
    edit(repo.path / "policies/fast-track.toml", POLICY_EDITS)
    commit(BASE, "policies")

    repo.git("checkout", "-q", "-b", "fused-scale")
    commit({}, "rfcs")
    untouched = check()
    assert untouched.code == 1, "a manifest that nobody filled in must not pass"
    assert "'@TODO' is still to be filled in" in " ".join(untouched.out.split())

    manifest = repo.path / "rfcs/fused-scale.toml"
    edit(manifest, MANIFEST_EDITS)
    commit(CHANGE, "rfcs")
    undeclared = check()
    assert undeclared.code == 1, "compiled code that no [[kernels]] declares must not pass"

    manifest.write_text(manifest.read_text() + KERNEL)
    commit({}, "rfcs")
    ran = check()
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.startswith("PASS")
    assert ran.err == ""

    assert "kernels compiled from" not in " ".join(ran.out.split())
    commit({"fastpath/fused_scale/other.cu": "__global__ void other(float* x) { *x = 1; }\n"})
    beside = check()
    assert "kernels compiled from fastpath/fused_scale/other.cu: no [[builds]] table" in " ".join(beside.out.split())

    edit(manifest, {'fastpath.fused_scale.model:scale"]': 'fastpath.fused_scale.model:nothing"]'})
    commit({}, "rfcs")
    wrong = check()
    assert wrong.code == 1, "an entry point that is not there must not pass"
    assert "`fastpath.fused_scale.model:nothing`, which is not in the head" in " ".join(wrong.out.split())
