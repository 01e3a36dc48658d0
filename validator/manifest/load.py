"""Reads a manifest, or the kernel part of one, with every problem at once."""

from __future__ import annotations

from pathlib import PurePosixPath

from validator.errors import Problem
from validator.manifest.contract import KernelContract, Step
from validator.manifest.model import SCHEMA, Contract, Manifest
from validator.tables import TableError, load_document, load_model, validate

__all__ = ["ManifestError", "load_contract", "load_manifest"]


class ManifestError(TableError):
    """The manifest cannot be read: it says nothing, so nothing it would declare counts."""


def load_manifest(data: bytes, name: str) -> Manifest:
    """One `rfcs/<id>.toml`. `name` is its path, as a person would point at it. Raises `ManifestError`."""
    try:
        manifest, document = load_model(Manifest, data, name, SCHEMA)
    except TableError as error:
        raise ManifestError(*error.problems) from None
    stem = PurePosixPath(name).name.removesuffix(".toml")
    if stem != manifest.id:
        what = f"`id` is {manifest.id!r}, but the file is named {stem!r}"
        raise ManifestError(Problem(what, document.place(("id",)), f"rename the file to {manifest.id}.toml"))
    return manifest


def load_contract(data: bytes, name: str) -> tuple[tuple[KernelContract, ...], tuple[Step, ...]]:
    """`[[kernels]]` and `[[steps]]` of a contract file, or of a whole manifest. Raises `ManifestError`."""
    try:
        document = load_document(data, name, SCHEMA)
        contract: Contract = validate(Manifest if "id" in document.values else Contract, document)
    except TableError as error:
        raise ManifestError(*error.problems) from None
    return contract.kernels, contract.steps
