"""Build hook: compiles the sources in C beside it where there is a compiler; without one the package works, slower.

Run by hatchling alone, in an environment that has nothing of this package; a compiler that fails is no failed install.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""No fused multiply-add and no reordering: the same bits on every machine."""


class CustomBuildHook(BuildHookInterface[BuilderConfig]):
    """Puts the library beside its source, in a checkout and in a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or platform.system() != "Linux":
            return
        library = Path("validator", "differential", "native", "native.so")
        if self._compiled(Path(self.root, library)):
            build_data["artifacts"].append(str(library))
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-linux_{platform.machine()}"

    def _compiled(self, library: Path) -> bool:
        """Made whole or not at all: another process may have the old one loaded."""
        sources = map(str, sorted(library.parent.glob("*.c")))
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made = Path(folder, library.name)
            command = [*shlex.split(os.environ.get("CC", "cc")), *_FLAGS, "-o", str(made), *sources, "-lm"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                return self._without(str(error))
            if done.returncode:
                return self._without(done.stderr)
            made.replace(library)
        return True

    def _without(self, why: str) -> bool:
        self.app.display_warning(f"nothing is compiled, large results are judged more slowly: {why.strip()}")
        return False
