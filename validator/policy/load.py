"""Reads `policies/*.toml`: several files, one policy, every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validator.change.model import Tree, read_files
from validator.errors import Problem
from validator.policy.model import SCHEMA, Policy
from validator.tables import Document, TableError, dotted, load_model, validate

__all__ = ["FOLDER", "PolicyError", "load_policy", "policy_from_tree"]

FOLDER = "policies"
"""Where policies live in a tree."""


class PolicyError(TableError):
    """The policy is missing or cannot be used: nothing can be judged."""


def policy_from_tree(tree: Tree, folder: str = FOLDER) -> Policy:
    """The policy of a trusted revision. Raises `PolicyError`."""
    files = read_files(tree, folder, ".toml")
    if not files:
        fix = "write one with `validator init`, merge it first, or name another place with --policies"
        raise PolicyError(Problem("no policy at the base revision", f"{folder}/*.toml in {tree.revision[:12]}", fix))
    return load_policy(files)


def load_policy(files: Mapping[str, bytes]) -> Policy:
    """Path → content. A key that two files set is an error: order must not decide. Raises `PolicyError`."""
    problems: list[Problem] = []
    documents: list[Document] = []
    for name in sorted(files):
        try:
            documents.append(load_model(Policy, files[name], name, SCHEMA)[1])
        except TableError as error:
            problems += error.problems
    merged: dict[str, Any] = {}
    owner: dict[tuple[str, ...], Document] = {}
    for document in documents:
        problems += _merge(merged, document.values, (), document, owner)
    if problems:
        raise PolicyError(*problems)
    return validate(Policy, Document(" and ".join(sorted(files)), merged, {}))


def _merge(
    into: dict[str, Any],
    values: Mapping[str, Any],
    path: tuple[str, ...],
    document: Document,
    owner: dict[tuple[str, ...], Document],
) -> list[Problem]:
    problems: list[Problem] = []
    for key, value in values.items():
        here = (*path, key)
        if here == ("schema",):
            into[key] = value
        elif isinstance(value, Mapping) and isinstance(into.get(key, {}), dict):
            problems += _merge(into.setdefault(key, {}), value, here, document, owner)
        elif key in into:
            what = f"`{dotted(here)}` is set in {owner[here].place(here)} too"
            problems.append(Problem(what, document.place(here), "keep one of them"))
        else:
            into[key] = value
            owner[here] = document
    return problems
