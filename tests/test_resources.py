"""What ships is found in a checkout and in an installed wheel, and nobody else's folder is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.resources import ResourceError, resource


def test_in_this_checkout() -> None:
    assert resource("policies").is_dir()


def test_in_a_wheel(tmp_path: Path) -> None:
    package = tmp_path / "site-packages/validator"
    (package / "_data/policies").mkdir(parents=True)
    (tmp_path / "site-packages/policies").mkdir()
    assert resource("policies", package) == package / "_data/policies"


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="reinstall"):
        resource("fixtures/demo", tmp_path / "validator")
