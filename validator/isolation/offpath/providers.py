"""What is known of packages outside the tree: decorators that hand what they get to nobody, members, modules."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Final

__all__ = ["INERT", "KERNELS", "MEMBERS", "OF_THE_CLASS", "is_known", "standard"]

INERT: Final = frozenset(
    {
        "staticmethod", "classmethod", "property", "cached_property", "lru_cache", "cache", "wraps",
        "dataclass", "contextmanager", "override", "overload", "final", "no_grad", "inference_mode",
        "total_ordering", "setter", "getter", "deleter", "asynccontextmanager", "abstractmethod", "runtime_checkable",
    }
)  # fmt: skip
"""Of Python and PyTorch."""
KERNELS: Final = frozenset({"jit", "kernel", "autotune", "heuristics", "constexpr_function", "register_fake"})
"""Of compilers of kernels."""
OF_THE_CLASS: Final = frozenset({"setter", "getter", "deleter"})
"""Taken off something that the class body made a moment before."""

_OTHERS: Final = frozenset(
    {"torch", "triton", "cutlass", "tilelang", "tvm", "numba", "warp", "helion", "typing_extensions", "pydantic"}
)

_DTYPES: Final = frozenset({"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"})
MEMBERS: Final[dict[str, frozenset[str]]] = {
    "torch": _DTYPES
    | {"half", "float", "double", "bool", "long", "int", "Tensor", "device", "dtype", "nn", "float8_e4m3fn",
       "float8_e5m2", "cuda", "no_grad", "inference_mode", "Size", "Generator", "library", "ops", "distributed"},
    "torch.nn": frozenset({"Module", "Parameter", "ModuleList", "ModuleDict", "Linear", "Embedding", "functional"}),
    "torch.cuda": frozenset({"Stream", "Event", "CUDAGraph"}),
    "triton": frozenset({"jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2", "language"}),
    "triton.language": _DTYPES | {"constexpr", "tensor", "dtype", "pointer_type", "float8e4nv", "float8e5", "int1"},
}  # fmt: skip
"""Dotted module → what every release of it has."""
_CHEAP: Final = frozenset(
    {"abc", "collections", "collections.abc", "contextlib", "copy", "dataclasses", "enum", "functools", "inspect",
     "itertools", "json", "logging", "math", "operator", "os", "os.path", "pathlib", "queue", "random", "re", "string",
     "struct", "sys", "threading", "time", "types", "typing", "warnings", "weakref", "contextvars"}
)  # fmt: skip
"""Modules of Python that are asked what they hold, and loaded for it where they are not."""


def standard(module: str) -> ModuleType | None:
    """A module of the running Python; None: it is another one, or one that nobody needed so far."""
    if module in _CHEAP:
        return importlib.import_module(module)
    return sys.modules.get(module) if module.partition(".")[0] in sys.stdlib_module_names else None


def is_known(module: str) -> bool:
    """Whether a dotted module belongs to Python, or to a package whose decorators are known."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in _OTHERS
