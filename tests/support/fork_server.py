"""An interpreter that has imported some modules and does nothing but fork workers: `tests/support/warm_workers.py`.

Run as `python -I -S -B fork_server.py SOCKET PACKAGES MODULE…`: the standard library and those modules alone are in it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

LARGEST = 1 << 16
"""Bytes of an order."""
MOST = 16
"""Descriptors that come with it."""


def serve(descriptor: int, packages: str, modules: Sequence[str]) -> None:
    """Fork for every order until nobody gives one any more."""
    sys.path.append(packages)
    for name in modules:
        importlib.import_module(name)
    sys.path.remove(packages)
    gc.freeze()
    orders = socket.socket(fileno=descriptor)
    while True:
        data, given, _, _ = socket.recv_fds(orders, LARGEST, MOST)
        _reap()
        if not data:
            return
        if os.fork() == 0:
            orders.close()
            _watch(json.loads(data), given)
            return
        for one in given:
            os.close(one)


def _reap() -> None:
    """Let go of those whose worker has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(order: dict[str, Any], given: Sequence[int]) -> None:
    """Fork the worker, which tells its id, and tell how it ended."""
    *shared, out, told = given
    worker = os.fork()
    if worker == 0:
        os.setsid()
        os.write(told, str(os.getpid()).encode())
        os.close(told)
        _become(order, shared, out)
        return
    for one in (*shared, out):
        os.close(one)
    os.write(told, str(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])).encode())


def _become(order: dict[str, Any], shared: Sequence[int], out: int) -> None:
    """What `python -I -S -B PROGRAM CHANNEL POOLS…` does, with these descriptors."""
    for standard in (1, 2):
        os.dup2(out, standard)
    os.close(out)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    program, _, _, *rest = order["argv"]
    channel, *pools = shared
    sys.argv = [program, str(channel), ",".join(map(str, pools)), *rest]
    with open(program, "rb") as file:
        code = compile(file.read(), program, "exec")
    exec(code, {"__name__": "__main__", "__file__": program})


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
