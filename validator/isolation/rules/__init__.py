"""Rules on where a change lives and what kind of files it brings, one module each."""

from __future__ import annotations

from validator.checks import Check
from validator.isolation.rules import (
    binary_file,
    disguised_kernel,
    executable_bit,
    file_too_large,
    hidden_text,
    path_not_isolated,
    submodule,
    symlink,
    too_many_shared_files,
    too_many_shared_lines,
    unreadable_path,
)

__all__ = ["CONTENT", "PATHS", "RULES"]

PATHS: tuple[Check, ...] = (path_not_isolated, too_many_shared_files, too_many_shared_lines)
CONTENT: tuple[Check, ...] = (
    binary_file,
    file_too_large,
    symlink,
    submodule,
    executable_bit,
    unreadable_path,
    hidden_text,
    disguised_kernel,
)
RULES: tuple[Check, ...] = PATHS + CONTENT
"""Every rule of the stage."""
