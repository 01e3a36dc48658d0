"""Python callables on numpy arrays, as they are. Loaded by path in the worker: imports the standard library alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["load"]


def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[..., Any]:
    """The function of `module:function`; `tree` is on the import path already. Raises whatever its import raises."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise TypeError(f"{target} is no function")
    return function
