"""What a kernel's callables rest on in their trees: enough of it to run a stored case where there is no repository.

Imports are read from the source text; what is only found at run time is missing, and a replay says so by failing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from validator.change.model import ChangeError, Tree
from validator.manifest.contract import KernelContract

__all__ = ["MOST", "base_sources", "head_sources"]

MOST = 16 << 20
"""Bytes of one side that are stored; a compiled file or a module beyond that is left out."""


def head_sources(tree: Tree, contract: KernelContract) -> dict[str, bytes]:
    """Path → content of what the candidate is loaded from."""
    targets = [t for t in (contract.candidate, contract.torch) if t is not None]
    artifact = [contract.compiled.artifact] if contract.compiled is not None else []
    return _read(tree, contract.import_root, targets, artifact)


def base_sources(tree: Tree, contract: KernelContract) -> dict[str, bytes]:
    """Path → content of what the reference, its yardstick, its checker and its generator are loaded from."""
    named = (contract.reference, contract.baseline, contract.tolerance.checker, contract.generator)
    return _read(tree, contract.import_root, [t for t in named if t is not None], [])


def _read(tree: Tree, root: str, targets: Iterable[str], files: Iterable[str]) -> dict[str, bytes]:
    prefix = "" if root in ("", ".") else root.strip("/") + "/"
    found: dict[str, bytes] = {}
    waiting = [target.partition(":")[0] for target in targets]
    seen: set[str] = set()
    for path in files:
        _add(tree, path, found)
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            stem = prefix + "/".join(parts[:length])
            for path in (f"{stem}/__init__.py", *([f"{stem}.py"] if length == len(parts) else [])):
                if path not in found and (source := _add(tree, path, found)) is not None:
                    package = parts[:length] if path.endswith("__init__.py") else parts[: length - 1]
                    waiting += _imported(source, package)
    return found


def _add(tree: Tree, path: str, found: dict[str, bytes]) -> bytes | None:
    """The file, if there is one and there is room for it; a path that is not plain is none."""
    if not path.isascii() or not path.isprintable() or {"", ".", ".."} & set(path.split("/")):
        return None
    try:
        data = tree.read(path) if tree.entry(path) is not None else None
    except ChangeError:
        return None
    if data is None or sum(map(len, found.values())) + len(data) > MOST:
        return None
    found[path] = data
    return data


def _imported(source: bytes, package: list[str]) -> Iterator[str]:
    """Every module that a source may mean; names that are none are simply not found."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*up, *(node.module or "").split(".")]).strip(".")
            if base:
                yield base
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names if alias.name != "*")
