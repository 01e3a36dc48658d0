"""Bundles: `verify` says what was touched, reading says what cannot be read, and neither believes a word of it."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.targets.common import ROOT, joined, parts, told
from validator.errors import ValidatorError
from validator.report.reading import read_result
from validator.verdict.attest import check_statement
from validator.verdict.bundle import load_bundle, verify_bundle, write_bundle
from validator.verdict.review import check_reviews

MODULES = ("validator.verdict", "validator.report.reading")
_STORED = ROOT / "tests" / "report" / "bundles"
_REVIEW = json.dumps(
    {
        "review": {
            "schema": "validator/review/1",
            "decision": "approve",
            "reviewer": "r",
            "reason": "x",
            "bundle": "b",
            "manifest": "sha256:0",
            "policy": "sha256:0",
            "commit": "c",
            "verdict": "pass",
            "after": None,
            "made": "2026-11-29T00:00:00Z",
        },
        "signatures": [],
    }
).encode()
_OBLIGATION = {"id": "a", "statement": "s", "status": "proven", "reason": "", "evidence": ["e"], "findings": []}
_SMALL = {
    "verdict": "pass",
    "obligations": [_OBLIGATION],
    "evidence": [{"id": "e", "status": "proven"}],
    "findings": [],
    "waivers": [],
}


def seeds() -> Iterator[bytes]:
    for folder in sorted(_STORED.iterdir()):
        result = (folder / "result.json").read_bytes()
        yield joined(
            result, (folder / "environment.json").read_bytes(), b"{}", _REVIEW, (folder / "bundle.json").read_bytes()
        )
    yield joined(json.dumps(_SMALL).encode(), b"{}", b'{"_type": "https://in-toto.io/Statement/v1"}', _REVIEW, b"")


def one(data: bytes) -> None:
    """Result, environment, statement, review, manifest; without a manifest, one that fits is written."""
    result, environment, statement, review, manifest = parts(data, 5)
    with tempfile.TemporaryDirectory(prefix="validator-fuzz-") as scratch:
        folder = Path(scratch, "b")
        write_bundle(folder, {"result.json": result, "environment.json": environment}, "pass")
        for name, text in (
            ("statement.json", statement),
            ("statement.dsse.json", statement),
            ("reviews/0001.json", review),
        ):
            if text:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(text)
        if manifest:
            (folder / "bundle.json").write_bytes(manifest)
        _look(folder)


def _look(folder: Path) -> None:
    before = _digest(folder)
    for read in (load_bundle, verify_bundle, check_statement, check_reviews, read_result):
        try:
            found = read(folder)
        except ValidatorError as error:
            told(error)
            continue
        if isinstance(found, list | tuple):
            assert all(problem.what and problem.where for problem in found)
    assert _digest(folder) == before, "reading wrote"


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        total.update(path.name.encode() + (path.read_bytes() if path.is_file() else b""))
    return total.hexdigest()
