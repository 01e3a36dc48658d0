"""Files that steer Python, pytest or the validator from where they lie, whatever policy lists."""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
import warnings
from collections.abc import Mapping

from validator.gate.keys import changed_keys, try_document
from validator.tables import Document

__all__ = ["ini_sections", "is_hook", "is_path_file", "pins_of_validator", "project_keys", "setup_keywords"]

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
    "pip.conf": "it says where packages come from",
    "pip.ini": "it says where packages come from",
    "uv.toml": "it says where packages come from",
    ".tool-versions": "it chooses the interpreter",
    "mise.toml": "it chooses the interpreter",
}
_PROJECT_TABLES = (
    ("tool", "validator"),
    ("tool", "pytest"),
    ("tool", "coverage"),
    ("tool", "tox"),
    ("project", "entry-points"),
    *(("project", table, name) for table in ("scripts", "gui-scripts") for name in ("validator", "pytest", "python")),
    ("build-system",),
    ("tool", "setuptools", "package-dir"),
    ("tool", "setuptools", "py-modules"),
    ("tool", "setuptools", "cmdclass"),
    ("tool", "hatch", "envs"),
    ("tool", "hatch", "build", "hooks"),
    ("tool", "poetry", "plugins"),
    ("tool", "poetry", "build"),
    ("tool", "uv"),
    ("tool", "poe"),
    ("tool", "pdm", "scripts"),
)
_INI_SECTIONS = ("tool:pytest", "pytest", "tox", "testenv", "options.entry_points", "aliases", "coverage:run")
_MODULE_SUFFIXES = (".py", ".so", ".pyd")
_STARTS = ("sitecustomize", "usercustomize")
_AT_EVERY_START = "Python runs it at every start"


def is_hook(path: str) -> str:
    """Why a file of this name is run or obeyed by itself; empty when it is not. Some file systems fold letters."""
    folder, name = posixpath.split(path.casefold())
    if name.endswith(".pyc"):
        return "it is compiled Python, which can be run instead of its source"
    module = posixpath.basename(folder) if name == "__init__.py" else name.split(".", 1)[0]
    if module in _STARTS and name.endswith(_MODULE_SUFFIXES):
        return _AT_EVERY_START
    return _HOOKS.get(name, "")


def is_path_file(path: str, data: bytes | None) -> bool:
    """Whether Python runs the lines of a `.pth` file. Weights are called so as well, and are no text."""
    text = data is not None and b"\0" not in data[:8192] and not data.startswith((b"PK", b"\x80"))
    return path.casefold().endswith(".pth") and text


_PIN_FILES = re.compile(r"(?i)(requirements|constraints|environment|pipfile|pyproject|setup\.cfg$)|\.lock$")
_NAMED = re.compile(r"(?<![\w./-])validator(?![\w./-])")
_LOCKED = re.compile(r"""(?m)^name = "validator"$|"validator": *\{""")


def pins_of_validator(old: bytes | None, new: bytes | None, path: str) -> bool:
    """Whether the version of the validator that a file of dependencies asks for differs."""
    if not _PIN_FILES.search(posixpath.basename(path)):
        return False
    return _pins(old) != _pins(new)


def _pins(data: bytes | None) -> set[str]:
    """Lines that ask for the validator, and the whole entry where a lock file spreads it over several."""
    text = (data or b"").decode("utf-8", "replace")
    lines = {line.strip() for line in text.splitlines() if _NAMED.search(line) and not line.lstrip().startswith("#")}
    entries = re.split(r"\n(?=\[)|\n\s*\n|(?<=\}),?\n", text)
    return lines | {entry.strip() for entry in entries if _LOCKED.search(entry)}


_SETUP = frozenset({"entry_points", "py_modules", "package_dir", "cmdclass", "scripts", "data_files"})


def setup_keywords(old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """Arguments of `setup` that put modules, plugins or commands somewhere, and differ."""
    before, after = _setup(old), _setup(new)
    if after is None:
        return ("it cannot be read",)
    return tuple(sorted(key for key in after if after[key] != (before or {}).get(key)))


def _setup(data: bytes | None) -> dict[str, str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    keywords = (node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in _SETUP)
    return {str(node.arg): ast.dump(node.value) for node in keywords}


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
