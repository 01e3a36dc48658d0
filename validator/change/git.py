"""Opens a change: names to commit ids, the merge base, and what differs, from objects only."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from validator.change.diff import diff_trees
from validator.change.model import Change, ChangeError, Tree
from validator.change.objects import GitTree, Objects
from validator.change.plumbing import Git, Store, failure, resolver
from validator.errors import Problem

__all__ = ["EMPTY", "Repository", "open_change"]

EMPTY = "empty"
"""As a base: no revision at all, for a repository's first commit. Everything in the head is then new, and the policy
has to come from elsewhere (`--policies`), because an empty base holds none. A branch of this name goes first."""

_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def open_change(repository: str | os.PathLike[str], base: str, head: str) -> Change:
    """The change from `base` to `head`, both as a person names revisions. Raises `ChangeError` with all problems."""
    return Repository(Path(repository)).change(base, head)


def _fetch(ref: str) -> str:
    """What brings a revision into a shallow clone."""
    if re.search(r"[~^@:]", ref):  # counted from a commit: it is the history behind that is missing
        return "git fetch --deepen=200"
    name = ref.removeprefix("refs/remotes/").removeprefix("origin/")
    return shlex.join(["git", "fetch", "origin", name if name == ref else f"{name}:refs/remotes/origin/{name}"])


class Repository:
    """A repository, read through git's plumbing. The trees it hands out keep it open."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise ChangeError(Problem("no such folder", os.fspath(path), "name a git repository with --repo"))
        self._names: Git = resolver(path)
        done = self._names.run("rev-parse", "--show-object-format", "--is-shallow-repository")
        if done.returncode:
            if b"not a git repository" in done.stderr:
                problem = Problem("not a git repository", os.fspath(path), "name one with --repo")
                raise ChangeError(problem)
            raise failure("rev-parse", done.returncode, done.stderr)
        object_format, shallow = done.stdout.decode().split()
        self.shallow = shallow == "true"
        """History is cut (`git clone --depth`)."""
        boundary = (path / self._path("shallow")).read_bytes() if self.shallow else None
        self._store = Store((path / self._path("objects")).resolve(), object_format, boundary)
        self._objects = Objects(self._store)

    def _path(self, name: str) -> str:
        return os.fsdecode(self._names.output("rev-parse", "--git-path", name).removesuffix(b"\n"))

    def resolve(self, ref: str) -> str:
        """Commit id in full of a branch, tag, id or expression such as `HEAD~2`. Raises `ChangeError`."""
        if not ref or ref.startswith("-") or _CONTROL.search(ref):
            raise ChangeError(Problem("not a revision's name", repr(ref), "name a branch, a tag or a commit id"))
        try:
            done = self._names.run("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        except UnicodeEncodeError as error:
            raise ChangeError(Problem("not a revision's name", repr(ref))) from error
        if done.returncode:
            fix = f"history is cut here, it may have to be fetched: `{_fetch(ref)}`" if self.shallow else ""
            raise ChangeError(Problem("no such commit", ref, fix or "list what there is: `git branch -a`, `git tag`"))
        if b"is ambiguous" in done.stderr:
            fix = f"say which: refs/heads/{ref} or refs/tags/{ref}"
            raise ChangeError(Problem("the name has several meanings", ref, fix))
        return done.stdout.decode("ascii").strip()

    def tree(self, ref: str) -> Tree:
        """The files of a revision."""
        return self._tree(self.resolve(ref))

    def change(self, base: str, head: str) -> Change:
        """What `head` changed since it left `base`."""
        base_id, head_id = self._ends(base, head)
        merge_base, notes = self._merge_base(base_id, head_id)
        files, more = diff_trees(self._store.git, self._objects, merge_base, head_id)
        if self.shallow:
            notes += ("the clone is shallow: commits before its boundary were not seen",)
        return Change(
            base=base_id,
            head=head_id,
            merge_base=merge_base,
            files=files,
            base_tree=self._tree(base_id),
            merge_base_tree=self._tree(merge_base),
            head_tree=self._tree(head_id),
            base_ref=base,
            head_ref=head,
            shallow=self.shallow,
            notes=notes + more,
            tree=self._objects.root(head_id),
        )

    def _ends(self, base: str, head: str) -> tuple[str, str]:
        problems: list[Problem] = []
        ids: list[str] = []
        for side, ref in (("base", base), ("head", head)):
            try:
                ids.append(self._base(ref) if side == "base" else self.resolve(ref))
            except ChangeError as error:
                problems += (Problem(p.what, f"{side} {p.where}".strip(), p.fix) for p in error.problems)
        if problems:
            raise ChangeError(*problems)
        return ids[0], ids[1]

    def _base(self, ref: str) -> str:
        if ref == self._store.empty_tree:
            return ref
        try:
            return self.resolve(ref)
        except ChangeError:
            if ref == EMPTY:
                return self._store.empty_tree
            raise

    def _merge_base(self, base: str, head: str) -> tuple[str, tuple[str, ...]]:
        if base == self._store.empty_tree:
            return base, ("no base revision: everything in the head counts as new",)
        done = self._store.git.run("merge-base", "--all", base, head)
        if done.returncode not in (0, 1):
            raise failure("merge-base", done.returncode, done.stderr)
        found = done.stdout.decode("ascii").split()
        if not found:
            fix = "rebase the change onto the base"
            if self.shallow:
                fix = "the clone is shallow: fetch more history, e.g. `git fetch --unshallow` or `--deepen=200`"
            what = f"no merge base: {base[:12]} and {head[:12]} have no common commit here"
            raise ChangeError(Problem(what, fix=fix))
        if len(found) > 1:
            return found[0], (f"there are {len(found)} merge bases; {found[0][:12]} is used",)
        return found[0], ()

    def _tree(self, revision: str) -> GitTree:
        return GitTree(self._objects, revision, self._objects.root(revision))
