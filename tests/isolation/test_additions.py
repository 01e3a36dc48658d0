"""What a change registers and asks for, and which of it takes effect with the switch off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.isolation_case import context_of, edited, honest
from tests.support.repository import Node
from validator.isolation.analysis import Analysis
from validator.isolation.rules.not_evaluated import built

K3 = "engine/models/k3.py"
FUSED = "engine/models/k3_fused"
READ = "        options = fused_decode_options(engine_config)\n"
GUARDED = "            from engine.models.k3_fused.executor import build\n"
Found = set[tuple[str, str, bool]]


def _additions(folder: Path, edit: Mapping[str, Any], more: Mapping[bytes, Node] | None = None) -> Found:
    base, head = ({**tree, **(more or {})} for tree in honest())
    plain = {(a.kind, a.name) for a in Analysis(context_of(base, head, folder)).additions}
    found = Analysis(context_of(base, edited(head, [edit]), folder)).additions
    return {(a.kind, a.name, a.for_everybody) for a in found if (a.kind, a.name) not in plain}


KINDS: list[tuple[str, dict[str, str], Found]] = [
    (
        "an operator where it always runs",
        {"path": K3, "old": READ, "new": f'{READ}        torch.library.custom_op("k3::step", mutates_args=())\n'},
        {("operator", "k3::step", True)},
    ),
    (
        "a variable behind the switch",
        {"path": K3, "old": GUARDED, "new": f'{GUARDED}            os.environ.get("K3_TILE")\n'},
        {("environment variable", "K3_TILE", False)},
    ),
    (
        "a variable for everybody",
        {"path": K3, "old": READ, "new": f'{READ}        self.tile = os.environ.get("K3_TILE")\n'},
        {("environment variable", "K3_TILE", True)},
    ),
    (
        "a variable of the package",
        {"path": f"{FUSED}/extra.py", "new": 'import os\n\n\ndef tile():\n    return os.getenv("K3_TILE", "8")\n'},
        {("environment variable", "K3_TILE", False)},
    ),
    (
        "a Triton kernel",
        {"path": f"{FUSED}/extra.py", "new": "import triton\n\n\n@triton.jit\ndef step_kernel(x):\n    pass\n"},
        {("kernel", "step_kernel", False)},
    ),
    (
        "an operator in a shared library",
        {"path": "csrc/ops.cpp", "new": "TORCH_LIBRARY_FRAGMENT(k3ops, m) {}\n"},
        {("operator", "k3ops", True)},
    ),
    (
        "an operator of the package's own in a native file of it",
        {"path": f"{FUSED}/csrc/ops.cpp", "new": "TORCH_LIBRARY_IMPL(k3ops, CUDA, m) {}\n"},
        {("operator", "k3ops", False)},
    ),
    (
        "another implementation of everybody's operators in a native file of the package",
        {"path": f"{FUSED}/csrc/ops.cpp", "new": "TORCH_LIBRARY_IMPL(aten, CUDA, m) {}\n"},
        {("operator", "aten", True)},
    ),
    (
        "a CUDA kernel",
        {"path": "csrc/k.cu", "new": "template <int N>\n__global__ void __launch_bounds__(128) step(float* x) {}\n"},
        {("kernel", "step", False)},
    ),
    (
        "a config key of the package",
        {"path": f"{FUSED}/extra.py", "new": 'def f(engine_config):\n    return engine_config.get("k3_tile")\n'},
        {("config key", "k3_tile", False)},
    ),
    (
        "a CMake target",
        {"path": "CMakeLists.txt", "new": "add_library(k3 k3.cu)\n"},
        {("build target", "k3", True)},
    ),
    (
        "an extension module",
        {"path": "setup.py", "new": 'CUDAExtension(name="k3._C", sources=[])\n'},
        {("build target", "k3._C", True)},
    ),
    (
        "a requirement of the project",
        {"path": "pyproject.toml", "old": '"numpy"]', "new": '"numpy>=2"]'},
        {("dependency", "numpy>=2", True), ("dependency gone", "numpy", True)},
    ),
]


@pytest.mark.parametrize(("edit", "found"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_each_kind(edit: dict[str, str], found: Found, tmp_path: Path) -> None:
    assert _additions(tmp_path, edit) == found


@pytest.mark.parametrize(("name", "taken"), [("norm", True), ("k3_norm", False)])
def test_native_code_that_implements_what_the_base_calls(name: str, taken: bool, tmp_path: Path) -> None:
    base = {b"engine/uses.py": Node(b"import torch\n\n\ndef norm(x):\n    return torch.ops.stock.norm(x)\n")}
    text = f'TORCH_LIBRARY_IMPL(stock, CUDA, m) {{\n  m.impl("{name}", &f);\n}}\n'
    found = _additions(tmp_path, {"path": f"{FUSED}/csrc/ops.cpp", "new": text}, base)
    assert (("operator", f"stock::{name}", True) in found) is taken


def test_a_pin_that_moves_goes_and_comes(tmp_path: Path) -> None:
    base = {b"requirements.txt": Node(b"# all\ntorch==2.8.0\nnumpy\n")}
    edit = {"path": "requirements.txt", "old": "torch==2.8.0", "new": "torch==2.9.0"}
    assert _additions(tmp_path, edit, base) == {
        ("dependency", "torch==2.9.0", True),
        ("dependency gone", "torch==2.8.0", True),
    }


GLOBS = "file(GLOB_RECURSE SRC CONFIGURE_DEPENDS engine/*.cu)\n"


@pytest.mark.parametrize(
    ("build", "text", "line"),
    [
        ("CMakeLists.txt", GLOBS, 1),
        ("CMakeLists.txt", "project(x)\n" + GLOBS.replace("engine", "${CMAKE_CURRENT_SOURCE_DIR}/engine"), 2),
        ("cmake/engine.cmake", GLOBS.replace("engine", "${PROJECT_SOURCE_DIR}/engine"), 1),
        ("engine/CMakeLists.txt", "file(GLOB SRC models/*/csrc/*.cu)\n", 1),
        ("setup.py", "from glob import glob\nsources = glob('engine/**/*.cu', recursive=True)\n", 2),
        ("engine/ops/jit.py", "from pathlib import Path\nsources = list(Path(ROOT).rglob('*.cu'))\n", 2),
        ("tools/lint.py", "from pathlib import Path\nseen = list(Path('.').rglob('*.cu'))\n", 0),
        ("CMakeLists.txt", GLOBS.replace("_RECURSE", ""), 0),
        ("CMakeLists.txt", GLOBS.replace(".cu", ".cpp"), 0),
        ("csrc/CMakeLists.txt", GLOBS, 0),
        ("CMakeLists.txt", "add_library(x engine/stock.cu)\n", 0),
    ],
)
def test_sources_that_a_build_finds_by_itself_are_built_for_everybody(
    build: str, text: str, line: int, tmp_path: Path
) -> None:
    base, head = ({**tree, build.encode(): Node(text.encode())} for tree in honest())
    kernel = f"{FUSED}/csrc/step.cu"
    analysis = Analysis(context_of(base, head | {kernel.encode(): Node(b"int f() { return 1; }\n")}, tmp_path))
    found = [f"{f.where.path} {f.message.split()[0]}" for f in built(analysis)]
    assert found == ([f"{kernel} {build}:{line}"] if line else [])
