"""A repository whose configuration, attributes and environment try to run programs: none of them may run."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository import Node, RepositoryBuilder
from validator.change.git import open_change
from validator.change.model import AbsentObject, ChangeError, MissingFile, read_many


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a trace when it runs."""
    program = tmp_path / "trap"
    program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/ran.$$"\ncat 2>/dev/null\nexit 0\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def traces(trap: Path) -> list[str]:
    return sorted(path.name for path in trap.parent.glob("ran.*"))


CONFIG = """
[core]
\trepositoryformatversion = 0
\tfsmonitor = {trap}
\tsshCommand = {trap}
\thooksPath = {hooks}
\tpager = {trap}
\teditor = {trap}
\taskPass = {trap}
\tgitProxy = {trap}
\tattributesFile = {attributes}
\talternateRefsCommand = {trap}
[diff]
\texternal = {trap}
\trenames = copies
[diff "evil"]
\ttextconv = {trap}
\tcommand = {trap}
\tbinary = true
[filter "evil"]
\tclean = {trap}
\tsmudge = {trap}
\tprocess = {trap}
\trequired = true
[alias]
\trev-parse = !{trap}
\tdiff-tree = !{trap}
\tcat-file = !{trap}
\tmerge-base = !{trap}
[pager]
\trev-parse = {trap}
\tdiff-tree = {trap}
[interactive]
\tdiffFilter = {trap}
[credential]
\thelper = !{trap}
[gpg]
\tprogram = {trap}
[log]
\tshowSignature = true
[uploadpack]
\tpackObjectsHook = {trap}
[remote "origin"]
\turl = ext::{trap}
\tpromisor = true
\tpartialclonefilter = blob:none
\tuploadpack = {trap}
\tvcs = evil
[extensions]
\tpartialClone = origin
[protocol]
\tallow = always
[protocol "ext"]
\tallow = always
[include]
\tpath = {included}
"""
INCLUDED = "[core]\n\tfsmonitor = {trap}\n[diff]\n\texternal = {trap}\n"
HOOKS = (
    "post-checkout",
    "post-index-change",
    "pre-commit",
    "reference-transaction",
    "fsmonitor-watchman",
    "post-merge",
)


@pytest.fixture
def hostile(tmp_path: Path, trap: Path) -> Iterator[RepositoryBuilder]:
    builder = RepositoryBuilder(tmp_path / "repo")
    attributes = b"* filter=evil diff=evil text=auto working-tree-encoding=UTF-16\n"
    base = builder.commit({b"a.py": Node(b"1\n"), b".gitattributes": Node(attributes)}, branch="main")
    head = {b"a.py": Node(b"2\n"), b"b.py": Node(b"3\n"), b".gitattributes": Node(attributes)}
    builder.commit(head, base, branch="change")
    builder.git("read-tree", "change")
    (builder.path / "a.py").write_text("changed in the work tree\n")
    (builder.path / ".gitattributes").write_bytes(attributes)
    hooks, git = tmp_path / "hooks", builder.path / ".git"
    hooks.mkdir()
    for folder in (hooks, git / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            (folder / name).write_text(trap.read_text())
            (folder / name).chmod(0o755)
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_bytes(attributes)
    (tmp_path / "included").write_text(INCLUDED.format(trap=trap))
    places = {"hooks": hooks, "attributes": git / "info" / "attributes", "included": tmp_path / "included"}
    (git / "config").write_text(CONFIG.format(trap=trap, **places))
    yield builder
    assert traces(trap) == []


def test_the_trap_works(hostile: RepositoryBuilder, trap: Path) -> None:
    """Plain git over the same repository does run it; otherwise the other tests prove nothing."""
    subprocess.run(["git", "diff", "main", "change"], cwd=hostile.path, capture_output=True, check=False, timeout=60)
    subprocess.run(["git", "status"], cwd=hostile.path, capture_output=True, check=False, timeout=60)
    assert traces(trap)
    for path in trap.parent.glob("ran.*"):
        path.unlink()


def test_opening_a_change_runs_nothing(hostile: RepositoryBuilder) -> None:
    change = open_change(hostile.path, "main", "change")
    assert [(f.path, f.added, f.deleted) for f in change.files] == [("a.py", 1, 1), ("b.py", 1, 0)]
    assert change.head_tree.read("a.py") == b"2\n"
    assert len(change.head_tree.list()) == 3


def test_missing_objects_are_not_fetched(hostile: RepositoryBuilder) -> None:
    blob = hostile.git("hash-object", "--stdin", data=b"3\n")
    (hostile.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ChangeError, match=r"b\.py: its content is not in the repository"):
        open_change(hostile.path, "main", "change")


def test_missing_commits_are_not_fetched(hostile: RepositoryBuilder) -> None:
    for ref in ("0" * 39 + "1", "refs/remotes/origin/main", "origin/main"):
        with pytest.raises(ChangeError, match="no such commit"):
            open_change(hostile.path, "main", ref)


def test_a_missing_tree_is_not_fetched(hostile: RepositoryBuilder) -> None:
    tree = hostile.git("cat-file", "-p", "change").split()[1]
    (hostile.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(AbsentObject, match="its tree is not in the repository"):
        open_change(hostile.path, "main", "change")


def test_a_file_whose_content_is_not_here_is_no_missing_file(tmp_path: Path) -> None:
    """What is left out where it cannot be read must not be what a sparse, partial clone lacks."""
    builder = RepositoryBuilder(tmp_path / "repo")
    module = Node(b"0" * 39 + b"1", 0o160000)
    first = builder.commit({b"a.py": Node(b"1\n"), b"b.py": Node(b"2\n"), b"module": module}, branch="main")
    builder.commit({b"a.py": Node(b"1\n"), b"b.py": Node(b"3\n"), b"module": module}, first, branch="change")
    tree = open_change(builder.path, "main", "change").head_tree
    assert dict(read_many(tree, ["a.py", "b.py", "module", "none"])) == {"a.py": b"1\n", "b.py": b"3\n"}
    blob = builder.git("hash-object", "--stdin", data=b"1\n")
    (builder.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    tree = open_change(builder.path, "main", "change").head_tree
    for read in (lambda: tree.read("a.py"), lambda: list(read_many(tree, ["b.py", "a.py"]))):
        with pytest.raises(AbsentObject, match=r"a\.py: its content is not in the repository; this clone is partial"):
            read()
    with pytest.raises(MissingFile):
        tree.read("none")


def test_the_callers_environment_does_not_get_through(
    hostile: RepositoryBuilder, trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = {
        "GIT_EXTERNAL_DIFF": str(trap),
        "GIT_SSH_COMMAND": str(trap),
        "GIT_PAGER": str(trap),
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "elsewhere"),
        "GIT_INDEX_FILE": str(tmp_path / "elsewhere"),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap}'",
        "GIT_TRACE": str(tmp_path / "ran.trace"),
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_EXEC_PATH": str(tmp_path),
        "LD_PRELOAD_OF_TEST": "x",
    }
    for name, value in evil.items():
        monkeypatch.setenv(name, value)
    assert len(open_change(hostile.path, "main", "change").files) == 2


def test_nothing_in_the_repository_is_written(hostile: RepositoryBuilder) -> None:
    def snapshot() -> dict[str, tuple[int, int]]:
        return {
            os.path.join(folder, name): (os.lstat(path).st_mtime_ns, os.lstat(path).st_size)
            for folder, _, names in os.walk(hostile.path)
            for name in names
            if (path := os.path.join(folder, name))
        }

    before = snapshot()
    open_change(hostile.path, "main", "change").head_tree.read("a.py")
    assert snapshot() == before


def test_nothing_is_left_behind(hostile: RepositoryBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    change = open_change(hostile.path, "main", "change")
    change.head_tree.read("a.py")
    assert list(folder.iterdir())
    del change
    assert not list(folder.iterdir())
