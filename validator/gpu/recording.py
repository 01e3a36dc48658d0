"""A run of several steps, recorded: which launches there were, on which memory, and whether what is declared fixed was.

"Static weight" is a claim about the caller, so it is checked where the caller can be watched: the contents and the
address of every `weight` and `stable` argument are kept from launch to launch, and one that changes is refuted with the
launch that changed it. The same recording gives the step (order of launches, which buffer is which argument) to the
ordering audit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from validator.gpu.driver import Device, Function, Launch, Parameters
from validator.manifest.contract import KernelContract, Role, Step, StepLaunch

__all__ = [
    "Bound",
    "Broken",
    "Launched",
    "Recorder",
    "Recording",
    "broken_roles",
    "dumped",
    "memory_of",
    "parsed",
    "step_of",
]


class Tensor(Protocol):
    """What is needed of a torch tensor."""

    @property
    def nbytes(self) -> int: ...
    def data_ptr(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Bound:
    """One argument of one launch."""

    argument: str
    role: Role | None
    address: int
    size: int
    """Bytes."""

    @property
    def static(self) -> bool:
        return self.role is not None and self.role.static


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch."""

    kernel: str
    step: int
    """Both from 0."""
    number: int
    """In its step."""
    pdl: bool
    arguments: tuple[Bound, ...]
    digests: Mapping[tuple[int, int], str]
    """(address, bytes) → digest, after the launch: of all static memory seen so far."""

    @property
    def words(self) -> str:
        return f"launch {self.number + 1} of step {self.step + 1} ({self.kernel})"


@dataclass(frozen=True, slots=True)
class Broken:
    """A `weight` or `stable` argument that was not fixed."""

    kernel: str
    argument: str
    role: Role
    by: str
    """The launch that changed it, in words."""
    what: str
    """`contents` or `address`."""

    def __str__(self) -> str:
        how = "changed its contents" if self.what == "contents" else "was given other memory for it"
        return f"{self.argument} of {self.kernel} is declared `{self.role.value}`, and {self.by} {how}"


@dataclass
class Recording:
    """Launches in order."""

    launches: list[Launched] = field(default_factory=list)
    first: dict[tuple[int, int], str] = field(default_factory=dict)
    """(address, bytes) of static memory → digest before the first launch that was given it."""


def dumped(recording: Recording) -> str:
    """As JSON, for another process."""
    launches = [
        {
            "kernel": launched.kernel,
            "step": launched.step,
            "number": launched.number,
            "pdl": launched.pdl,
            "arguments": [[a.argument, a.role, a.address, a.size] for a in launched.arguments],
            "digests": [[*place, digest] for place, digest in launched.digests.items()],
        }
        for launched in recording.launches
    ]
    return json.dumps({"launches": launches, "first": [[*place, digest] for place, digest in recording.first.items()]})


def parsed(text: str) -> Recording:
    """What `dumped` wrote. Raises ValueError: the other process runs what nobody has read."""

    def digests(rows: Any) -> dict[tuple[int, int], str]:
        return {(int(address), int(size)): str(digest) for address, size, digest in rows}

    try:
        said = json.loads(text)
        launches = [
            Launched(
                str(row["kernel"]),
                int(row["step"]),
                int(row["number"]),
                bool(row["pdl"]),
                tuple(Bound(str(n), Role(r) if r else None, int(a), int(s)) for n, r, a, s in row["arguments"]),
                digests(row["digests"]),
            )
            for row in said["launches"]
        ]
        return Recording(launches, digests(said["first"]))
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no recording: {error}") from None


class Recorder:
    """Records launches as they are made. `digest` reads memory: (address, bytes) → a digest of the contents."""

    def __init__(self, digest: Callable[[int, int], str]) -> None:
        self._digest = digest
        self.recording = Recording()
        self._step, self._number = 0, 0

    @classmethod
    def on(cls, device: Device) -> Recorder:
        """For launches on a device, on any stream; contents are compared by BLAKE2b."""

        def digest(address: int, size: int) -> str:
            device.call("cuCtxSynchronize")
            return hashlib.blake2b(device.download(address, size), digest_size=16).hexdigest()

        return cls(digest)

    def step(self) -> None:
        """The next launch begins another step."""
        if self._number:
            self._step, self._number = self._step + 1, 0

    def launch(
        self,
        contract: KernelContract,
        kernel: str,
        memory: Mapping[str, tuple[int, int]],
        run: Callable[[], None],
        pdl: bool | None = None,
    ) -> None:
        """Run one launch. `memory`: argument (a struct's field by its own name) → (address, bytes) of its buffer."""
        roles = {part.name: part.role for arg in contract.args for part in (arg.fields or (arg,))}
        arguments = tuple(Bound(name, roles.get(name), *where) for name, where in memory.items())
        for bound in arguments:
            place = (bound.address, bound.size)
            if bound.static and place not in self.recording.first:
                self.recording.first[place] = self._digest(*place)
        run()
        digests = {place: self._digest(*place) for place in self.recording.first}
        with_pdl = bool(contract.launch.pdl) if pdl is None else pdl
        self.recording.launches.append(Launched(kernel, self._step, self._number, with_pdl, arguments, digests))
        self._number += 1

    def launch_on(
        self,
        device: Device,
        function: Function,
        how: Launch,
        parameters: Parameters,
        contract: KernelContract,
        memory: Mapping[str, tuple[int, int]],
    ) -> None:
        """`launch` of a kernel through the driver."""
        self.launch(contract, function.name, memory, lambda: device.launch(function, how, parameters), how.pdl)


def memory_of(**tensors: Tensor) -> dict[str, tuple[int, int]]:
    """Argument → (address, bytes), for `Recorder.launch` of a callable on torch tensors."""
    return {name: (tensor.data_ptr(), tensor.nbytes) for name, tensor in tensors.items()}


def broken_roles(recording: Recording) -> tuple[Broken, ...]:
    """Every static argument that was changed, with the first launch that did it."""
    found = [*_changed(recording), *_moved(recording)]
    first: dict[tuple[str, str], Broken] = {}
    for broken in found:
        first.setdefault((broken.kernel, broken.argument), broken)
    return tuple(first.values())


def _changed(recording: Recording) -> Iterator[Broken]:
    """Contents that another launch wrote."""
    before = dict(recording.first)
    holders: dict[tuple[int, int], list[tuple[str, Bound]]] = {}
    for launched in recording.launches:
        for bound in launched.arguments:
            if bound.static:
                holders.setdefault((bound.address, bound.size), []).append((launched.kernel, bound))
    for launched in recording.launches:
        for place, digest in launched.digests.items():
            if before.setdefault(place, digest) != digest:
                yield from (_broken(kernel, bound, launched, "contents") for kernel, bound in holders.get(place, ()))
            before[place] = digest


def _moved(recording: Recording) -> Iterator[Broken]:
    """Memory that is another one in another step: what is allocated anew is written anew, whoever does it."""
    known: dict[tuple[str, int, str], Bound] = {}
    for launched in recording.launches:
        for bound in launched.arguments:
            key = (launched.kernel, launched.number, bound.argument)
            before = known.setdefault(key, bound)
            if bound.static and before.address != bound.address:
                yield _broken(launched.kernel, bound, launched, "address")


def _broken(kernel: str, bound: Bound, launched: Launched, what: str) -> Broken:
    assert bound.role is not None
    return Broken(kernel, bound.argument, bound.role, launched.words, what)


def step_of(recording: Recording, number: int = -1, name: str = "recorded") -> Step:
    """One recorded step (by default the last) as the ordering audit takes it. Memory that overlaps is one buffer."""
    last = max((launched.step for launched in recording.launches), default=0)
    wanted = last + 1 + number if number < 0 else number
    launches = [launched for launched in recording.launches if launched.step == wanted]
    names = _buffers(bound for launched in launches for bound in launched.arguments)
    return Step(
        name=name,
        launches=tuple(
            StepLaunch(
                kernel=_literally(launched.kernel),
                args={bound.argument: names[bound] for bound in launched.arguments},
                pdl=launched.pdl,
            )
            for launched in launches
        ),
    )


def _buffers(bounds: Iterable[Bound]) -> dict[Bound, str]:
    """A name for every argument's memory, the same where it overlaps: that of the first argument there."""
    groups: list[list[tuple[int, Bound]]] = []
    end = -1
    for number, bound in sorted(enumerate(bounds), key=lambda one: (one[1].address, one[0])):
        if bound.address >= end:
            groups.append([])
        groups[-1].append((number, bound))
        end = max(end, bound.address + bound.size)
    names: dict[Bound, str] = {}
    used: dict[str, int] = {}
    for members in groups:
        group = [bound for _, bound in sorted(members, key=lambda one: one[0])]
        base = group[0].argument
        used[base] = used.get(base, 0) + 1
        names |= dict.fromkeys(group, base if used[base] == 1 else f"{base}#{used[base]}")
    return names


def _literally(name: str) -> str:
    """A glob that means this name alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
