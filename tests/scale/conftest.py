"""A real Ray cluster of this machine, small, for all tests that want one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a cluster with two processors, one GPU by its own account, and 100 MB of object store."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'validator[scale]'")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}
    os.environ["RAY_AUTH_MODE"] = "disabled"
    port = 21379 + os.getpid() % 20000
    process = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", f"--port={port}", "--num-cpus=2",
         "--num-gpus=1", "--block", f"--object-store-memory={100 << 20}",
         "--include-dashboard=false", "--disable-usage-stats"],
        cwd=tmp_path_factory.mktemp("ray"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(port, 90.0)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(port: int, seconds: float) -> None:
    """Until something listens there. Raises `TimeoutError`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port} after {seconds:g} s")
