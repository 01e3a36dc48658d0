"""The worker: a program that loads one untrusted callable and runs it on bytes that come through one descriptor.

Started as `python -I -S worker.py CONFIG…`; never imported by the gate. It knows no seed, no expected result, no
list of cases and no clock. It confines itself, says what is in force, then has an adapter (`adapters`) load the
callable from its tree.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
import json
import mmap
import os
import socket
import struct
import sys
from types import ModuleType
from typing import Any

SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/dev/null", "/dev/urandom",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system",
)  # fmt: skip
"""What an interpreter and its libraries read."""
KEPT = 64
"""Calls whose buffers are kept for a later look."""


def _sibling(*name: str) -> ModuleType:
    """A module beside this file; the isolated interpreter has no path to it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *name) + ".py"
    spec = importlib.util.spec_from_file_location("_".join(("", *name)), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Arenas:
    """Buffers by slot. Each lies in pages of its own between two pages that nobody may touch."""

    def __init__(self) -> None:
        self.slots: dict[int, tuple[mmap.mmap, int, int]] = {}
        self._mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        self._mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def put(self, slot: int, data: memoryview) -> memoryview:
        """The slot's memory, holding `data`; at the same address as before when the length is the same."""
        known = self.slots.get(slot)
        if known is None or known[2] != len(data):
            self.slots[slot] = known = self._new(len(data))
        memory, start, length = known
        view = memoryview(memory)[start : start + length]
        view[:] = data
        return view

    def _new(self, length: int) -> tuple[mmap.mmap, int, int]:
        page = mmap.PAGESIZE
        body = -(-max(length, 1) // page) * page
        memory = mmap.mmap(-1, body + 2 * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for guard in (address, address + page + body):
            self._mprotect(guard, page, 0)
        # The end lies against the guard page, as closely as 256-byte alignment allows.
        return memory, page + (body - length) // 256 * 256, length


class Worker:
    """Serves frames until the gate closes the channel."""

    def __init__(self, channel: ModuleType, connection: socket.socket, tree: str) -> None:
        self.channel = channel
        self.connection = connection
        self.tree = tree
        self.arenas = Arenas()
        self.kept: dict[int, tuple[list[memoryview], list[Any]]] = {}
        self.function: Any = None
        self.launches = False
        self.dtypes: list[Any] = []
        self.numpy: Any = None

    def send(self, kind: int, nonce: int, parts: list[Any]) -> None:
        for part in self.channel.coalesced(self.channel.pack_frame(kind, nonce, parts)):
            self.connection.sendall(part)

    def serve(self) -> None:
        kinds = self.channel.Kind
        while (frame := self._receive()) is not None:
            try:
                if frame.kind == kinds.LOAD:
                    parts, kind = self._load(**json.loads(bytes(frame.payload))), kinds.LOADED
                elif frame.kind == kinds.CALL:
                    parts, kind = self._call(frame), kinds.RESULT
                else:
                    (nonce,) = struct.unpack("<Q", frame.payload)
                    getattr(self.function, "collect", bool)()  # buffers that are elsewhere (a device) come back first
                    parts, kind = self._pack(*self.kept[nonce]), kinds.RESULT
            except MemoryError as error:
                parts, kind = [f"MemoryError: {error}".encode()[:4096]], kinds.MEMORY
            except BaseException as error:  # SystemExit and KeyboardInterrupt of the callable too
                absent = type(error).__name__ == "NotRunHere"
                parts, kind = [self._describe(error)], kinds.ABSENT if absent else kinds.ERROR
            self.send(kind, frame.nonce, parts)

    def _receive(self) -> Any:
        head = self._read(self.channel.HEADER.size)
        if not head:
            return None
        kind, nonce, length = self.channel.unpack_header(head)
        return self.channel.Frame(kind, nonce, memoryview(self._read(length)))

    def _read(self, count: int) -> bytearray:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            got = self.connection.recv_into(view[at:])
            if not got:
                return bytearray()
            at += got
        return data

    @staticmethod
    def _describe(error: BaseException) -> bytes:
        try:
            text = f"{type(error).__name__}: {error}"
        except BaseException:
            text = "an exception that cannot be shown"
        return text.encode("utf-8", "replace")[:4096]

    def _load(
        self, adapter: str, target: str, options: dict[str, str], launches: bool, forbidden: list[str]
    ) -> list[bytes]:
        import ml_dtypes
        import numpy

        self.numpy = numpy
        self.dtypes = [
            numpy.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
            for name in self.channel.DTYPE_NAMES
        ]
        module = importlib.import_module(adapter) if "." in adapter else _sibling("adapters", adapter)
        if not launches:  # last: nothing in the tree can shadow the standard library or numpy
            sys.path.append(self.tree)
        bound = [name for name in forbidden if self._forbid(name)]
        self.function, self.launches = module.load(target, self.tree, options), launches
        return ["\0".join(bound).encode()]

    @staticmethod
    def _forbid(target: str) -> bool:
        """The callable's own yardstick must not be its engine: here, that function only raises."""
        module_name, _, name = target.partition(":")

        def refused(*args: object, **kwargs: object) -> None:
            raise RuntimeError(f"the new path called {target}, which it is compared with")

        try:
            module = importlib.import_module(module_name)
            if not hasattr(module, name):
                return False
            setattr(module, name, refused)
        except Exception:
            return False
        return True

    def _call(self, frame: Any) -> list[Any]:
        call = self.channel.Call.unpack(frame.payload)
        views = [self.arenas.put(slot, data) for slot, data in call.arenas]
        args = [self._argument(array, views) for array in call.args]
        value = self.function(*args) if not self.launches else self._launch(args)
        returns = [] if value is None else list(value) if type(value) in (tuple, list) else [value]
        if call.keep:
            self.kept[frame.nonce] = (views, returns)
            while len(self.kept) > KEPT:
                del self.kept[next(iter(self.kept))]
        return self._pack(views, returns)

    def _launch(self, args: list[Any]) -> Any:
        """The last ten numbers of a call of a compiled kernel are its launch."""
        *args, gx, gy, gz, bx, by, bz, shared, cx, cy, cz = args
        cluster = (cx, cy, cz) if cx else None
        return self.function(
            *args, launch={"grid": (gx, gy, gz), "block": (bx, by, bz), "shared": shared, "cluster": cluster}
        )

    def _argument(self, array: Any, views: list[memoryview]) -> Any:
        if array.form:
            return (
                struct.unpack("<d", array.value)[0]
                if array.form == 2
                else (bool if array.form == 3 else int)(struct.unpack("<q", array.value)[0])
            )
        dtype = self.dtypes[array.dtype]
        return self.numpy.ndarray(array.shape, dtype, views[array.arena], array.offset, array.strides)

    def _pack(self, views: list[memoryview], returns: list[Any]) -> list[Any]:
        described = [self._returned(value, views) for value in returns]
        arrays, data = tuple(d for d, _ in described), tuple(b for _, b in described)
        return list(self.channel.Result(tuple(views), arrays, data).pack())

    def _returned(self, value: Any, views: list[memoryview]) -> tuple[Any, bytes]:
        np = self.numpy
        if isinstance(value, (bool, int, float, np.generic)):
            value = np.asarray(value)
        if type(value) is not np.ndarray or value.dtype not in self.dtypes or value.ndim > self.channel.MAX_AXES:
            return self.channel.Array(0, (), (), form=4), b""
        inside = 0
        for index, view in enumerate(views):
            if len(view) and np.may_share_memory(value, np.frombuffer(view, np.uint8)):
                inside = index + 1
        data = np.ndarray.tobytes(value)
        return self.channel.Array(self.dtypes.index(value.dtype), value.shape, value.strides, inside, len(data)), data


def main() -> None:
    descriptor, libraries, tree, home, *settings = sys.argv[1:]
    sys.argv[:] = [""]
    channel, confinement = _sibling("channel"), _sibling("confine")
    connection = socket.socket(fileno=int(descriptor))
    sys.path.append(libraries)
    real = [os.path.realpath(os.path.join(libraries, name)) for name in os.listdir(libraries)]
    adapters = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapters")
    readable = [libraries, tree, adapters, *real, *SYSTEM, *(p for p in sys.path if os.path.isdir(p))]
    readable += [os.path.join(sys.base_prefix, "lib")]
    pairs = [(name, value) for name, _, value in (setting.partition("=") for setting in settings)]
    readable += [value for name, value in pairs if name == "read"]
    writable = [home, *(value for name, value in pairs if name == "write")]
    limits = {name: int(value) for name, value in pairs if name not in ("read", "write")}
    done = confinement.confine(limits, readable, writable)
    ctypes.util.find_library = lambda name: None  # it would start ldconfig, which ends this process
    worker = Worker(channel, connection, tree)
    worker.send(channel.Kind.READY, 0, ["\n".join(f"{k}={v}" for k, v in done.items()).encode()])
    worker.serve()


if __name__ == "__main__":
    main()
