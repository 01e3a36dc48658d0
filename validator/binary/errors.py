"""The one error of what reads compiled files."""

from __future__ import annotations

from validator.errors import ValidatorError

__all__ = ["BinaryError"]


class BinaryError(ValidatorError):
    """A binary, an archive or a tool's output cannot be what it claims to be."""
