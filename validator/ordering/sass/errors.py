"""The one error of the machine-code front end."""

from __future__ import annotations

from validator.errors import ValidatorError

__all__ = ["SassError"]


class SassError(ValidatorError):
    """A binary, an archive or a tool's output cannot be what it claims to be."""
