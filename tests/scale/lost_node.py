"""What a node that dies costs: a real Ray cluster of two nodes, of which one is killed while cells run.

    python -m tests.scale.lost_node

Takes about a minute: Ray starts two nodes and waits half of it until it believes that one of them is dead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.scale.conftest import wait_for
from tests.scale.tasks import cell
from validator.scale.cell import State
from validator.scale.cluster import Cluster
from validator.scale.engine import Engine

ROOT = Path(__file__).parents[2]
CELLS = 16


def start(*options: str) -> subprocess.Popen[bytes]:
    """A node with one processor, in a process group of its own."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, "--num-cpus=1", "--block",
               f"--object-store-memory={100 << 20}", "--disable-usage-stats"]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def end(node: subprocess.Popen[bytes], number: int) -> None:
    """A signal to it and to everything it started: its workers are in groups of their own."""
    for pid in [node.pid, *below(node.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def below(pid: int) -> Iterator[int]:
    """Processes that a process started, and those that they did."""
    with suppress(OSError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            yield child
            yield from below(child)


def nodes(address: str, count: int) -> None:
    """Waits until there are so many."""
    import ray

    ray.init(address, log_to_driver=False)
    while ray.cluster_resources().get("CPU", 0) < count:
        time.sleep(0.2)
    ray.shutdown()


def main() -> None:
    os.environ.update(PYTHONPATH=str(ROOT), RAY_AUTH_MODE="disabled")
    port = 24000 + os.getpid() % 4000
    address = f"127.0.0.1:{port}"
    group = [start("--head", f"--port={port}", "--include-dashboard=false")]
    try:
        wait_for(port, 90.0)
        group.append(start(f"--address={address}"))
        nodes(address, 2)
        with tempfile.TemporaryDirectory() as name, Cluster(address) as executor:
            folder = Path(name)
            work = [cell(n, "stay", f"{folder}/{n}|0.5".encode(), seconds=1.0) for n in range(CELLS)]

            def kill() -> None:
                while sum(1 for _ in folder.iterdir()) < CELLS // 4:
                    time.sleep(0.05)
                end(group[1], signal.SIGKILL)
                print("the second node was killed")

            threading.Thread(target=kill, daemon=True).start()
            outcomes = list(Engine(executor).run(work, CELLS))
            begun = [len((folder / str(n)).read_text().split()) for n in range(CELLS)]
        print(f"{sum(o.state is State.DONE for o in outcomes)} of {CELLS} cells done; begun {sum(begun)} times in all")
    finally:
        for node in group:
            end(node, signal.SIGTERM)
        time.sleep(2)
        for node in group:
            end(node, signal.SIGKILL)


if __name__ == "__main__":
    main()
