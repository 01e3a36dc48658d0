"""The build hook: what it compiles is what is loaded, and where nothing compiles the package is built all the same."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.bridge.app import Application
from hatchling.builders.config import BuilderConfig

from validator.differential import native
from validator.differential.native.build import CustomBuildHook

ROOT = Path(__file__).resolve().parents[2]
NATIVE = Path("validator", "differential", "native")
SOURCES = sorted(("__init__.py", *(path.name for path in (ROOT / NATIVE).glob("*.[ch]"))))


def built(root: Path, target: str = "wheel") -> dict[str, Any]:
    """What the hook says of a tree that has the sources in C."""
    (root / NATIVE).mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        shutil.copy(ROOT / NATIVE / source, root / NATIVE)
    data: dict[str, Any] = {"artifacts": [], "pure_python": True}
    config = BuilderConfig(None, str(root), target, {}, {})  # type: ignore[arg-type]
    hook = CustomBuildHook(str(root), {}, config, None, str(root), target, Application())  # type: ignore[arg-type]
    hook.initialize("standard", data)
    return data


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler here")
def test_a_library_of_these_sources_goes_into_the_wheel(tmp_path: Path) -> None:
    data = built(tmp_path)
    library = native.library_in(tmp_path / NATIVE)
    assert data["artifacts"] == [str(NATIVE / library.name)]
    assert not data["pure_python"]
    assert ctypes.CDLL(str(library)).weigh_float32
    assert {path.name for path in (tmp_path / NATIVE).iterdir()} == {*SOURCES, library.name}
    for changed in ("pouring.c", "lanes.h"):
        with (tmp_path / NATIVE / changed).open("a") as source:
            source.write("/* changed */\n")
        assert native.library_in(tmp_path / NATIVE) != library, "an older one would do something else"
        library = native.library_in(tmp_path / NATIVE)


def test_a_tree_that_cannot_be_written_is_built_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refused)
    assert built(tmp_path) == {"artifacts": [], "pure_python": True}


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler", "cc --no-such-flag"])
def test_without_a_compiler_the_package_is_one_of_python_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiler: str
) -> None:
    monkeypatch.setenv("CC", compiler)
    assert built(tmp_path) == {"artifacts": [], "pure_python": True}
    assert "nothing is compiled" in "".join(capsys.readouterr())
    assert sorted(path.name for path in (tmp_path / NATIVE).iterdir()) == SOURCES


def test_a_source_distribution_has_the_source(tmp_path: Path) -> None:
    assert built(tmp_path, "sdist") == {"artifacts": [], "pure_python": True}
