"""Starts a compiler confined: run as `python -I -S launch.py CONFINE JSON`, never imported.

A compiler starts programs of its own, so system calls stay open; files, network, processor time and memory do not. It
reads its own installation, the system's and the sources, and writes to one folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys


def main() -> None:
    where, told = sys.argv[1:]
    asked = json.loads(told)
    spec = importlib.util.spec_from_file_location("_confine", where)
    assert spec is not None
    assert spec.loader is not None
    confine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(confine)
    done = confine.confine_programs(asked["limits"], asked["readable"], asked["writable"])
    with open(asked["report"], "w") as report:  # closed before the program begins: it cannot say otherwise
        json.dump(done, report)
    os.execve(asked["command"][0], asked["command"], asked["environment"])


if __name__ == "__main__":
    main()
