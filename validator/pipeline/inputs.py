"""What a check starts from: the change, the trusted policy and its waivers, and the untrusted manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from validator.change.folder import FolderTree
from validator.change.git import Repository
from validator.change.model import Change, ChangeError, Tree, read_files
from validator.errors import Problem, ValidatorError
from validator.manifest.model import Manifest
from validator.policy.load import FOLDER, PolicyError, policy_from_tree
from validator.policy.model import Policy, Waiver
from validator.policy.waivers import waivers_from_tree
from validator.scope.manifests import look_up
from validator.text import nearest
from validator.verdict.bundle import digest

__all__ = ["InputError", "Inputs", "Options", "open_inputs"]


class InputError(ValidatorError):
    """What was asked for cannot be found, or means several things."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to check."""

    repository: Path
    base: str
    """Revision as a person names it."""
    head: str
    rfc: str | None = None
    """Manifest's path in the head tree; None: the one that the change brings."""
    policies: str | None = None
    """Revision or folder that holds the policy; None: the base."""
    seed: int = 0
    journal: Path | None = None
    """Folder that keeps every finished differential case, for a later run of the same to take up."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that is read before a stage runs."""

    change: Change
    policy: Policy
    policy_source: str
    policy_digest: str
    policy_tree: Tree
    waivers: tuple[Waiver, ...]
    manifest: Manifest | None
    """None: there is none that can be read; the scope stage says why."""
    manifest_path: str | None
    manifest_digest: str | None
    other_manifests: tuple[str, ...] = ()
    """Manifests that the change brings and that do not count."""


def open_inputs(options: Options) -> Inputs:
    """Read it all, or raise with every problem that can be known at once."""
    repository = Repository(options.repository)
    change = repository.change(options.base, options.head)
    tree, source = _policy_tree(options, repository, change)
    policy = policy_from_tree(tree)
    waivers = waivers_from_tree(tree, policy)
    _asked_manifest(options, change)
    found = look_up(change, policy, options.rfc)
    return Inputs(
        change=change,
        policy=policy,
        policy_source=source,
        policy_digest=_digest_of(read_files(tree, FOLDER, ".toml", deep=True)),
        policy_tree=tree,
        waivers=waivers,
        manifest=found.manifest,
        manifest_path=found.path,
        manifest_digest=digest(found.data) if found.data is not None else None,
        other_manifests=found.others,
    )


def _digest_of(files: Mapping[str, bytes]) -> str:
    lines = (f"{hashlib.sha256(data).hexdigest()} {path}\n" for path, data in sorted(files.items()))
    return digest("".join(lines).encode("utf-8", "surrogateescape"))


def _policy_tree(options: Options, repository: Repository, change: Change) -> tuple[Tree, str]:
    """The tree whose `policies/` judges, and where it is in words."""
    if options.policies == "":  # nothing must not make the working folder the judge
        raise InputError(Problem("is empty", "--policies", "name a revision or a folder, or leave the option out"))
    if options.policies is None:
        return change.base_tree, f"{FOLDER}/ at base {change.base[:12]}"
    folder = Path(options.policies)
    commit = _policy_commit(options.policies, repository, folder.is_dir())
    if commit:
        return repository.tree(commit), f"{FOLDER}/ at {commit[:12]} (--policies)"
    return _folder_tree(folder), f"folder {folder.absolute().name} (--policies)"


def _policy_commit(name: str, repository: Repository, is_folder: bool) -> str | None:
    """The commit that `--policies` names; None when it names a folder. A name with both meanings is an error."""
    if is_folder and "/" in name:
        return None
    try:
        commit = repository.resolve(name)
    except ChangeError as error:
        if is_folder:
            return None
        if "/" in name and not name.startswith("refs/"):
            fix = "name a folder that holds policies/*.toml, or a branch, a tag or a commit id"
            what = "is neither a folder nor a revision"
            raise InputError(Problem(what, f"--policies {name}", fix)) from None
        raise InputError(*(Problem(p.what, f"--policies {p.where}", p.fix) for p in error.problems)) from None
    if is_folder:
        fix = f"write ./{name} for the folder or refs/heads/{name} for the branch"
        raise InputError(Problem("is both a revision and a folder", f"--policies {name}", fix))
    return commit


def _folder_tree(folder: Path) -> Tree:
    folder = folder.resolve()
    root = folder if (folder / FOLDER).is_dir() else folder.parent
    if root == folder or folder.name == FOLDER:
        if any((root / FOLDER).glob("*.toml")):
            return FolderTree(root)
        raise PolicyError(Problem("no policy there", f"{root / FOLDER}/*.toml", "write one with `validator init`"))
    raise PolicyError(
        Problem("is no policy folder", str(folder), f"name a folder called {FOLDER}/, or one that holds it")
    )


def _asked_manifest(options: Options, change: Change) -> None:
    """A manifest that was asked for by name has to be there; what is wrong inside it is the change's fault."""
    if options.rfc is None or change.head_tree.entry(options.rfc) is not None:
        return
    meant = nearest(options.rfc, [entry.path for entry in change.head_tree.list("rfcs")])
    fix = f"did you mean {meant}?" if meant else "give its path from the repository's root"
    raise InputError(Problem("no such file in the head", f"--rfc {options.rfc}", fix))
