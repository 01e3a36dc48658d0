"""Mutants: a proven kernel without its wait must not stay proven; renaming and reordering must change nothing."""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from validator.binary.elf import Cubin
from validator.ordering.result import Audit, KernelAudit
from validator.verdict.model import Status

FIXTURES = Path(__file__).parents[3] / "fixtures/ordering"

WAIT = re.compile(r"griddepcontrol\.wait\s*;")
ACQBULK, NOP = 0x82E, 0x918
"""Low 12 bits of an instruction's first word."""

_IDLE = "behind the loop: a launch that ran no turn has touched nothing and triggered nothing"
EQUIVALENT = {("patterns/wait-inside-loop", 1): _IDLE, ("patterns/waits-once-in-a-loop", 1): _IDLE}
"""(folder, n-th wait of the file) → why removing or moving it breaks no rule."""


def _good() -> list[str]:
    """Folders in which every kernel is labelled proven, whatever the file, and some kernel waits.

    Not those with a step: in its light a launch may do without a wait. They have a test of their own.
    """
    found = []
    for path in sorted(FIXTURES.glob("[rp]*/**/expect.toml")):
        expects = tomllib.loads(path.read_text())["expect"]
        in_a_step = "[[steps]]" in path.with_name("contract.toml").read_text()
        if not in_a_step and all(e["verdict"] == "proven" for e in expects) and any(e["waits"] for e in expects):
            found.append(path.parent.relative_to(FIXTURES).as_posix())
    return found


GOOD = _good()


def _ptx(name: str) -> str:
    return max((FIXTURES / name).glob("*.ptx")).read_text()


WAITS = [pytest.param(name, n, id=f"{name}-{n}") for name in GOOD for n in range(len(WAIT.findall(_ptx(name))))]
"""One parameter set for every wait of every good folder's PTX."""


def _caught(audit: Audit) -> bool:
    """Some kernel is no longer proven, and a finding says why."""
    open_ = [k for k in audit.kernels if k.status in (Status.REFUTED, Status.UNPROVEN)]
    return bool(open_) and all(k.findings for k in open_)


@pytest.mark.parametrize(("name", "number"), WAITS)
def test_a_deleted_wait_is_noticed(name: str, number: int, folder, audited):
    labels, text = folder(name), _ptx(name)
    match = list(WAIT.finditer(text))[number]
    mutant = text[: match.start()] + text[match.end() :]
    audit = audited("mutant.ptx", mutant.encode(), labels.kernels, labels.steps)
    assert not audit.skipped
    assert _caught(audit) is ((name, number) not in EQUIVALENT), [k.reasons for k in audit.kernels]


@pytest.mark.parametrize(("name", "number"), WAITS)
def test_a_wait_moved_to_the_end_is_noticed(name: str, number: int, folder, audited):
    if (name, number) in EQUIVALENT:
        pytest.skip(EQUIVALENT[name, number])
    labels, text = folder(name), _ptx(name)
    match = list(WAIT.finditer(text))[number]
    end = text.index("ret;", match.end())
    between = re.sub(r"//.*|^\s*\.loc.*", "", text[match.end() : end], flags=re.MULTILINE)
    if not between.strip():
        pytest.skip("it stands at the end already")
    mutant = text[: match.start()] + text[match.end() : end] + "griddepcontrol.wait; " + text[end:]
    audit = audited("mutant.ptx", mutant.encode(), labels.kernels, labels.steps)
    assert not audit.skipped
    assert _caught(audit), [k.reasons for k in audit.kernels]


STEP = "patterns/older-activation-in-step"


@pytest.mark.parametrize("launch", ["project", "add_residual"])
def test_a_wait_deleted_from_a_step_is_noticed_where_it_harms(launch: str, folder, audited):
    """`project` without its wait leaves `embed` open; `add_residual` without its own reads y early."""
    labels, text = folder(STEP), _ptx(STEP)
    at = text.index("griddepcontrol.wait;", text.index(f".entry {launch}("))
    mutant = text[:at] + text[at + len("griddepcontrol.wait;") :]
    audit = audited("mutant.ptx", mutant.encode(), labels.kernels, labels.steps)
    assert {k.name for k in audit.kernels if k.status is Status.REFUTED} >= {"add_residual"}


def test_a_trigger_moved_above_the_wait_chains(folder, audited):
    """`project` lets `add_residual` in before `embed` is complete: the fault is the early read of h there."""
    labels, text = folder(STEP), _ptx(STEP)
    at = text.index("griddepcontrol.wait;", text.index(".entry project("))
    mutant = text[:at] + "griddepcontrol.launch_dependents; " + text[at:]
    audit = audited("mutant.ptx", mutant.encode(), labels.kernels, labels.steps)
    assert {k.name: k.status.value for k in audit.kernels} == {
        "embed": "proven",
        "project": "proven",
        "add_residual": "refuted",
    }


def _acqbulks(data: bytes) -> list[int]:
    """File offsets of every grid wait of a cubin."""
    cubin = Cubin(data, "fixture")
    starts = {s.index: s.offset for s in cubin.sections}
    found = {
        starts[kernel.section] + at
        for kernel in cubin.kernels()
        for at in range(0, len(kernel.code), 16)
        if int.from_bytes(kernel.code[at : at + 8], "little") & 0xFFF == ACQBULK
    }
    return sorted(found)


def _without(data: bytes, offsets: list[int]) -> bytes:
    """The instructions at `offsets` made NOPs that keep their scheduling bits."""
    mutant = bytearray(data)
    for at in offsets:
        low = int.from_bytes(data[at : at + 8], "little")
        high = int.from_bytes(data[at + 8 : at + 16], "little")
        mutant[at : at + 8] = (low & 0xF000 | NOP).to_bytes(8, "little")
        mutant[at + 8 : at + 16] = (high >> 41 << 41).to_bytes(8, "little")
    return bytes(mutant)


@pytest.mark.sass
@pytest.mark.parametrize("name", GOOD)
def test_a_wait_patched_out_of_the_machine_code_is_noticed(name: str, folder, audited):
    labels = folder(name)
    data = max(labels.path.glob("*.cubin")).read_bytes()
    offsets = _acqbulks(data)
    assert offsets, "a good kernel without a wait is no material for this test"
    for number, at in enumerate(offsets):
        audit = audited("mutant.cubin", _without(data, [at]), labels.kernels, labels.steps)
        assert not audit.skipped
        assert _caught(audit) is ((name, number) not in EQUIVALENT), (number, [k.reasons for k in audit.kernels])
    if len(offsets) > 1:
        assert _caught(audited("mutant.cubin", _without(data, offsets), labels.kernels, labels.steps))


# What must change nothing.

_PREFIX = re.compile(r"%(rd|rs|r|fd|f|p)(?=[<\d])")
_NAMES = {"rd": "addr", "rs": "short", "r": "word", "fd": "double", "f": "real", "p": "cond"}
_PURE = re.compile(
    r"^\t(?:mov|add|sub|mul|mad|shl|shr|and|or|xor|cvt|cvta|ld\.param|setp|selp|min|max)\b[\w.]*\s+(%\w+),\s*(.*);$"
)
_REGISTER = re.compile(r"%[A-Za-z]+\d+")


def _renamed(text: str) -> str:
    return _PREFIX.sub(lambda m: f"%{_NAMES[m[1]]}", text)


def _shuffled(text: str, seed: int) -> str:
    """Neighbouring pure instructions that do not touch each other's registers, swapped at random."""
    lines, rng = text.split("\n"), random.Random(seed)
    for _ in range(4 * len(lines)):
        at = rng.randrange(len(lines) - 1)
        one, two = _PURE.match(lines[at]), _PURE.match(lines[at + 1])
        if one and two and _independent(one, two):
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "\n".join(lines)


def _independent(one: re.Match[str], two: re.Match[str]) -> bool:
    reads_one, reads_two = set(_REGISTER.findall(one[2])), set(_REGISTER.findall(two[2]))
    return one[1] != two[1] and one[1] not in reads_two and two[1] not in reads_one


def _said(kernel: KernelAudit) -> Any:
    """What an audit says, without places."""
    rows = [sorted((r.access, repr(r.params), r.allowed, r.count, r.instruction) for r in rows_)
            for rows_ in (kernel.early, kernel.movable, kernel.accesses)]  # fmt: skip
    findings = sorted((f.id, f.severity.value, f.count) for f in kernel.findings)
    return kernel.name, kernel.status, kernel.wait_count, kernel.unresolved, rows, findings


ALL = sorted(p.parent.relative_to(FIXTURES).as_posix() for p in FIXTURES.glob("[rp]*/**/sm_90a.ptx"))


@pytest.mark.parametrize("name", ALL)
def test_names_and_the_order_of_independent_lines_do_not_matter(name: str, folder, audited):
    labels, text = folder(name), _ptx(name)
    # Positions of source lines stand between the instructions and would keep most of them apart.
    text = re.sub(r"^\s*\.loc.*\n(?:\n)?", "", text, flags=re.MULTILINE)
    want = audited("kernel.ptx", text.encode(), labels.kernels, labels.steps)
    for mutant in (_renamed(text), _shuffled(text, 1), _shuffled(_renamed(text), 2)):
        got = audited("kernel.ptx", mutant.encode(), labels.kernels, labels.steps)
        assert [_said(k) for k in got.kernels] == [_said(k) for k in want.kernels]
        assert not got.skipped


def test_the_mutants_are_mutants():
    """A mutation that changes nothing would prove nothing."""
    changed = [name for name in ALL if _shuffled(_ptx(name), 1) != _ptx(name) or _renamed(_ptx(name)) != _ptx(name)]
    assert changed == ALL
    assert len(GOOD) >= 25
