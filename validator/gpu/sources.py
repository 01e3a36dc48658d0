"""What a compiled kernel is loaded from: a cubin, PTX, or CUDA C++ source that NVRTC compiles in this process."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from validator.errors import Problem, ValidatorError
from validator.gpu.driver import NotHere

__all__ = ["CompileError", "compile_source", "image_of", "include_folders"]

_LOADED = (".cubin", ".ptx", ".fatbin")
_SOURCES = (".cu", ".cuh")
_LARGEST = 512 << 20


class CompileError(ValidatorError):
    """The source does not compile, or the file is nothing that can be loaded."""


def image_of(file: Path, capability: tuple[int, int]) -> bytes | NotHere:
    """Bytes that the driver loads on a device of this capability. Raises `CompileError`."""
    if file.suffix not in (*_LOADED, *_SOURCES):
        raise CompileError(Problem(f"{file.name}: a kernel is loaded from {', '.join((*_LOADED, *_SOURCES))}"))
    try:
        if file.stat().st_size > _LARGEST:
            raise CompileError(Problem(f"{file.name} has more than {_LARGEST >> 20} MiB"))
        data = file.read_bytes()
    except OSError as error:
        raise CompileError(Problem(f"{file.name}: {error.strerror or error}")) from None
    if file.suffix in _LOADED:
        return data
    return compile_source(data, file, "sm_{}{}a".format(*capability))


def compile_source(source: bytes, file: Path, arch: str) -> bytes | NotHere:
    """The cubin of CUDA C++ source, by NVRTC; includes are found beside `file` and in the toolkit."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as absent:
        return NotHere(f"package `cuda-bindings` is missing ({absent}); install `validator[gpu]`")
    try:
        program = _call(nvrtc, "nvrtcCreateProgram", source, file.name.encode(), 0, [], [])
    except RuntimeError as absent:  # what the package raises when it finds no library
        return NotHere(f"no NVRTC ({absent}); install `validator[gpu]`")
    folders = [str(file.parent), *include_folders()]
    options = [f"--gpu-architecture={arch}", "--std=c++17", *(f"--include-path={folder}" for folder in folders)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(_call(nvrtc, "nvrtcGetProgramLogSize", program))
        _call(nvrtc, "nvrtcGetProgramLog", program, log)
        text = bytes(log).rstrip(b"\0").decode("utf-8", "replace").strip()
        raise CompileError(Problem(f"{file.name} does not compile for {arch}: {text[:2000]}"))
    cubin = bytearray(_call(nvrtc, "nvrtcGetCUBINSize", program))
    _call(nvrtc, "nvrtcGetCUBIN", program, cubin)
    return bytes(cubin)


def _call(nvrtc: Any, name: str, *args: Any) -> Any:
    error, *values = getattr(nvrtc, name)(*args)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(Problem(f"{name} failed with {error.name}"))
    return values[0] if values else None


def include_folders() -> list[str]:
    """Where the toolkit's headers may lie: the environment's toolkit, the usual place, NVIDIA's packages."""
    found = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders = [Path(root, "include") for root in (*found, "/usr/local/cuda")]
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        folders += [Path(root, "cu13", "include"), Path(root, "cuda_runtime", "include")]
    return [str(folder) for folder in folders if folder.is_dir()]
