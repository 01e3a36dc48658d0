"""A folder as a tree: what is outside of it cannot be reached through it."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.change.folder import FolderTree
from validator.change.model import ChangeError, MissingFile


@pytest.fixture
def tree(tmp_path: Path) -> FolderTree:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "a").mkdir(parents=True)
    (inside / "a" / "b.toml").write_text("x = 1\n")
    (inside / "run.sh").write_text("#!/bin/sh\n")
    (inside / "run.sh").chmod(0o755)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / "link").symlink_to(outside)
    (inside / "a" / "file").symlink_to(outside / "secret")
    return FolderTree(inside)


def test_files(tree: FolderTree) -> None:
    assert [(e.path, e.kind) for e in tree.list()] == [
        ("a/b.toml", "regular"),
        ("a/file", "symlink"),
        ("link", "symlink"),
        ("run.sh", "executable"),
    ]
    assert [e.path for e in tree.list("a")] == ["a/b.toml", "a/file"]
    assert [e.path for e in tree.list("run.sh")] == ["run.sh"]
    assert tree.names("a") == ("b.toml", "file")
    assert tree.names("absent") == ()
    assert tree.read("a/b.toml") == b"x = 1\n"
    with pytest.raises(MissingFile, match="more than the 3 bytes"):
        tree.read("a/b.toml", 3)


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../out/secret", "link/secret", "/etc/passwd", "a/../run.sh", "a//b.toml", "a"]
)
def test_what_is_no_file_of_it(tree: FolderTree, path: str) -> None:
    assert tree.entry(path) is None
    with pytest.raises(MissingFile):
        tree.read(path)


def test_links_to_folders_are_not_entered(tree: FolderTree) -> None:
    assert [e.kind for e in tree.list("link")] == ["symlink"]
    assert tree.list("link/deep") == ()
    assert tree.names("link") == ()


def test_the_revision_follows_the_content(tree: FolderTree, tmp_path: Path) -> None:
    before = tree.revision
    assert before == tree.revision
    (tmp_path / "in" / "a" / "b.toml").write_text("x = 2\n")
    assert tree.revision != before


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ChangeError, match="no such folder"):
        FolderTree(tmp_path / "absent")
