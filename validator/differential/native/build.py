"""Build hook: compiles the sources in C beside it where there is a compiler; without one the package works, slower.

Run by hatchling alone, in an environment that has nothing of this package; a compiler that fails is no failed install.
"""

from __future__ import annotations

import os
import platform
import runpy
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""No fused multiply-add and no reordering: the same bits on every machine."""


_FOLDER = Path("validator", "differential", "native")


class CustomBuildHook(BuildHookInterface[BuilderConfig]):
    """Puts the library beside its sources, in a checkout and in a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or platform.system() != "Linux":
            return
        folder = Path(self.root, _FOLDER)
        try:
            library = self._compiled(folder)
        except (OSError, subprocess.SubprocessError) as error:  # no compiler, one that fails, a tree to read only
            why = getattr(error, "stderr", None) or str(error)
            self.app.display_warning(f"nothing is compiled, large results are judged more slowly: {why.strip()}")
            return
        build_data["artifacts"].append(str(_FOLDER / library.name))
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-linux_{platform.machine()}"

    def _compiled(self, folder: Path) -> Path:
        """Made whole or not at all: another process may have the old one loaded."""
        here = runpy.run_path(str(folder / "__init__.py"))
        library: Path = here["library_in"](folder)
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            made = Path(beside, library.name)
            sources = map(str, here["sources_in"](folder))
            command = [*shlex.split(os.environ.get("CC", "cc")), *_FLAGS, "-o", str(made), *sources, "-lm"]
            subprocess.run(command, capture_output=True, text=True, check=True)
            for older in folder.glob("native-*.so"):
                older.unlink()
            made.replace(library)
        return library
