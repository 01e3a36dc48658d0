"""`fixtures/rules/<family>/<rule>/{bad,good}/change.toml`: an honest change with one thing altered.

`fixtures/rules/honest/{base,head}` are the base revision and an honest change over it. A `change.toml` alters either:

    today = 2026-11-29               # the gate's day
    rfc = "rfcs/x.toml"              # as --rfc
    land_first = ["…"]               # files of the head that the base has already
    also = ["rule/id"]               # other rules that fire too
    [[base.…]] [[head.…]]            # edit {path, old, new, executable} · write {path, text, repeat, executable} ·
                                     # bytes {path, hex} · link {path, target} · submodule {path, commit} ·
                                     # copy {from, path, old, new}
    [head] delete = ["…"]
    [[expect]]                       # exactly the findings of this rule: path, line, severity, says, fix, steps

`path_hex` stands for a path that is not UTF-8.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tests.support.repository import Node, RepositoryBuilder, Tree, read_tree
from validator.change.git import open_change
from validator.policy.load import policy_from_tree
from validator.scope import look_up
from validator.stage import StageContext

__all__ = ["FOLDER", "RuleFixture", "fixture_names", "gate_fixtures", "open_context", "rule_fixture"]

FOLDER = Path(__file__).parents[2] / "fixtures" / "rules"
TODAY = date(2026, 11, 29)


@dataclass(frozen=True)
class RuleFixture:
    """One side of a pair."""

    rule: str
    base: Tree
    head: Tree
    today: date
    rfc: str | None
    also: frozenset[str]
    expect: tuple[Mapping[str, Any], ...]


def fixture_names() -> list[str]:
    """Rule ids that have a pair."""
    return sorted(f"{p.parent.name}/{p.name}" for p in FOLDER.glob("*/*") if (p / "bad").is_dir())


def rule_fixture(rule: str, side: str) -> RuleFixture:
    """`side`: `bad` or `good`."""
    return _fixture(rule, tomllib.loads((FOLDER / rule / side / "change.toml").read_text()))


def gate_fixtures(kind: str) -> dict[str, RuleFixture]:
    """`kind`: `evasion` (each expects one finding of its rule) or `honest` (expect none). Name → change."""
    tables = tomllib.loads((FOLDER / "evasions.toml").read_text())[kind]
    return {t["name"]: _fixture(t.get("rule", ""), {**t, "expect": [t] if "rule" in t else []}) for t in tables}


def _fixture(rule: str, spec: Mapping[str, Any]) -> RuleFixture:
    base = read_tree(FOLDER / "honest" / "base")
    overlay = read_tree(FOLDER / "honest" / "head")
    for path in spec.get("land_first", ()):
        base[path.encode()] = overlay[path.encode()]
    _alter(base, spec.get("base", {}))
    head = base | overlay
    _alter(head, spec.get("head", {}))
    return RuleFixture(
        rule=rule,
        base=base,
        head=head,
        today=spec.get("today", TODAY),
        rfc=spec.get("rfc"),
        also=frozenset(spec.get("also", ())),
        expect=tuple(spec.get("expect", ())),
    )


def path_of(table: Mapping[str, Any]) -> bytes:
    """The path a table names."""
    return bytes.fromhex(table["path_hex"]) if "path_hex" in table else os.fsencode(table["path"])


def _alter(tree: dict[bytes, Node], spec: Mapping[str, Any]) -> None:
    for table in spec.get("write", ()):
        text = table["text"].removeprefix("\n") * table.get("repeat", 1)
        tree[path_of(table)] = Node(text.encode(), 0o100755 if table.get("executable") else 0o100644)
    for table in spec.get("bytes", ()):
        tree[path_of(table)] = Node(bytes.fromhex(table["hex"]))
    for table in spec.get("link", ()):
        tree[path_of(table)] = Node(os.fsencode(table["target"]), 0o120000)
    for table in spec.get("submodule", ()):
        tree[path_of(table)] = Node(table["commit"].encode(), 0o160000)
    for table in spec.get("copy", ()):
        tree[path_of(table)] = _edited(tree[table["from"].encode()], table)
    for table in spec.get("edit", ()):
        tree[path_of(table)] = _edited(tree[path_of(table)], table)
    for path in spec.get("delete", ()):
        del tree[path.encode()]


def _edited(node: Node, table: Mapping[str, Any]) -> Node:
    old = table["old"].encode()
    assert node.data.count(old) == 1, (table, node.data)
    mode = 0o100755 if table.get("executable") else node.mode
    return Node(node.data.replace(old, table["new"].encode()), mode)


def open_context(fixture: RuleFixture, folder: Path) -> StageContext:
    """Builds the repository and opens the change as a stage sees it."""
    builder = RepositoryBuilder(folder, bare=True)
    base = builder.commit(fixture.base, branch="main")
    builder.commit(fixture.head, base, branch="change")
    change = open_change(folder, "main", "change")
    policy = policy_from_tree(change.base_tree)
    manifest = look_up(change, policy, fixture.rfc).manifest
    return StageContext(change, policy, manifest, fixture.today, 0, folder, lambda _: None, fixture.rfc)
