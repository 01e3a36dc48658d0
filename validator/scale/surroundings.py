"""What a machine brings to a result besides the cell: this program and its libraries, its GPUs and their driver."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from validator.own_source import own_source

__all__ = ["devices", "software"]

_PACKAGES = ("ml_dtypes", "numpy", "nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm", "pyelftools")


@cache
def software() -> Mapping[str, str]:
    """What has to be the same on every machine that runs cells of one check."""
    return {
        "validator": own_source()[:12],
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in _PACKAGES},
    }


@cache
def devices(proc: Path = Path("/proc/driver/nvidia")) -> str:
    """Driver and models of this machine's GPUs, as the driver says; `none` where there is none."""
    said = [proc / "version", *sorted(proc.glob("gpus/*/information"))]
    texts = [path.read_text("utf-8", "replace") for path in said if path.is_file()]
    lines = (line for text in texts[1:] for line in text.splitlines())
    models = sorted(line.partition(":")[2].strip() for line in lines if line.startswith("Model"))
    return "; ".join([texts[0].partition("\n")[0].strip(), *models]) if texts else "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
