"""GPU slots on a machine that has GPUs: one worker each, and each sees the one that is its own.

    python -m tests.scale.gpu_slots

Asks the driver in every cell which device it got, and prints how the cells were spread.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import Counter

from validator.scale.cell import Cell, Content, Needs
from validator.scale.engine import Engine
from validator.scale.local import Local, gpus_here

CELLS = 40


def device(payload: bytes, content: Content) -> bytes:
    """Number and UUID of the devices that this process can use, after a while on the first of them."""
    cuda = ctypes.CDLL("libcuda.so.1")
    count, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or cuda.cuDeviceGetUuid(uuid, 0):
        raise RuntimeError("the driver gives no device")
    time.sleep(float(payload))
    return f"{os.getpid()} {count.value} {bytes(uuid).hex()}".encode()


def main() -> None:
    gpus = gpus_here()
    task = "tests.scale.gpu_slots:device"
    work = [Cell(f"gpu/{n:02}", task, b"0.1", needs=Needs(gpu="any"), seconds=0.3) for n in range(CELLS)]
    with Local() as executor:
        start = time.monotonic()
        outcomes = list(Engine(executor).run(work, CELLS))
        seconds = time.monotonic() - start
    failed = [o.why for o in outcomes if not o.data]
    told = [o.data.decode().split() for o in outcomes if o.data]
    print(f"{len(gpus)} GPUs here, {CELLS} cells of 0.1 s in {seconds:.1f} s; failed: {failed[:1] or 'none'}")
    for uuid, cells in sorted(Counter(uuid for _, _, uuid in told).items()):
        workers = {pid for pid, _, its in told if its == uuid}
        print(f"  GPU {uuid[:8]}: {cells} cells in {len(workers)} worker")
    if not gpus or failed:
        print("nothing is shown: no GPU here, or its driver is not")
        return
    alone = {count for _, count, _ in told} == {"1"}
    spread = len({uuid for _, _, uuid in told}) == len(gpus)
    print("right" if alone and spread else "WRONG: a cell saw other GPUs than its own, or one was idle")


if __name__ == "__main__":
    main()
