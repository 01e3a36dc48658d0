"""Real git repositories, built from trees in memory, with nothing of this machine's configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Node", "RepositoryBuilder", "Tree", "files", "read_tree"]

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-11-29T00:00:00Z",
    "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_COMMITTER_DATE": "2026-11-29T00:00:00Z",
}


@dataclass(frozen=True)
class Node:
    """One file of a tree: content and git mode. For a submodule, the content is the commit id."""

    data: bytes
    mode: int = 0o100644


Tree = Mapping[bytes, Node]
"""Path → file. Paths are bytes: not every path is UTF-8."""


def files(**contents: str) -> dict[bytes, Node]:
    """A tree of text files; `__` in a keyword means `/`, a trailing `_py`/`_toml` the suffix."""
    tree = {}
    for name, text in contents.items():
        path = name.replace("__", "/")
        for suffix in ("py", "toml", "md", "txt"):
            if path.endswith(f"_{suffix}"):
                path = f"{path.removesuffix(f'_{suffix}')}.{suffix}"
        tree[path.encode()] = Node(text.encode())
    return tree


def read_tree(folder: Path) -> dict[bytes, Node]:
    """The regular files below a folder."""
    return {
        os.fsencode(path.relative_to(folder)): Node(
            path.read_bytes(), 0o100755 if os.access(path, os.X_OK) else 0o100644
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@dataclass
class RepositoryBuilder:
    """Writes commits without a work tree: any path, mode and content goes."""

    path: Path
    object_format: str = "sha1"
    bare: bool = False
    marks: dict[str, str] = field(default_factory=dict)
    written: dict[bytes, str] = field(default_factory=dict)
    """Content → object id of what this builder wrote."""

    def __post_init__(self) -> None:
        options = ["--bare"] if self.bare else []
        self.path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", f"--object-format={self.object_format}", *options, ".")

    def git(self, *args: str, data: bytes = b"", cwd: Path | None = None) -> str:
        """Runs git in the repository and returns what it printed, without the last newline."""
        git = shutil.which("git")
        assert git
        done = subprocess.run(
            [git, *args],
            cwd=cwd or self.path,
            env=_ENVIRONMENT,
            input=data,
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, (args, done.stderr)
        return os.fsdecode(done.stdout).removesuffix("\n")

    def commit(self, tree: Tree, *parents: str, branch: str | None = None) -> str:
        """A commit of exactly this tree; a branch is moved to it."""
        commit = self.git("commit-tree", "-m", "c", *(o for p in parents for o in ("-p", p)), self.tree(tree))
        if branch:
            self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def tree(self, tree: Tree) -> str:
        """The tree's object id."""
        index = self.path / "index-of-test"
        environment = {"GIT_INDEX_FILE": str(index)}
        lines = b"".join(
            b"%06o %s 0\t%s\0" % (node.mode, self._object(node).encode(), path) for path, node in tree.items()
        )
        git = shutil.which("git")
        assert git
        try:
            for args, data in ((["update-index", "-z", "--index-info"], lines), (["write-tree", "--missing-ok"], b"")):
                done = subprocess.run(
                    [git, "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", *args],
                    cwd=self.path,
                    env=_ENVIRONMENT | environment,
                    input=data,
                    capture_output=True,
                    check=False,
                    timeout=120,
                )
                assert done.returncode == 0, done.stderr
            return done.stdout.decode().strip()
        finally:
            index.unlink(missing_ok=True)

    def _object(self, node: Node) -> str:
        if node.mode == 0o160000:
            return node.data.decode()
        if node.data not in self.written:
            self.written[node.data] = self.git("hash-object", "-w", "--stdin", data=node.data)
        return self.written[node.data]
