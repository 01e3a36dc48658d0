"""Reads a manifest, or the kernel part of one, with every problem at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from validator.errors import Problem
from validator.manifest.contract import KernelContract, Step
from validator.manifest.model import SCHEMA, Contract, Manifest
from validator.manifest.parallel import spread
from validator.tables import Document, TableError, load_document, load_model, validate

__all__ = ["ManifestError", "load_contract", "load_manifest"]

_PLACEHOLDER = re.compile(r"@?TODO(?=[:_ ]|$)")


class ManifestError(TableError):
    """The manifest cannot be read: it says nothing, so nothing it would declare counts."""


def load_manifest(data: bytes, name: str) -> Manifest:
    """One `rfcs/<id>.toml`. `name` is its path, as a person would point at it. Raises `ManifestError`."""
    try:
        manifest, document = load_model(Manifest, data, name, SCHEMA)
    except TableError as error:
        raise ManifestError(*error.problems) from None
    problems = list(_left_over(manifest, document))
    stem = PurePosixPath(name).name.removesuffix(".toml")
    if stem != manifest.id:
        what = f"`id` is {manifest.id!r}, but the file is named {stem!r}"
        problems.append(Problem(what, document.place(("id",)), f"rename the file to {manifest.id}.toml"))
    kernels, wrong = _spread(manifest.kernels, manifest.scope.parallelism, document)
    if problems or wrong:
        raise ManifestError(*problems, *wrong)
    return manifest.model_copy(update={"kernels": kernels})


def _spread(
    kernels: tuple[KernelContract, ...], scope: tuple[str, ...] | None, document: Document
) -> tuple[tuple[KernelContract, ...], list[Problem]]:
    """Contracts with the shapes of every way in scope. `scope`: None where there is no manifest that says one."""
    found = [spread(contract, scope or contract.parallelism or ("none",)) for contract in kernels]
    wrong = [
        Problem(what, document.place(("kernels", at)), "widen `dims`, or say under which `parallelism` the kernel runs")
        for at, (_, told) in enumerate(found)
        for what in told
    ]
    return tuple(contract for contract, _ in found), wrong


def _left_over(manifest: Manifest, document: Document) -> Iterator[Problem]:
    """What `validator init` left to be filled in: a declaration that nobody made."""
    said = [
        (("title",), manifest.title),
        (("summary",), manifest.summary),
        *((("owners", at), owner) for at, owner in enumerate(manifest.owners)),
        *((("scope", "models", at), model) for at, model in enumerate(manifest.scope.models)),
    ]
    if manifest.switch is not None:
        said.append((("switch", "name"), manifest.switch.name))
    for path, text in said:
        if _PLACEHOLDER.match(text):
            yield Problem(
                f"{text.partition(':')[0]!r} is still to be filled in", document.place(path), "say what it is"
            )


def load_contract(data: bytes, name: str) -> tuple[tuple[KernelContract, ...], tuple[Step, ...]]:
    """`[[kernels]]` and `[[steps]]` of a contract file, or of a whole manifest. Raises `ManifestError`."""
    try:
        document = load_document(data, name, SCHEMA)
        contract: Contract = validate(Manifest if "id" in document.values else Contract, document)
    except TableError as error:
        raise ManifestError(*error.problems) from None
    scope = contract.scope.parallelism if isinstance(contract, Manifest) else None
    kernels, wrong = _spread(contract.kernels, scope, document)
    if wrong:
        raise ManifestError(*wrong)
    return kernels, contract.steps
