"""Isolation on a large tree, beside grimp alone: `python tests/benchmarks/bench_isolation.py`.

A repository of 6,000 files (3,200 Python files, about 1.3 million lines) with the fixture's honest change on top.
Prints the time and peak memory of the whole proof, reading git objects included, and the time that grimp needs to build
the import graph of the same tree checked out on disk.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.isolation_case import context_of, honest
from tests.support.repository import Node
from validator.isolation.proof import run

PACKAGES, MODULES, LINES, OTHER = 64, 50, 405, 2_800


def large_tree() -> dict[bytes, Node]:
    """The filler: packages of modules that import each other, and files of other kinds."""
    rng = random.Random(0)
    tree: dict[bytes, Node] = {}
    for package in range(PACKAGES):
        tree[f"engine/area{package}/__init__.py".encode()] = Node(b'"""An area."""\n')
        for module in range(MODULES - 1):
            tree[f"engine/area{package}/part{module}.py".encode()] = Node(_module(rng, package, module).encode())
    for number in range(OTHER):
        tree[f"docs/page{number}.md".encode()] = Node(b"text\n" * 40)
    return tree


def _module(rng: random.Random, package: int, module: int) -> str:
    """About `LINES` lines of ordinary code; imports go to modules of a lower number, so that there is no cycle."""
    lines = ['"""A part."""', "", "import os", "from typing import Any"]
    for _ in range(6):
        other = rng.randrange(module) if module else 0
        area = rng.randrange(package + 1)
        if (area, other) < (package, module):
            lines.append(f"from engine.area{area}.part{other} import Thing0 as T{len(lines)}")
    number = 0
    while len(lines) < LINES:
        lines += [
            "", "", f"class Thing{number}:",
            f'    """Thing {number} of the part."""', "",
            "    def __init__(self, config: Any, width: int = 1) -> None:",
            "        self.config = config", "        self.width = width", "        self.table: dict[str, int] = {}", "",
            "    @property", f"    def size{number}(self) -> int:", "        return self.width * 2", "",
            "    def update(self, key: str, value: int) -> int:", "        if key in self.table:",
            "            self.table[key] += value", "        else:", "            self.table[key] = value",
            "        for name, item in sorted(self.table.items()):", "            if item > self.width:",
            '                self.table[name] = item - self.width', "        return self.table[key]",
        ]  # fmt: skip
        number += 1
    return "\n".join(lines) + "\n"


def _grimp(folder: Path) -> float:
    """Seconds that grimp takes in a process of its own, without its cache."""
    code = (
        f"import sys, time; sys.path.insert(0, {str(folder)!r})\n"
        "import grimp\nstart = time.perf_counter()\n"
        "graph = grimp.build_graph('engine', cache_dir=None)\n"
        "print(time.perf_counter() - start, len(graph.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout
    return float(out.split()[0])


def main() -> None:
    base, head = honest()
    filler = large_tree()
    base, head = filler | base, filler | head
    python = [p for p in head if p.endswith(b".py")]
    lines = sum(head[p].data.count(b"\n") for p in python)
    print(f"tree: {len(head):,} files, {len(python):,} Python, {lines:,} lines")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "git").mkdir()
        context = context_of(base, head, folder / "git")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for label in ("first run", "second run"):
            start = time.perf_counter()
            result = run(context)
            print(f"{label}: {time.perf_counter() - start:.2f} s, worst {max(o.status for o in result.obligations)}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"peak memory: {peak / 1024:.0f} MB, of which {before / 1024:.0f} MB were there before (the tree itself)")
        for path, node in head.items():
            if path.endswith(b".py"):
                place = folder / "tree" / path.decode()
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(node.data)
        print(f"grimp alone: {_grimp(folder / 'tree'):.2f} s")


if __name__ == "__main__":
    main()
