"""JSON Schemas of every document this program reads or writes, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from validator.report.documents import BundleDocument, CheckDocument

__all__ = ["SCHEMAS", "Published", "schema_of"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Published:
    """One schema that `validator schema NAME` prints."""

    summary: str
    make: Callable[[], dict[str, Any]]


def _of_type(kind: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        from pydantic import TypeAdapter

        return {"$schema": _DIALECT, **TypeAdapter(kind).json_schema(by_alias=True)}

    return make


def _of_name(module: str, name: str) -> Callable[[], dict[str, Any]]:
    """For documents whose types live with the stage that owns them; imported when asked for."""
    return lambda: _of_type(getattr(importlib.import_module(module), name))()


SCHEMAS: dict[str, Published] = {
    "check": Published("result of `validator check` (validator/check/1)", _of_type(CheckDocument)),
    "manifest": Published(
        "rfcs/<id>.toml, what a change declares (validator/manifest/1)",
        _of_name("validator.manifest.model", "Manifest"),
    ),
    "contract": Published(
        "the kernel part of a manifest, for `audit --contract`", _of_name("validator.manifest.model", "Contract")
    ),
    "policy": Published("policies/*.toml (validator/policy/1)", _of_name("validator.policy.model", "Policy")),
    "waivers": Published(
        "policies/waivers/*.toml (validator/waivers/1)", _of_name("validator.policy.waivers", "WaiverFile")
    ),
    "audit": Published(
        "result of `validator audit` (validator/audit/1)", _of_name("validator.report.audit_document", "AuditDocument")
    ),
    "diff": Published(
        "result of `validator diff` (validator/diff/1)", _of_name("validator.differential.document", "DiffDocument")
    ),
    "run": Published(
        "result of `validator run` (validator/run/1)", _of_name("validator.emulate.document", "RunDocument")
    ),
    "review": Published(
        "reviews/*.json of a bundle, `review` (validator/review/1)", _of_name("validator.verdict.review", "Review")
    ),
    "bundle": Published("bundle.json (validator/bundle/2)", _of_type(BundleDocument)),
}


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of a document; `name` is a key of `SCHEMAS`."""
    return SCHEMAS[name].make()
