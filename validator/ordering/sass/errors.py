"""The one error of the machine-code front end: that of the reader below it."""

from __future__ import annotations

from validator.binary.errors import BinaryError as SassError

__all__ = ["SassError"]
