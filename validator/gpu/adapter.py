"""The worker's adapter for compiled kernels on a GPU: PTX, cubins and CUDA C++ source, launched through the driver.

A call is a launch from the contract alone. Every arena is copied to the device with its guard zones and gaps, and back
where it has changed. Before the launch that counts, the kernel is launched once with the end of every array against a
page that is not mapped: a read beyond an array that reaches no result ends the worker all the same. Rows of arrays that
may be `distant` lie so far apart that offsets leave 32 bits. Every second call is the replay of a graph: one that was
captured in an earlier call where the launch is the same and only the contents of its buffers are others.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from validator.errors import Problem
from validator.gpu.driver import Device, DeviceError, Function, Launch, NotHere, Parameters, open_device
from validator.gpu.frame import Slot
from validator.gpu.placement import Copy, Placed, Placements
from validator.gpu.sources import CompileError, image_of
from validator.gpu.tensormap import encode, geometry
from validator.gpu.values import scalar_bytes

__all__ = ["DeviceBroken", "Kernel", "NotRunHere", "Said", "load"]

_GRAPHS = 64
"""Captured launches that are kept."""
_PACKED = ("float4_e2m1fn", "int4", "uint4")


class NotRunHere(Exception):
    """This machine, or this adapter, cannot run the kernel. Says nothing about the kernel."""


class DeviceBroken(Exception):
    """A kernel failed while it ran: after that every later call of this process would fail too."""


@dataclass(frozen=True, slots=True)
class Said:
    """One argument of a call, as the gate describes it."""

    name: str
    parameter: int
    """Index of the kernel's parameter."""
    offset: int | None = None
    """Bytes inside it; None: the argument is the whole parameter."""
    dtype: str | None = None
    memory: bool = True
    stride: str | None = None
    """`argument.axis`: its value is the number of elements between two positions there, whatever the call says."""
    distant: bool = False
    box: tuple[int, ...] | None = None
    """Of a tensor map; None: a pointer."""
    swizzle: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Said:
        """From the contract's own keys. An argument that may have several types passes them as they come."""
        said, layouts, box = row.get("dtype"), row.get("layouts") or [], row.get("box")
        dtype = said if said is None or isinstance(said, str) else (*said, None)[0]
        distant = bool(row.get("distant")) or "distant" in layouts
        known = {key: row[key] for key in ("name", "parameter", "offset", "memory", "stride", "swizzle") if key in row}
        return cls(**known, dtype=dtype, distant=distant, box=tuple(box) if box is not None else None)


def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[..., None]:
    """The kernel of `path:name` below `tree`; `name` may be a glob over mangled names.

    Options: `parameters`, JSON, one object for each argument of a call, with the contract's own keys beside `parameter`
    and `memory`; `pdl` and `timed`, `yes` or `no`. Raises `NotRunHere` without a device, `CompileError` for a file that
    is no kernel.
    """
    path, _, name = target.rpartition(":")
    device = open_device()
    if isinstance(device, NotHere):
        raise NotRunHere(device.reason)
    root = Path(tree).resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise CompileError(Problem(f"{path} is outside of the tree"))
    image = image_of(file, device.capability)
    if isinstance(image, NotHere):
        raise NotRunHere(image.reason)
    function = named(device.kernels(image), name)
    said = [Said.of(row) for row in json.loads(options["parameters"])]
    return Kernel(device, function, said, pdl=options.get("pdl") == "yes", timed=options.get("timed") == "yes")


def named(kernels: Sequence[Function], name: str) -> Function:
    """The kernel of this name, or the only one that the name means as a glob or inside its mangled name."""
    exact = [kernel for kernel in kernels if kernel.name == name]
    inside = f"{len(name)}{name}"
    found = exact or [k for k in kernels if fnmatch.fnmatchcase(k.name, name) or inside in k.name]
    if len(found) != 1:
        listed = ", ".join(kernel.name for kernel in kernels[:8])
        raise CompileError(Problem(f"{len(found)} kernels are meant by {name!r}; there are {listed}"))
    return found[0]


class Kernel:
    """A kernel as a callable on arrays and numbers; outputs are filled in place."""

    milliseconds: float | None = None
    """Time of the last launch that counted between two events, where `timed`."""
    again: Callable[[], None]
    """Queues the last launch once more, on the buffers as they are."""

    def __init__(
        self,
        device: Device,
        function: Function,
        said: Sequence[Said],
        *,
        pdl: bool = False,
        timed: bool = False,
    ) -> None:
        self._device, self._function, self._said = device, function, tuple(said)
        self._pdl, self._timed = pdl, timed
        self._slots = device.parameters(function)
        self._placements = Placements(device)
        self.holding = self._placements.holding
        self._calls = 0
        self._graphs: dict[tuple[Launch, bytes], Any] = {}
        named = {s.parameter for s in said}
        if named != set(range(len(self._slots))):
            raise CompileError(
                Problem(f"the contract lists {len(named)} parameters, {function.name} has {len(self._slots)}")
            )

    def __call__(self, *args: Any, launch: Mapping[str, Any]) -> None:
        """`launch`: `grid`, `block`, `shared`, `cluster`, as the contract gives them for these sizes."""
        given = {s.name: value for s, value in zip(self._said, args, strict=True)}
        how = Launch(launch["grid"], launch["block"], launch["shared"], launch["cluster"], self._pdl)
        if 0 in (*how.grid, *how.block):
            return  # nothing to do: the driver knows no empty grid
        self._calls += 1
        self._placements.begin()
        whole, tight = (self._all_placed(given, p) for p in (self._placements.whole, self._placements.tight))
        distant = {name for name, copy in whole.items() if copy.address == tight[name].address}
        for copy in (*whole.values(), *(tight[name] for name in tight if name not in distant)):
            copy.send()
        self._run(given, how, tight)
        for name in distant:  # where the kernel has been already
            whole[name].send()
        self._run(given, how, whole, replayed=self._calls % 2 == 0)
        for copy in whole.values():
            copy.fetch()
        self._device.synchronize()  # what is carried on the device has arrived before anybody says so

    def _all_placed(self, given: Mapping[str, Any], place: Callable[[Any], Copy]) -> dict[str, Copy]:
        return {s.name: self._placed(s, given[s.name], place) for s in self._said if s.memory}

    def _run(self, given: Mapping[str, Any], how: Launch, copies: Mapping[str, Copy], replayed: bool = False) -> None:
        """Launches and waits for it. Raises `DeviceBroken` for a fault of the kernel."""
        parameters = parameter_block(self._said, self._slots, given, copies, self._encode)
        self._device.synchronize()

        work = self.again = partial(self._device.launch, self._function, how, parameters)
        if replayed:
            work = partial(self._device.replay, self._graph(how, parameters.block, work))
        # Refused before it ran (too much shared memory): the candidate raised. Failed while it ran: it crashed.
        if not self._timed:
            work()
        try:
            if self._timed:
                self.milliseconds = self._device.milliseconds(work)
            self._device.synchronize()
        except DeviceError as error:
            raise DeviceBroken(str(error)) from None

    def _graph(self, how: Launch, block: bytes, work: Callable[[], None]) -> Any:
        """The launch as a graph; its parameters are fixed in it."""
        if (how, block) not in self._graphs:
            self._graphs[how, block] = self._device.captured(work)
            if len(self._graphs) > _GRAPHS:
                del self._graphs[next(iter(self._graphs))]
        return self._graphs[how, block]

    def _placed(self, said: Said, array: Any, place: Callable[[Any], Copy]) -> Copy:
        if array.dtype.name in _PACKED:
            raise NotRunHere(f"{said.name} has four-bit elements, which lie packed on a device and not here")
        return self._placements.distant(array) if said.distant and array.ndim else place(array)

    def _encode(self, said: Said, array: Any, address: int) -> bytes:
        try:
            found = geometry(array.dtype.name, array.shape, said.box or (), said.swizzle)
        except ValueError as error:
            raise NotRunHere(f"{said.name} is no tensor map for this call: {error}") from None
        return encode(self._device, address, found)


def parameter_block(
    said: Sequence[Said],
    slots: Sequence[Slot],
    given: Mapping[str, Any],
    copies: Mapping[str, Placed],
    encoded: Callable[[Said, Any, int], bytes],
) -> Parameters:
    """Every argument's bytes in its place. Raises `CompileError` where a value does not fit."""
    block = bytearray(max((slot.offset + slot.size for slot in slots), default=0))
    for one in said:
        slot = slots[one.parameter]
        start = slot.offset + (one.offset or 0)
        room = slot.offset + slot.size - start
        if one.box is not None:
            raw = encoded(one, given[one.name], copies[one.name].address)
        elif one.memory:
            raw = copies[one.name].address.to_bytes(8, "little")
        else:
            value = given[one.name] if one.stride is None else _step(one.stride, copies)
            size = room if one.offset is None else min(np.dtype(_numpy(one.dtype)).itemsize, room)
            try:
                raw = scalar_bytes(value, one.dtype, size)
            except ValueError as error:
                raise CompileError(Problem(f"argument {one.name!r} {error}")) from None
        if len(raw) > room:
            raise CompileError(Problem(f"argument {one.name!r} takes {len(raw)} bytes, its parameter has {room}"))
        block[start : start + len(raw)] = raw
    return Parameters(bytes(block), [slot.offset for slot in slots])


def _step(stride: str, copies: Mapping[str, Placed]) -> int:
    name, _, axis = stride.rpartition(".")
    return copies[name].steps[int(axis)]


def _numpy(dtype: str | None) -> str:
    """A numpy type of the same size."""
    return {None: "int32", "bfloat16": "float16"}.get(dtype, dtype) or "int32"
