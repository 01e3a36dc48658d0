"""Files that steer Python, pytest or the validator from where they lie, whatever policy lists."""

from __future__ import annotations

import configparser
import posixpath
import sys
from collections.abc import Collection, Mapping, Sequence

from validator.change.model import Tree
from validator.gate.keys import changed_keys, try_document
from validator.manifest.model import Manifest
from validator.tables import Document

__all__ = ["import_roots", "ini_sections", "is_hook", "project_keys", "shadowed"]

_HOOKS = {
    "conftest.py": "pytest runs it before the tests",
    "pytest.ini": "it steers pytest",
    ".pytest.ini": "it steers pytest",
    "pytest.toml": "it steers pytest",
    ".pytest.toml": "it steers pytest",
    "sitecustomize.py": "Python runs it at every start",
    "usercustomize.py": "Python runs it at every start",
    ".python-version": "it chooses the interpreter",
    ".coveragerc": "it steers what a test run counts",
    "noxfile.py": "it starts the tests",
}
_PROJECT_TABLES = (
    ("tool", "validator"),
    ("tool", "pytest"),
    ("tool", "coverage"),
    ("tool", "tox"),
    ("project", "entry-points"),
    ("build-system",),
)
_INI_SECTIONS = ("tool:pytest", "pytest", "tox", "testenv", "options.entry_points")
_LIBRARIES = frozenset(
    {
        *("_pytest", "click", "cuda", "cupy", "cutlass", "elftools", "git", "hypothesis", "jax", "ml_dtypes", "numpy"),
        *("pkg_resources", "pluggy", "pydantic", "pydantic_core", "pytest", "rich", "scipy", "setuptools", "torch"),
        *("triton", "validator"),
    }
)
"""What the validator, its worker and honest kernels import besides the standard library."""
_MODULE_SUFFIXES = (".py", ".pyc", ".so", ".pyd")


def is_hook(path: str) -> str:
    """Why a file of this name is run or obeyed by itself; empty when it is not."""
    name = posixpath.basename(path)
    return "Python runs its lines at every start" if name.endswith(".pth") else _HOOKS.get(name, "")


def shadowed(path: str, tree: Tree, roots: Collection[str]) -> str:
    """The well-known module that this file would be imported instead of; empty when it hides none.

    Only folders on the import path count: `roots`, and folders of tests that are no packages, which pytest puts there.
    A module called `types` anywhere else hides nothing.
    """
    folder, name = posixpath.split(path)
    if name == "__init__.py":
        folder, module = posixpath.split(folder)
    elif name.endswith(_MODULE_SUFFIXES):
        module = name.split(".", 1)[0]
    else:
        return ""
    if module.startswith("__") or (module not in _LIBRARIES and module not in sys.stdlib_module_names):
        return ""
    return module if folder in roots or _holds_tests(tree.names(folder)) else ""


def _holds_tests(names: Sequence[str]) -> bool:
    tests = any(name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py" for name in names)
    return tests and "__init__.py" not in names


def import_roots(manifest: Manifest | None) -> frozenset[str]:
    """Folders from which programs import: the top level, `src`, and what the manifest's kernels say."""
    kernels = manifest.kernels if manifest else ()
    declared = (posixpath.normpath(kernel.import_root) for kernel in kernels)
    return frozenset({"", "src", *("" if root == "." else root for root in declared)})


def project_keys(old: bytes | None, new: bytes | None, path: str) -> tuple[tuple[str, ...], int | None]:
    """Keys of a `pyproject.toml` that steer tests, plugins, the build or the validator, and the first one's line."""
    before, _ = try_document(old, path)
    after, problem = try_document(new, path)
    if after is None:
        return (f"it cannot be read: {problem}",), None
    changes = changed_keys(before or Document(path, {}, {}), after)
    steering = [c for c in changes if any(c.path[: len(table)] == table for table in _PROJECT_TABLES)]
    return tuple(c.text for c in steering), next((c.line for c in steering if c.line), None)


def ini_sections(old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """Sections of a `setup.cfg` or `tox.ini` that steer tests or plugins and differ."""
    before, after = _ini(old), _ini(new)
    if after is None:
        return ("it cannot be read",)
    names = sorted({*(before or {}), *after})
    wanted = (name for name in names if name.startswith(_INI_SECTIONS))
    return tuple(f"[{name}]" for name in wanted if (before or {}).get(name) != after.get(name))


def _ini(data: bytes | None) -> Mapping[str, Mapping[str, str]] | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string((data or b"").decode("utf-8-sig"))
    except (configparser.Error, UnicodeDecodeError, AttributeError):  # a continuation of a key without a value
        return None
    return {name: dict(parser.items(name)) for name in parser.sections()}
