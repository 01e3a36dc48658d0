"""Files that ship beside the code: in a checkout at its root, in an installed wheel under `validator/_data`."""

from __future__ import annotations

from pathlib import Path

from validator.errors import Problem, ValidatorError

__all__ = ["ResourceError", "resource"]

_PACKAGE = Path(__file__).resolve().parent


class ResourceError(ValidatorError):
    """The installation lacks a file that ships with it."""


def resource(name: str, package: Path = _PACKAGE) -> Path:
    """A shipped file or folder by its path from the checkout's root, such as `policies` or `fixtures/demo`."""
    # A checkout is known by its pyproject.toml: a `policies/` beside an installed package would be somebody else's.
    places = [package / "_data" / name]
    if (package.parent / "pyproject.toml").is_file():
        places.insert(0, package.parent / name)
    for place in places:
        if place.exists():
            return place
    raise ResourceError(Problem(f"{name} is missing from this installation", fix="reinstall validator"))
