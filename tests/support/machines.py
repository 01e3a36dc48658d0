"""What is compiled, for one generation of processors at a time, and every function of it on one set of arrays."""

from __future__ import annotations

import ctypes
import platform
import runpy
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from validator.differential import native
from validator.differential.native import Pointer, sources_in
from validator.differential.numbers import Array, dtype_of

MACHINES = {"x86-64-v4": "avx512f", "x86-64-v3": "avx2", "x86-64": "sse2"}
"""Generation → what the system calls it where there is one."""
_TYPES = ("float64", "float32", "bfloat16", "float16")
_REAL, _COUNT, _WORD = ctypes.c_double, ctypes.c_size_t, ctypes.c_uint64


def machines() -> list[str]:
    """Those of this processor, the newest first."""
    if platform.machine() != "x86_64":
        return []
    flags = Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
    return [name for name, flag in MACHINES.items() if flag in flags]


@cache
def library_for(machine: str, folder: Path) -> ctypes.CDLL:
    """Compiled as the package is, but for this generation alone. Raises OSError, CalledProcessError."""
    sources = Path(native.__file__).parent
    made = folder / f"{machine}.so"
    flags = runpy.run_path(str(sources / "build.py"))["_FLAGS"]
    command = ["cc", *flags, f"-march={machine}", "-DEACH_MACHINE=", "-o", str(made), *map(str, sources_in(sources))]
    subprocess.run([*command, "-lm"], check=True, capture_output=True)
    return ctypes.CDLL(str(made))


class Calls:
    """Each function of a library on arrays of so many elements; what it made of them."""

    def __init__(self, size: int) -> None:
        draw = np.random.default_rng(size)
        self._size = size
        self._exact = draw.standard_normal(size)
        self._other = self._exact + 1e-6 * draw.standard_normal(size)
        self._yard = np.abs(draw.standard_normal(size)) + 1e-3
        self._exact[size // 2 :: 97], self._yard[size // 3 :: 89] = np.nan, np.inf
        self._native = {name: self._exact.astype(dtype_of(name)) for name in _TYPES}
        self._key = draw.integers(0, 256, 4096 + 2 * 16 + 2 * 8, np.uint8)
        self._free = np.arange(size) % 5 == 0
        self._made: list[Array] = []

    def __call__(self, library: ctypes.CDLL) -> Iterator[tuple[str, Callable[[], list[Array]]]]:
        """(function, what calls it and gives what it wrote)."""
        exact, other, yard, key, size = self._exact, self._other, self._yard, self._key, self._size
        total, few, ends = np.full(size, 0.25), np.zeros(3), np.zeros(2)
        nothing, start = np.zeros(0), _WORD(3)

        def of(name: str, made: list[Array], *given: object) -> tuple[str, Callable[[], list[Array]]]:
            def call() -> list[Array]:
                for array in made:
                    array[...] = 0.25
                getattr(library, name)(*(_passed(one) for one in given))
                return made

            return name, call

        yield of("digest", [few], exact, _COUNT(exact.nbytes), key, few)
        yield of("pour", [total], total, _COUNT(total.nbytes), key)
        for name, array in self._native.items():
            yield of(f"weigh_{name}", [few], array, exact, yard, _COUNT(size), few)
            yield of(f"yard_{name}", [total], total, exact, array, _COUNT(size), _REAL(1e-7), _REAL(1e-30))
            yield of(f"move_{name}", [total], array, total, _COUNT(size), key, start, _REAL(1e-7))
            if name != "float64":
                both = [np.zeros(size, np.uint16) for _ in range(2)]
                yield of(f"pack_{name}", both, array, exact, yard, *both, _COUNT(size), _REAL(0.99))
            if name != "float16":
                drawn = np.zeros(size, array.dtype)
                yield of(f"bell_{name}", [drawn], drawn, _COUNT(size), key, start)
        yield of("spread_add", [total], total, total, other, exact, _COUNT(size), _REAL(0.5))
        scales = _REAL(2.0), _REAL(0.5)
        for jumps, least in ((nothing, 0.0), (self._free, 1e-7)):
            given = total, other, yard, exact, jumps, _COUNT(size)
            yield of("spread_halves", [total], *given, *scales, _REAL(least))
        for free in (nothing, self._free):
            yield of("ends", [ends], exact, yard, free, _COUNT(size), _REAL(3.0), ends)
        yield of("below", [ends], exact, _COUNT(size), _REAL(1e-3), ends)


def _passed(one: object) -> object:
    if not isinstance(one, np.ndarray):
        return one
    return Pointer(one.ctypes.data if one.size else None)
