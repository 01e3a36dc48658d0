"""The error of the emulator: a launch that cannot be made, or a file that holds no such kernel."""

from __future__ import annotations

from validator.errors import ValidatorError

__all__ = ["EmulateError"]


class EmulateError(ValidatorError):
    """A kernel that cannot be run here at all; what merely goes wrong while it runs is a `Hazard`."""
