"""Every rule's bad/good pair and every pattern of real kernels, against labels read off the code."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from validator.ordering.result import AccessRow, Audit, KernelAudit

FIXTURES = Path(__file__).parents[3] / "fixtures/ordering"
FOLDERS = sorted(p.parent.relative_to(FIXTURES).as_posix() for p in FIXTURES.glob("[rp]*/**/expect.toml"))

Row = dict[str, Any]


def _files() -> list[Any]:
    found = []
    for name in FOLDERS:
        for file in sorted((FIXTURES / name).iterdir()):
            if file.suffix in (".ptx", ".cubin"):
                marks = (pytest.mark.sass,) if file.suffix == ".cubin" else ()
                found.append(pytest.param(name, file.name, id=f"{name}/{file.name}", marks=marks))
    return found


def _params(row: Row) -> frozenset[tuple[int, int, str]]:
    refs = [] if row.get("unresolved") else row.get("any_of", [row])
    return frozenset((r["param"], r["offset"], r["name"]) for r in refs)


def _key(row: AccessRow) -> tuple[Any, ...]:
    return (frozenset((p.index, p.offset, p.name) for p in row.params), row.access, row.level)


@pytest.mark.parametrize(("name", "file"), _files())
def test_says_what_the_labels_say(name: str, file: str, folder, audited, one_kernel, alarms, counted, explain):
    labels = folder(name)
    audit: Audit = audited(file, (labels.path / file).read_bytes(), labels.kernels, labels.steps)
    mine = [e for e in labels.expectations if file in e["files"]]
    assert mine, f"{name}/expect.toml does not speak of {file}"
    assert {e["kernel"] for e in mine} == {k.name for k in audit.kernels}
    for expect in mine:
        kernel: KernelAudit = one_kernel(audit, expect["kernel"])
        said = explain(kernel)
        assert kernel.status.value in (expect["verdict"], *expect.get("also", ())), said
        assert kernel.wait_count == expect["waits"], said
        assert kernel.trigger_count == expect["triggers"], said
        found = {f.rule for f in (*kernel.findings, *_about(audit, kernel))}
        for one_of in expect.get("rules", ()):
            assert found & set(one_of), f"none of {one_of} was found\n{said}"
        assert not found & set(expect.get("absent", ())), said
        if expect["verdict"] == "proven" and not expect.get("also"):
            assert not alarms(kernel, audit.findings), said
        if "early" in expect:
            _compare_early(expect["early"], kernel, said)
        if "movable" in expect:
            wanted = Counter(
                {(frozenset({(r["param"], r["offset"], r["name"])}), "read", 1): r["count"] for r in expect["movable"]}
            )
            assert counted(kernel.movable, _key) == wanted, said


def _about(audit: Audit, kernel: KernelAudit) -> list[Any]:
    return [f for f in audit.findings if f.where.kernel == kernel.name]


def _compare_early(wanted: list[Row], kernel: KernelAudit, said: str) -> None:
    """Every labelled row with its count, no other; a row without `allowed` leaves the judgement open."""
    left = Counter[tuple[Any, ...]]()
    for row in kernel.early:
        left[*_key(row), row.allowed] += row.count
    for row in wanted:
        key = (_params(row), row["access"], row.get("level", 1))
        judged = [row["allowed"]] if "allowed" in row else [True, False]
        there = sum(left.pop((*key, allowed), 0) for allowed in judged)
        assert there == row["count"] or (row.get("optional") and not there), f"{row} is labelled, {there} found\n{said}"
    assert not left, f"not labelled: {dict(left)}\n{said}"


PAIRS = sorted(p.name for p in (FIXTURES / "rules").iterdir())


@pytest.mark.sass
@pytest.mark.parametrize("kind", ["bad", "good"])
@pytest.mark.parametrize("rule", PAIRS)
def test_a_bad_folder_shows_its_rule_and_the_good_one_does_not(rule: str, kind: str, folder, audited_together):
    """Everything of a folder at once, as people audit it: rules that compare builds or launches need that."""
    labels = folder(f"rules/{rule}/{kind}")
    files = [p for p in sorted(labels.path.iterdir()) if p.suffix in (".ptx", ".cubin")]
    audit: Audit = audited_together([(p.name, p.read_bytes()) for p in files], labels.kernels, labels.steps)
    assert not audit.skipped
    found = {f.rule for f in (*audit.findings, *(f for k in audit.kernels for f in k.findings))}
    assert (f"order/{rule}" in found) is (kind == "bad"), sorted(found)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_label_says_why_an_honest_tool_may_say_less(name: str, folder):
    for expect in folder(name).expectations:
        assert bool(expect.get("also")) == bool(expect.get("also_why"))
        assert all(rule.startswith("order/") for one_of in expect.get("rules", ()) for rule in one_of)


def test_every_file_is_the_one_that_was_labelled():
    lines = (FIXTURES / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    there = {
        p.relative_to(FIXTURES).as_posix(): p for top in ("rules", "patterns") for p in (FIXTURES / top).rglob("*.*")
    }
    there = {name: p for name, p in there.items() if p.suffix in (".ptx", ".cubin")}
    assert listed.keys() == there.keys()
    for name, path in there.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == listed[name], name


def test_nothing_in_the_files_names_the_machine_that_built_them():
    absolute = re.compile(rb'"/(?!/)[^"\n]*"|(?:^|\0)/(?:home|root|tmp|work|Users|mnt)/')
    for top in ("rules", "patterns"):
        for path in (FIXTURES / top).rglob("*.*"):
            if path.suffix in (".ptx", ".cubin"):
                assert not absolute.search(path.read_bytes()), path
