"""The process that launches a change's kernels for `crosscheck`: confined first, then `validator.gpu.observer`.

`python -m validator.pipeline.observer` answers requests; `… REQUEST.json` makes one launch and ends, for a tool that
watches launches. The images to launch lie in files that the requests name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validator.gpu.driver import NotHere, open_device
from validator.gpu.observer import answering, launch_once
from validator.gpu.watched import serve
from validator.run.adapters import ADAPTERS
from validator.run.confine import confine

__all__ = ["main"]


def main() -> int:
    """No network, no other program, nothing written; everything may be read, and nothing of it leaves."""
    request = json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else None
    confine({"core": 0, "nproc": 512}, ["/"], list(ADAPTERS["cuda"].open_files), device=True)
    device = open_device()
    if request is None:
        serve(answering(device))
        return 0
    reason = device.reason if isinstance(device, NotHere) else launch_once(device, request)
    if reason:
        print(f"not launched: {reason}", file=sys.stderr)
    return 3 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
