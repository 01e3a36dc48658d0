"""The worker: a program that loads one untrusted callable and runs it on bytes that come through one descriptor.

Started as `python -I -S worker.py CONFIG…`; never imported by the gate. It knows no seed, no expected result, no
list of cases and no clock. It confines itself, says what is in force, then has an adapter (`adapters`) load the
callable from its tree.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import importlib
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
_FIXED = 0x10
"""MAP_FIXED."""
_LARGE = 1 << 21
"""Bytes of a large page, as in `pages.py`: a region that has some lies here where they can be mapped as a whole."""
_TOUCHED = 1 << 30
"""Bytes of an arena up to which all its pages are touched beforehand: what is longer has holes."""
KEPT = 64
"""Calls whose buffers are kept for a later look."""


def _sibling(name: str, *folder: str) -> ModuleType:
    """A module beside this file, or in a folder there whose files import each other (`from .other`); the isolated
    interpreter has no path to it. It is not among the loaded ones: nothing there tells a callable who calls it."""
    package = ModuleType(f"_{os.urandom(4).hex()}")
    package.__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), *folder)]
    sys.modules[package.__name__] = package
    module = importlib.import_module(f"{package.__name__}.{name}")
    sys.path_importer_cache.pop(package.__path__[0], None)
    for loaded in [known for known in sys.modules if known.partition(".")[0] == package.__name__]:
        del sys.modules[loaded]
    return module


class Arenas:
    """Buffers by slot. Each is mapped from the shared memory between two pages that nobody may touch."""

    def __init__(self, descriptor: int, given: int, given_bit: int) -> None:
        self.descriptor, self.given, self.given_bit = descriptor, given, given_bit
        self.slots: dict[int, tuple[int, int, memoryview]] = {}
        self.places: dict[int, int] = {}
        """Slot → address of its first page."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._map, self._mprotect = libc.mmap, libc.mprotect
        self._mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)

    def at(self, slot: int, offset: int, length: int, *, touched: bool = False) -> memoryview:
        """The slot's memory; at the same address as before when it is the same region, or as long a one that only the
        gate can write: other values lie there then, in the same buffer as far as anybody here can see.

        `touched`: its pages are there at once, and not one by one as they are used."""
        known = self.slots.get(slot)
        if known is None or known[:2] != (offset, length):
            alike = known is not None and known[1] == length and not (known[0] - offset) % mmap.PAGESIZE
            if known is not None and alike and slot & self.given_bit:
                self._put(self.places[slot], offset, length, slot, touched)
                self.slots[slot] = known = (offset, length, known[2])
            else:
                self.slots[slot] = known = (offset, length, self._mapped(offset, length, slot, touched))
        return known[2]

    def _mapped(self, offset: int, length: int, slot: int, touched: bool) -> memoryview:
        page, within = mmap.PAGESIZE, offset % mmap.PAGESIZE
        body = -(-max(within + length, 1) // page) * page
        slack = _LARGE if body >= 2 * _LARGE else 0
        memory = mmap.mmap(-1, body + 2 * page + slack)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        before = page + (offset - within - start - page) % _LARGE if slack else page
        self.places[slot] = address = start + before
        self._put(address, offset, length, slot, touched)
        for guard, end in ((start, address), (address + body, start + len(memory))):
            self._mprotect(guard, end - guard, 0)
        return memoryview(memory)[before + within : before + within + length]

    def _put(self, address: int, offset: int, length: int, slot: int, touched: bool) -> None:
        """A region's pages at an address."""
        page, within = mmap.PAGESIZE, offset % mmap.PAGESIZE
        body = -(-max(within + length, 1) // page) * page
        given, how = slot & self.given_bit, mmap.MAP_SHARED | _FIXED | touched * mmap.MAP_POPULATE
        allowed = mmap.PROT_READ if given else mmap.PROT_READ | mmap.PROT_WRITE
        descriptor = self.given if given else self.descriptor
        if self._map(address, body, allowed, how, descriptor, offset - within) != address:
            raise MemoryError(f"{body} bytes cannot be mapped")


def keep_freed() -> None:
    """What is freed stays for the next array, where the C library can be told so.

    Otherwise every temporary array of some megabytes is new pages, and a call takes up to half as long again; and what
    stands in memory that nobody wrote to is seldom zero then.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for threshold in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            mallopt(threshold, 1 << 28)  # what is larger still leaves no hole that nothing fits in


def _refused(target: str) -> Any:
    """The callable's own yardstick must not be its engine: here, that function only raises."""

    def refused(*args: object, **kwargs: object) -> None:
        raise RuntimeError(f"the new path called {target}, which it is compared with")

    return refused


def _nothing(*args: object, **kwargs: object) -> None:
    """A kernel that does not run."""


class Worker:
    """Serves frames until the gate closes the channel."""

    def __init__(
        self, channel: ModuleType, connection: socket.socket, pools: list[int], tree: str, sharing: ModuleType | None
    ) -> None:
        """`sharing`: what maps memory of a device."""
        self.channel, self.sharing = channel, sharing
        self.connection = connection
        self.tree = tree
        self.arenas = Arenas(pools[0], pools[1], channel.GIVEN)
        self.kept: dict[int, tuple[list[memoryview], memoryview | None, list[Any], bool]] = {}
        self.function: Any = None
        self.absent: Any = None
        self.broken: Any = None
        """What an adapter raises once a device refuses everything that this process asks of it."""
        self.launches = False
        self.holding: Any = None
        """Where the adapter keeps copies elsewhere (on a device): its ear for which arenas hold what."""
        self.leaving: Any = None
        """Likewise, for where results go that are on a device."""
        self.dtypes: list[Any] = []
        self.numpy: Any = None
        self.imported: Any = None
        """Memory of a device, once there is some."""
        self.elsewhere: dict[tuple[int, int], tuple[int, int]] = {}
        """(slot, length) of buffers on a device → (address of what is mapped, of the buffer)."""
        self.refused: Exception | None = None
        """Why one of them is not there."""
        self.descriptors: list[int] = []
        """That came with the last frame."""

    def send(self, kind: int, nonce: int, parts: list[Any]) -> None:
        for part in self.channel.coalesced(self.channel.pack_frame(kind, nonce, parts)):
            self.connection.sendall(part)

    def serve(self) -> None:
        kinds = self.channel.Kind
        while (frame := self._receive()) is not None:
            try:
                if frame.kind == kinds.COMING:
                    self._coming(frame)
                    continue
                if frame.kind == kinds.LOAD:
                    parts, kind = self._load(**json.loads(bytes(frame.payload))), kinds.LOADED
                elif frame.kind == kinds.CALL:
                    parts, kind = self._call(frame), kinds.RESULT
                elif frame.kind == kinds.PLACE:
                    self._place(self.channel.Place.unpack(frame.payload))
                    if not frame.nonce:
                        continue
                    refused, self.refused = self.refused, None
                    parts, kind = ([], kinds.PLACED) if refused is None else ([str(refused).encode()], kinds.ERROR)
                else:
                    (nonce,) = struct.unpack("<Q", frame.payload)
                    getattr(self.function, "collect", bool)()  # buffers that are elsewhere (a device) come back first
                    if self.leaving is not None:
                        self.function.leave(self.kept[nonce][2])
                    parts, kind = self._pack(*self.kept[nonce]), kinds.RESULT
            except MemoryError as error:
                parts, kind = [f"MemoryError: {error}".encode()[:4096]], kinds.MEMORY
            except BaseException as error:  # SystemExit and KeyboardInterrupt of the callable too
                # The adapter's own, or of this file: a callable cannot excuse itself.
                absent = type(error) is self.absent or error is self.refused
                kind = kinds.ABSENT if absent else kinds.BROKEN if type(error) is self.broken else kinds.ERROR
                parts = [self._describe(error)]
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
            got, beside, _, _ = self.connection.recvmsg_into([view[at:]], socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            if not got:
                return bytearray()
            self.descriptors += [struct.unpack_from("<i", data)[0] for _, _, data in beside]
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
        self,
        adapter: str,
        target: str,
        options: dict[str, str],
        launches: bool,
        forbidden: list[str],
        idle: list[str],
    ) -> list[bytes]:
        import ml_dtypes
        import numpy

        self.numpy = numpy
        self.dtypes = [
            numpy.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
            for name in self.channel.DTYPE_NAMES
        ]
        module = importlib.import_module(adapter) if "." in adapter else _sibling(adapter, "adapters")
        if not launches:  # last: nothing in the tree can shadow the standard library or numpy
            sys.path.append(self.tree)
        self.absent, self.broken = (getattr(module, name, None) for name in ("NotRunHere", "DeviceBroken"))
        bound = [name for name in forbidden if self._put(name, _refused(name))]
        bound += [name for name in idle if self._put(name, _nothing)]
        self.function, self.launches = module.load(target, self.tree, options), launches
        own = type(self.function).__module__ == module.__name__  # not what a callable happens to call so
        self.holding = getattr(self.function, "holding", None) if own else None
        self.leaving = getattr(self.function, "leaving", None) if own else None
        return ["\0".join(bound).encode()]

    @staticmethod
    def _put(target: str, function: Any) -> bool:
        """A function in another's place, before the callable is imported; False where there is no such function."""
        module_name, _, name = target.partition(":")
        try:
            module = importlib.import_module(module_name)
            if not hasattr(module, name):
                return False
            setattr(module, name, function)
        except Exception:
            return False
        return True

    def _place(self, place: Any) -> None:
        """Map it in place of what was mapped for the same buffer; a refusal is kept for who asks for it."""
        before = self.elsewhere.pop((place.slot, place.length), None)
        try:
            if before is not None:
                self.imported.unmap(before[0])
            if place.size:
                assert self.sharing is not None
                self.imported = self.imported or self.sharing.Imported()
                address = self.imported.map(self.descriptors.pop(), place.size, place.device)
                self.elsewhere[place.slot, place.length] = address, address + place.start
        except Exception as error:  # the driver's refusal, or no driver
            self.refused = error

    def _call(self, frame: Any) -> list[Any]:
        if self.refused is not None:
            raise self.refused
        call = self.channel.Call.unpack(frame.payload)
        views = [self.arenas.at(*arena) for arena in call.arenas]
        if self.holding is not None:
            at = list(map(self._address, views))
            numbers = dict(zip(at, call.numbers or (0,) * len(views), strict=True))
            there = [self.elsewhere.get((slot, length)) for slot, _, length in call.arenas]
            places = {here: far[1] for here, far in zip(at, there, strict=True) if far is not None}
            self.holding(numbers, self.channel.EDGE, places)
        room = views.pop() if call.room else None
        far = room is not None and self.leaving is not None and call.arenas[-1][::2] in self.elsewhere
        if self.leaving is not None:
            self.leaving(
                (self._address(room), len(room)) if room is not None and far else (0, 0), self.channel.in_room_at
            )
        value = None
        for _ in range(call.times):
            args = [self._argument(array, views) for array in call.args]
            value = self.function(*args) if not self.launches else self._launch(args)
        returns = [] if value is None else list(value) if type(value) in (tuple, list) else [value]
        if call.keep:
            self.kept[frame.nonce] = (views, room, returns, far)
            while len(self.kept) > KEPT:
                del self.kept[next(iter(self.kept))]
        return self._pack(views, room, returns, far)

    def _coming(self, frame: Any) -> None:
        """What fails here fails again when the call comes, and is told then."""
        with contextlib.suppress(Exception):
            for slot, offset, length in self.channel.Call.unpack(frame.payload).arenas:
                here = (slot, length) not in self.elsewhere
                self.arenas.at(slot, offset, length, touched=here and length <= _TOUCHED)

    def _address(self, view: memoryview) -> int:
        return int(self.numpy.frombuffer(view, self.numpy.uint8).ctypes.data)

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
        # As an array: numpy looks through a memoryview to the whole mapping, and adapters look for the arena alone.
        arena = self.numpy.frombuffer(views[array.arena], self.numpy.uint8)
        return self.numpy.ndarray(array.shape, dtype, arena, array.offset, array.strides)

    def _pack(self, views: list[memoryview], room: memoryview | None, returns: list[Any], far: bool) -> list[Any]:
        """`far`: the room lies on a device; what the adapter has put there it gives at its place in the room here."""
        arrays = [self._plain(value) for value in returns]
        described = tuple(self._described(array, views) for array in arrays)
        lengths = [0 if array is None else array.nbytes for array in arrays]
        places = self.channel.in_room_at(lengths)
        if room is None or any(end > len(room) for _, end in places):
            data = tuple(b"" if array is None else self.numpy.ndarray.tobytes(array) for array in arrays)
            return list(self.channel.Result(described, data).pack())
        targets = [
            None if array is None else self.numpy.ndarray(array.shape, array.dtype, room[start:end])
            for array, (start, end) in zip(arrays, places, strict=True)
        ]
        both = [(array, target) for array, target in zip(arrays, targets, strict=True) if target is not None]
        far = far and all(array.ctypes.data == target.ctypes.data for array, target in both)
        for array, target in () if far else both:
            target[...] = array
        return list(self.channel.Result(described, tuple(room[a:b] for a, b in places), True, far).pack())

    def _plain(self, value: Any) -> Any:
        """A plain array of a known type, or None."""
        np = self.numpy
        if isinstance(value, (bool, int, float, np.generic)):
            value = np.asarray(value)
        known = type(value) is np.ndarray and value.dtype in self.dtypes and value.ndim <= self.channel.MAX_AXES
        return value if known else None

    def _described(self, array: Any, views: list[memoryview]) -> Any:
        if array is None:
            return self.channel.Array(0, (), (), form=4)
        np = self.numpy
        inside = 0
        for index, view in enumerate(views):
            if len(view) and np.may_share_memory(array, np.frombuffer(view, np.uint8)):
                inside = index + 1
        return self.channel.Array(self.dtypes.index(array.dtype), array.shape, array.strides, inside, array.nbytes)


def main() -> None:
    descriptor, pools, libraries, tree, home, *settings = sys.argv[1:]
    sys.argv[:] = [""]
    sys.modules["__main__"] = ModuleType("__main__")
    channel, confinement = _sibling("channel"), _sibling("confine")
    connection = socket.socket(fileno=int(descriptor))
    sys.path.append(libraries)
    inside = [os.path.join(at, name) for at, folders, files in os.walk(libraries) for name in (*folders, *files)]
    real = [os.path.realpath(path) for path in inside]
    adapters = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapters")
    readable = [libraries, tree, adapters, *real, *SYSTEM, *(p for p in sys.path if os.path.isdir(p))]
    readable += [os.path.join(sys.base_prefix, "lib")]
    pairs = [(name, value) for name, _, value in (setting.partition("=") for setting in settings)]
    readable += [value for name, value in pairs if name == "read"]
    writable = [home, *(value for name, value in pairs if name == "write")]
    limits = {name: int(value) for name, value in pairs if name not in ("read", "write", "device", "programs")}
    may = {name: (name, "yes") in pairs for name in ("device", "programs")}
    sharing = _sibling("imported") if may["device"] else None
    keep_freed()
    done = confinement.confine(limits, readable, writable, **may)
    ctypes.util.find_library = lambda name: None  # it would start ldconfig, which ends this process
    worker = Worker(channel, connection, [int(pool) for pool in pools.split(",")], tree, sharing)
    worker.send(channel.Kind.READY, 0, ["\n".join(f"{k}={v}" for k, v in done.items()).encode()])
    worker.serve()


if __name__ == "__main__":
    main()
