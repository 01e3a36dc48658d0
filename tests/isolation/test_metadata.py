"""Which changes of a project's metadata nobody who installs or runs the project can notice."""

from __future__ import annotations

import pytest

from validator.isolation.metadata import is_unnoticed

BASE = """
[project]
name = "engine"
version = "1"
dependencies = ["torch"]

[project.optional-dependencies]
audio = ["librosa"]

[tool.pytest.ini_options]
markers = ["slow: takes long"]
"""


@pytest.mark.parametrize(
    ("old", "new", "unnoticed"),
    [
        ('audio = ["librosa"]', 'audio = ["librosa"]\nk3 = ["flashinfer"]', True),
        ('"slow: takes long"', '"slow: takes long", "k3: fast track"', True),
        ("[tool.pytest", "[tool.ruff]\nline-length = 100\n\n[tool.pytest", True),
        ("[tool.pytest", "[dependency-groups]\nk3 = ['x']\n\n[tool.pytest", True),
        ('audio = ["librosa"]', 'audio = ["librosa", "flashinfer"]', False),
        ('audio = ["librosa"]', "", False),
        ('["torch"]', '["torch", "flashinfer"]', False),
        ('["slow: takes long"]', "[]", False),
        ("[tool.pytest.ini_options]", '[tool.pytest.ini_options]\naddopts = "-k not k3"', False),
        ("[tool.pytest", "[tool.setuptools.package-data]\nengine = ['*.so']\n\n[tool.pytest", False),
        ("[project]", '[build-system]\nrequires = ["x"]\n\n[project]', False),
        ('version = "1"', 'version = "1', False),
    ],
)
def test_what_counts(old: str, new: str, unnoticed: bool) -> None:
    assert BASE.count(old) == 1
    assert is_unnoticed(BASE.encode(), BASE.replace(old, new).encode()) is unnoticed
