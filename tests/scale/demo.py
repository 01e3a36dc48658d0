"""The demo's change for four architectures: two that it ships compiled files for, two that are built here."""

from __future__ import annotations

from pathlib import Path

from tests.support.repository import Node, RepositoryBuilder, read_tree
from validator.resources import resource

ARCHITECTURES = ("sm_90a", "sm_100a", "sm_103a", "sm_120a")
KERNELS = "fastpath/kda_decode/kernels"
PREBUILT = Path(__file__).parents[2] / "fixtures/scale"
_LISTED = '["sm_90a", "sm_100a"]'
_ALL = "[" + ", ".join(f'"{a}"' for a in ARCHITECTURES) + "]"
_BUILD = f"""
[[builds]]
source = "{KERNELS}/kda_decode.cu"
toolchain = "{{toolchain}}"
root = "{KERNELS}"
flags = ["-O3"]
ships = ["{KERNELS}/kda_decode.{{{{arch}}}}.ptx", "{KERNELS}/kda_decode.{{{{arch}}}}.cubin"]
"""


def build(
    folder: Path,
    *,
    compiled: bool,
    scenario: tuple[str, ...] = ("good",),
    source: bytes | None = None,
    demanded: bool = False,
    built: tuple[str, ...] = ARCHITECTURES,
) -> Path:
    """`compiled`: the change ships two architectures, and all that are `built` are built here with nvcc; else it ships
    all four.

    `demanded`: the policy asks for builds.

    `scenario`: folders of the demo, laid over one another. `source`: other contents of the kernel's source.
    """
    builder = RepositoryBuilder(folder)
    demo = resource("fixtures/demo")
    base = read_tree(demo / "base")
    policy = base[b"policies/fast-track.toml"].data.decode().replace(_LISTED, _ALL)
    policy = policy.replace("min_cases = 30", "min_cases = 5")
    if demanded:
        policy = policy.replace("\nname =", '\nobligations = ["build", "ordering"]\nname =', 1)
    base[b"policies/fast-track.toml"] = Node(policy.encode())
    head = dict(base)
    for layer in scenario:
        head |= read_tree(demo / layer)
    manifest = head[b"rfcs/kda-decode.toml"].data.decode().replace(_LISTED, _ALL)
    added = _BUILD.format(toolchain="nvcc" if compiled else "prebuilt")
    if built != ARCHITECTURES:
        added += f"architectures = [{', '.join(map(repr, built))}]\n"
    head[b"rfcs/kda-decode.toml"] = Node((manifest + added).encode())
    if not compiled:
        for file in sorted(PREBUILT.glob("kda_decode.*")):
            head[f"{KERNELS}/{file.name}".encode()] = Node(file.read_bytes())
    if source is not None:
        head[f"{KERNELS}/kda_decode.cu".encode()] = Node(source)
    first = builder.commit(base, branch="main")
    builder.commit(head, first, branch="change")
    return folder
