"""Machine code to instructions, each distinct encoding decoded once.

Starting nvdisasm costs half a second and it prints some 30,000 instructions a second, while the millions of
instructions of a library repeat a small vocabulary. So instructions are told apart by their 128 bits without the
scheduling fields (bits 105 to 125: stall, yield, scoreboards, operand reuse, which change no meaning), every new one
goes once into a raw image for `nvdisasm -json -b SMxx`, and targets, which are relative to the instruction, are
counted back from the image's address to a distance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from validator.binary.tools import INSTALL_HINT, Tools, run_tool
from validator.errors import Problem
from validator.ordering.program import Guard, Operation, Reg
from validator.ordering.sass.errors import SassError

__all__ = ["Decoder", "Instruction", "decoder_for"]

_WORD = 16
_BASE = 1 << 40
_NEAR = 1 << 36
_SCHEDULING = ((1 << 21) - 1) << 41
_BATCH = 60_000
_REMEMBERED = 1 << 18
"""Encodings kept from one batch to the next, about 1 KB each."""
_TIMEOUT = 300.0
_OUTPUT = 64 << 20
_BAD_ADDRESS = re.compile(rb"at address (0x[0-9a-fA-F]+)")
_TOKEN = re.compile(r"^(!?)(0x[0-9a-f]+)$")
_TOGETHER = re.compile(r"((?:^|,)\s*(?:\[[^\]]*\]|U?[RP](?:\d+|[ZT])))(?=\[)")
"""nvdisasm 13.0 puts no comma between an address and what it follows: `[UR4][UR6],UR8` of UBLKCP, `R0[UR4]` of LDS."""
_TURNED = re.compile(r"^((?:desc\[[^\]]*\])?\[[^\]]*\])(\[[^\]]*\])")
"""Nor between those of LDGSTS, of which it puts first what is read."""


@dataclass(eq=False)
class Instruction:
    """One distinct encoding. Shared by every place it stands at, so nothing here depends on where that is."""

    opcode: str
    """As printed, with modifiers: `LDG.E.64.CONSTANT`; empty when nvdisasm cannot decode it."""
    operands: tuple[str, ...]
    """As printed, without `.reuse`; a target is left out (see `distance`)."""
    guard: Guard | None
    never: bool
    """`@!PT`: a filler that never executes."""
    distance: int | None
    """Bytes from this instruction to the target it names."""
    code: int
    """Low 12 bits of the encoding."""
    lowered: Mapping[Reg, Operation] | None = field(default=None, repr=False)
    """What it sets, filled in by the first program that asks when that does not depend on the kernel."""
    defined: tuple[Reg, ...] | None = field(default=None, repr=False)
    """Registers it writes, filled in likewise."""

    @cached_property
    def base(self) -> str:
        """`LDG` of `LDG.E.64`."""
        return self.opcode.partition(".")[0]

    @cached_property
    def modifiers(self) -> frozenset[str]:
        return frozenset(self.opcode.split(".")[1:])

    def text(self, pc: int) -> str:
        """One line, as nvdisasm would print it at `pc`."""
        operands = list(self.operands)
        if self.distance is not None:
            operands.append(f"{pc + self.distance:#x}")
        guard = f"@{'!' if self.guard.negated else ''}{self.guard.register.name} " if self.guard else ""
        return f"{'@!PT ' if self.never else guard}{self.opcode} {', '.join(operands)}".rstrip()


def decoder_for(tools: Tools, sm: int) -> Decoder:
    """The one decoder of this process for an architecture: starting nvdisasm is what costs time."""
    return _decoder(tools.nvdisasm, sm)


@cache
def _decoder(nvdisasm: Path | None, sm: int) -> Decoder:
    return Decoder(Tools(nvdisasm), sm)


class Decoder:
    """Decodes for one architecture (`sm`: 90, 100, …) and remembers what it has seen."""

    def __init__(self, tools: Tools, sm: int) -> None:
        if tools.nvdisasm is None:
            raise SassError(Problem("nvdisasm was not found", "", INSTALL_HINT))
        self._tool = str(tools.nvdisasm)
        # The "a" variant decodes everything that the plain and the family variants have.
        self._machine = f"SM{sm}a" if sm >= 90 else f"SM{sm}"
        self._known: dict[bytes, Instruction] = {}

    def learn(self, codes: Iterable[bytes | memoryview]) -> None:
        """Decodes every encoding of these functions that is new, in as few runs of nvdisasm as possible."""
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._learn(codes)

    def _learn(self, codes: Iterable[bytes | memoryview]) -> None:
        new: dict[bytes, bytes] = {}
        for code in codes:
            for key, word in zip(_keys(code), _words(code), strict=True):
                if key not in self._known:
                    new.setdefault(key, word)
        if not new:
            return
        keys, words = list(new), list(new.values())
        spans = [slice(i, i + _BATCH) for i in range(0, len(words), _BATCH)]
        if len(spans) == 1 and len(words) > 2000:
            half = len(words) // 2
            spans = [slice(0, half), slice(half, len(words))]
        with ThreadPoolExecutor(2) as pool:
            for span, decoded in zip(spans, pool.map(self._run, [words[s] for s in spans]), strict=True):
                self._known.update(zip(keys[span], decoded, strict=True))

    def decode(self, code: bytes | memoryview) -> list[Instruction]:
        """The instructions of one function; decodes what is new."""
        self._learn([code])
        return [self._known[key] for key in _keys(code)]

    def _run(self, words: Sequence[bytes]) -> list[Instruction]:
        """nvdisasm refuses a whole image for one bad instruction and names it: those are taken out, twice at most."""
        bad: set[int] = set()
        for _ in range(3):
            good = [i for i in range(len(words)) if i not in bad]
            if not good:
                break
            printed, complaint = self._print(b"".join(words[i] for i in good))
            if printed is not None:
                if len(printed) < len(good):
                    raise SassError(Problem(f"printed {len(printed)} of {len(good)} instructions", "nvdisasm"))
                result = [_undecodable(word) for word in words]
                for position, index in enumerate(good):
                    result[index] = _instruction(printed[position], words[index], _BASE + position * _WORD)
                return result
            addresses = {(int(a, 16) - _BASE) // _WORD for a in _BAD_ADDRESS.findall(complaint)}
            named = {good[a] for a in addresses if 0 <= a < len(good)}
            if not named:
                raise SassError(Problem(f"failed: {complaint[:500].decode('utf-8', 'backslashreplace')}", "nvdisasm"))
            bad |= named
        return [_undecodable(word) for word in words]

    def _print(self, image: bytes) -> tuple[list[dict[str, str]] | None, bytes]:
        with TemporaryDirectory(prefix="validator-sass-") as folder:
            path = Path(folder) / "image"
            path.write_bytes(image)
            command = [self._tool, "-json", "-ndf", "-base", hex(_BASE), "-b", self._machine, str(path)]
            said = run_tool(command, timeout=_TIMEOUT, output_limit=_OUTPUT, folder=Path(folder), check=False)
        if not said.startswith(b"["):
            return None, said
        try:
            functions = json.loads(said)[1]
            return [i for f in functions for i in f["sass-instructions"]], b""
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise SassError(Problem(f"printed JSON of an unknown form ({error})", "nvdisasm")) from None


def _words(code: bytes | memoryview) -> list[bytes]:
    raw = bytes(code)
    return [raw[i : i + _WORD] for i in range(0, len(raw), _WORD)]


def _keys(code: bytes | memoryview) -> list[bytes]:
    """Encodings without their scheduling bits."""
    import numpy as np

    words = np.frombuffer(bytes(code), dtype="<u8").reshape(-1, 2).copy()
    words[:, 1] &= np.uint64(~_SCHEDULING & (1 << 64) - 1)
    raw = words.tobytes()
    return [raw[i : i + _WORD] for i in range(0, len(raw), _WORD)]


def _undecodable(word: bytes) -> Instruction:
    return Instruction("", (), None, False, None, int.from_bytes(word[:2], "little") & 0xFFF)


def _instruction(printed: dict[str, str], word: bytes, address: int) -> Instruction:
    listed = printed.get("operands", "")
    if printed["opcode"].startswith("LDGSTS"):
        listed = _TURNED.sub(r"\2,\1", listed)
    listed = _TOGETHER.sub(r"\1,", listed)
    operands = [t.replace(".reuse", "").strip() for t in listed.split(",") if t.strip()]
    predicate = printed.get("predicate", "")
    if predicate and not predicate.startswith("@"):
        # nvdisasm 13.5 prints the `PR` operand of P2R in the predicate's place.
        operands.append(predicate)
        predicate = ""
    distance = None
    for i, token in enumerate(operands):
        found = _TOKEN.match(token)
        if found and abs(int(found[2], 16) - _BASE) < _NEAR:
            distance = int(found[2], 16) - address
            del operands[i]
            break
    guard, never = _guard(predicate)
    code = int.from_bytes(word[:2], "little") & 0xFFF
    return Instruction(printed["opcode"], tuple(operands), guard, never, distance, code)


def _guard(predicate: str) -> tuple[Guard | None, bool]:
    name = predicate.removeprefix("@")
    negated = name.startswith("!")
    name = name.removeprefix("!")
    if name in ("", "PT", "UPT"):
        return None, negated
    return Guard(Reg(name), negated, uniform=name.startswith("U")), False
