"""The process that launches a change's kernels for `crosscheck`: confined first, then `validator.gpu.observer`.

Started as `python -m validator.pipeline.observer FOLDER`; the images to launch lie in FOLDER.
"""

from __future__ import annotations

from validator.gpu.driver import open_device
from validator.gpu.observer import answering
from validator.gpu.watched import serve
from validator.run.adapters import ADAPTERS
from validator.run.confine import confine

__all__ = ["main"]


def main() -> None:
    """No network, no other program, nothing written; everything may be read, and nothing of it leaves."""
    confine({"core": 0, "nproc": 512}, ["/"], list(ADAPTERS["cuda"].open_files), device=True)
    serve(answering(open_device()))


if __name__ == "__main__":
    main()
