"""`fixtures/isolation`: a realistic change that is isolated, and what breaks it."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.support.repository import Node, RepositoryBuilder, Tree, read_tree
from validator.change.git import open_change
from validator.policy.load import policy_from_tree
from validator.scope import look_up
from validator.stage import StageContext

__all__ = ["FOLDER", "TODAY", "context_of", "edited", "honest", "line_of_edit"]

FOLDER = Path(__file__).parents[2] / "fixtures" / "isolation"
TODAY = date(2026, 11, 29)


def honest() -> tuple[dict[bytes, Node], dict[bytes, Node]]:
    """(base, head) of the honest change."""
    base = read_tree(FOLDER / "base")
    return base, base | read_tree(FOLDER / "good")


def edited(tree: dict[bytes, Node], edits: Sequence[Mapping[str, Any]]) -> dict[bytes, Node]:
    """The tree with each edit made: `{path, old, new}`; no `old`: `new` is the file's text; no `new`: it goes."""
    tree = dict(tree)
    for edit in edits:
        path = edit["path"].encode()
        if "new" not in edit:
            del tree[path]
        elif "old" not in edit:
            tree[path] = Node(edit["new"].encode())
        else:
            old = edit["old"].encode()
            assert tree[path].data.count(old) == 1, (edit["path"], edit["old"], tree[path].data.count(old))
            tree[path] = Node(tree[path].data.replace(old, edit["new"].encode()))
    return tree


def line_of_edit(tree: Tree, path: str, at: str) -> int:
    """1-based line of the only line of the file that holds `at`."""
    lines = tree[path.encode()].data.decode().splitlines()
    found = [i for i, line in enumerate(lines, 1) if at in line]
    assert len(found) == 1, (path, at, found)
    return found[0]


@functools.cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="validator-test-")


@functools.cache
def _repository() -> RepositoryBuilder:
    """One for all tests of a process: most of the files of all changes are the same."""
    return RepositoryBuilder(Path(_kept().name), bare=True)


def context_of(base: Tree, head: Tree, folder: Path, *, own: bool = False) -> StageContext:
    """The change as a stage sees it, from a real repository. `folder`: work folder; with `own`, the repository."""
    builder = RepositoryBuilder(folder, bare=True) if own else _repository()
    first = builder.commit(base, branch="main")
    builder.commit(head, first, branch="change")
    change = open_change(builder.path, "main", "change")
    policy = policy_from_tree(change.base_tree)
    return StageContext(change, policy, look_up(change, policy, None).manifest, TODAY, 0, folder, lambda _: None)
