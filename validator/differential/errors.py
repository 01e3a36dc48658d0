"""The error base of the differential tests."""

from validator.errors import ValidatorError

__all__ = ["DifferentialError"]


class DifferentialError(ValidatorError):
    """A contract, a case or an option that the differential tests cannot work with."""
