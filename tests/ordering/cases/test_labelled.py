"""The labelled corpus: 34 pairs of kernels, PTX and machine code for two architectures, every early access labelled."""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fixtures.ordering.labels import contract_of
from validator.manifest.contract import Role
from validator.ordering.result import AccessRow, KernelAudit
from validator.verdict.model import Severity

ROOT = Path(__file__).parents[3]
STORED = ROOT / "fixtures/ordering/labelled"
HANDED = ROOT.parent / "shared/cases"
"""The corpus beside the checkout, where there is one: it may be newer than the stored copy."""

RULES: dict[str, tuple[str, ...]] = {
    "A1": ("order/early-read",),
    "A2": ("order/early-read",),
    "B": ("order/no-wait",),
    "C": ("order/wait-missing-on-path", "order/early-read"),
    "C1": ("order/wait-missing-on-path", "order/early-read"),
    "C2": ("order/wait-missing-on-path", "order/early-read"),
    "D1": ("order/early-read", "order/movable-load"),
    "D2": ("order/early-read", "order/movable-load"),
    "D3": ("order/early-read", "order/movable-load"),
    "D4": ("order/early-read", "order/movable-load"),
    "D5": ("order/early-read", "order/movable-load"),
    "D6": ("order/early-read", "order/movable-load"),
    "D7": ("order/noncoherent-load-of-written-memory", "order/movable-load"),
    "E": ("order/no-wait",),
    "F": ("order/early-write", "order/early-atomic"),
    "G": ("order/trigger-without-wait",),
    "H1": ("order/flag-without-acquire",),
    "H2": ("order/flag-scope-too-narrow",),
    "I": ("order/async-copy-not-waited",),
    "J": ("order/missing-proxy-fence",),
    "K": ("order/noncoherent-load-of-written-memory",),
    "L": ("order/early-async-copy",),
    "M": ("order/early-async-copy",),
    "U": ("order/undeclared-argument",),
}
"""Kind of the corpus → rules of which one must be found. `P`, a lost prefetch, costs time only."""

FILES = [
    pytest.param(isa, arch, marks=pytest.mark.sass if isa == "sass" else ())
    for isa in ("ptx", "sass")
    for arch in ("sm_90a", "sm_100a")
]


def _same_as_stored() -> bool:
    """The handed corpus is the stored one; then it is audited once."""
    sums = HANDED / "SHA256SUMS"
    return sums.is_file() and sums.read_bytes() == (STORED / "SHA256SUMS").read_bytes()


def _cases() -> list[Any]:
    roots = {"stored": STORED} if _same_as_stored() else {"stored": STORED, "handed": HANDED}
    found = [
        pytest.param(case, id=f"{name}-{case.name}")
        for name, root in roots.items()
        for case in sorted(root.glob("*/"))
        if (case / "case.toml").is_file()
    ]
    if not HANDED.is_dir() or _same_as_stored():
        why = "it is the stored corpus, audited above" if HANDED.is_dir() else f"no {HANDED.name}/ beside the checkout"
        found.append(pytest.param(HANDED, id="handed", marks=pytest.mark.skip(why)))
    return found


def _role(name: str) -> Role | None:
    return None if name == "undeclared" else Role(name)


def _wanted_early(expect: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for r in expect["early"]:
        key = (
            (r["param"], r.get("field", 0), r["offset"], r["name"], r.get("level", 1)),
            (r["access"], r["op"], _role(r["role"]), r["allowed"]),
        )
        rows[key] += r["count"]
    return rows


def _early_key(row: AccessRow) -> tuple[Any, ...]:
    (ref,) = row.params or (None,)
    where = (ref.index, ref.offset, ref.block_offset, ref.name, row.level) if ref else None
    return (where, (row.access, row.instruction, row.role, row.allowed))


def _wanted_movable(expect: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for r in expect["movable"]:
        rows[r["param"], r.get("field", 0), r["name"], r["op"], _role(r["role"])] += r["count"]
    return rows


def _movable_key(row: AccessRow) -> tuple[Any, ...]:
    (ref,) = row.params
    return (ref.index, ref.offset, ref.name, row.instruction, row.role)


@pytest.mark.parametrize(("isa", "arch"), FILES)
@pytest.mark.parametrize("folder_", _cases())
def test_says_what_the_labels_say(folder_: Path, isa: str, arch: str, audited, one_kernel, alarms, counted, explain):
    case = tomllib.loads((folder_ / "case.toml").read_text())
    expect = case["expect"][isa][arch]
    audit = audited(expect["file"], (folder_ / expect["file"]).read_bytes(), (contract_of(case),))
    kernel: KernelAudit = one_kernel(audit, case["kernel"])
    said = explain(kernel)
    assert kernel.status.value in (expect["verdict"], *expect.get("also", ())), said
    assert kernel.wait_count == expect["waits"], said
    assert kernel.trigger_count == expect["triggers"], said
    assert counted(kernel.early, _early_key) == _wanted_early(expect), said
    assert counted(kernel.movable, _movable_key) == _wanted_movable(expect), said
    assert _order_of(kernel) == expect["order"], said
    found = {f.rule for f in kernel.findings}
    for kind in expect["kinds"]:
        assert kind == "P" or found & set(RULES[kind]), f"{kind} is not found\n{said}"
    if expect["verdict"] == "proven":
        assert not alarms(kernel, audit.findings), said


def _order_of(kernel: KernelAudit) -> str:
    """The verdict that the early accesses alone give."""
    forbidden = [row for row in kernel.early if not row.allowed]
    if any(row.params and row.role is not None for row in forbidden):
        return "refuted"
    return "unproven" if forbidden else "proven"


@pytest.mark.parametrize("root", [STORED, HANDED], ids=["stored", "handed"])
def test_the_labels_belong_to_these_files(root: Path):
    if not root.is_dir():
        pytest.skip(f"there is no {root.name}/ beside here")
    lines = (root / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == 272
    for line in lines:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((root / name).read_bytes()).hexdigest() == digest, name


def test_every_kind_of_the_corpus_has_a_rule(fixtures):
    kinds = set()
    for path in STORED.glob("*/case.toml"):
        case = tomllib.loads(path.read_text())
        kinds |= {kind for isa in case["expect"].values() for expect in isa.values() for kind in expect["kinds"]}
    assert kinds - {"P"} <= set(RULES)
    assert len(kinds) >= 20


def test_severity_is_what_decides():
    """The table above is used with findings that decide; a note must never be mistaken for one."""
    assert [s.value for s in Severity][:2] == ["error", "unproven"]
