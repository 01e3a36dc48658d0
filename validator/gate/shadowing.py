"""Files that Python would import instead of something else, from where they lie."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Collection, Sequence

from validator.change.model import Tree
from validator.manifest.model import Manifest

__all__ = ["import_roots", "shadowed"]

_LIBRARIES = frozenset(
    {
        *("_pytest", "click", "cuda", "cupy", "cutlass", "elftools", "git", "hypothesis", "jax", "ml_dtypes", "numpy"),
        *("pkg_resources", "pluggy", "pydantic", "pydantic_core", "pytest", "rich", "scipy", "setuptools", "torch"),
        *("triton", "validator"),
    }
)
"""What the validator, its worker and honest kernels import besides the standard library."""
_COMPILED = (".so", ".pyd")
_MODULE_SUFFIXES = (".py", ".pyc", *_COMPILED)


def import_roots(manifest: Manifest | None) -> frozenset[str]:
    """Folders from which programs import: the top level, `src`, and what the manifest's kernels say."""
    kernels = manifest.kernels if manifest else ()
    declared = (posixpath.normpath(kernel.import_root) for kernel in kernels)
    return frozenset({"", "src", *("" if root == "." else root for root in declared)})


def shadowed(path: str, base: Tree, head: Tree, roots: Collection[str]) -> str:
    """What this new file would be imported instead of: a well-known module, or a file of the base; empty: nothing."""
    folder, name = posixpath.split(path)
    package = name == "__init__.py"
    if not package and not name.endswith(_MODULE_SUFFIXES):
        return ""
    place, module = posixpath.split(folder) if package else (folder, name.split(".", 1)[0])
    if module.startswith("__") or not module:
        return ""
    if _well_known(module) and (place in roots or _holds_tests(head.names(place))):
        return module
    return _joined(path, base, roots) or _beside(place, module, name, base)


def _well_known(module: str) -> bool:
    return module in _LIBRARIES or module in sys.stdlib_module_names


def _holds_tests(names: Sequence[str]) -> bool:
    """Whether pytest puts the folder on the import path: it holds tests and is no package."""
    tests = any(name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py" for name in names)
    return tests and "__init__.py" not in names


def _joined(path: str, base: Tree, roots: Collection[str]) -> str:
    """The library whose namespace the file would join: `cuda/bindings/__init__.py` at an import root."""
    for root in roots:
        inside = path.removeprefix(f"{root}/") if root else path
        top = inside.split("/", 1)[0]
        known = "/" in inside and inside != path[: len(root)] and top in _LIBRARIES
        if known and not base.names(posixpath.join(root, top)):
            return top
    return ""


def _beside(place: str, module: str, name: str, base: Tree) -> str:
    """The file of the base that gives way: packages come before extensions, extensions before sources, and a module
    before a folder that is no package."""
    there = base.names(place)
    source, folder = f"{module}.py", posixpath.join(place, module)
    if name == "__init__.py" or name.endswith(_COMPILED):
        return posixpath.join(place, source) if source in there else ""
    if module in there and "__init__.py" not in (inside := base.names(folder)):
        return f"what lies in {folder}/" if any(n.endswith(".py") for n in inside) else ""
    return ""
