"""What a bundle attests: an in-toto Statement v1 with a `test-result` predicate, which a key can sign (DSSE).

The subject is the digest of the bundle's manifest, and the manifest holds the digest of everything else. Commit, tree
and policy stand in the predicate's configuration. Files: `statement.json`, and signed `statement.dsse.json`; both lie
beside the manifest, which cannot list what is made from its own digest.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validator.errors import Problem
from validator.verdict.bundle import (
    ENVELOPE,
    KEYLESS,
    MANIFEST,
    RESULT,
    SCHEMA,
    STATEMENT,
    dump,
    load_bundle,
    load_json,
    put,
)
from validator.verdict.keyless import Signer, sign_keyless, signed_payload
from validator.verdict.model import Status
from validator.verdict.signing import sign, signed_by

if TYPE_CHECKING:
    from validator.verdict.signing import PublicKey

__all__ = ["PAYLOAD_TYPE", "check_keyless", "check_statement", "sign_bundle", "sign_bundle_keyless", "statement"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_WARNED = (Status.WAIVED, Status.NOT_APPLICABLE, Status.NOT_ASKED)
_RESULTS = {"pass": "PASSED", "fail": "FAILED", "unproven": "FAILED"}
"""`unproven` is not `WARNED`: no evidence is never a pass."""


def statement(manifest: bytes, result: Mapping[str, Any]) -> dict[str, Any]:
    """The statement over a bundle: content of its `bundle.json`, and its result as a document."""
    change, policy = result["change"], result["policy"]
    by_status: dict[str, list[str]] = {}
    for obligation in result["obligations"]:
        status = Status.of(obligation["status"], obligation.get("asked", True))
        by_status.setdefault(status, []).append(obligation["id"])
    # A bundle of the first version knows no tree.
    tree = [{"name": "tree", "digest": {"gitTree": change["tree"]}}] if change.get("tree") else []
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": MANIFEST, "digest": {"sha256": hashlib.sha256(manifest).hexdigest()}}],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": _RESULTS[result["verdict"]],
            "configuration": [
                {"name": "commit", "digest": {"gitCommit": change["head"]}},
                *tree,
                {"name": "base", "digest": {"gitCommit": change["base"]}},
                {"name": "policy", "digest": {"sha256": policy["digest"].rpartition(":")[2]}},
            ],
            "passedTests": sorted(by_status.get("proven", [])),
            "warnedTests": sorted(name for status in _WARNED for name in by_status.get(status, [])),
            "failedTests": sorted(by_status.get("refuted", []) + by_status.get("unproven", [])),
        },
    }


def sign_bundle(folder: Path, key: Path) -> str:
    """Write the signed statement of a bundle; returns the id of the key. The bundle has been verified before."""
    payload = dump(_expected(folder))
    signatures = sign(PAYLOAD_TYPE, payload, key)
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": signatures,
    }
    put(folder / STATEMENT, payload)
    put(folder / ENVELOPE, dump(envelope))
    return signatures[0]["keyid"]


def sign_bundle_keyless(folder: Path) -> None:
    """Write the statement of a bundle as signed by whoever this process is. The bundle has been verified before."""
    payload = dump(_expected(folder))
    signed = sign_keyless(payload)
    put(folder / STATEMENT, payload)
    put(folder / KEYLESS, signed)


def check_keyless(folder: Path, signer: Signer) -> list[Problem]:
    """What is wrong with the signature by an identity; it has to be there. Raises `SigningError` without the means."""
    try:
        data = (folder / KEYLESS).read_bytes()
    except OSError:
        return [Problem("is missing: nobody signed this bundle by an identity", KEYLESS)]
    signed = signed_payload(data, signer)
    if signed is None:
        return [Problem(f"is not signed by {signer.identity} (vouched for by {signer.issuer})", KEYLESS)]
    if signed[0] != PAYLOAD_TYPE or not _is_about(signed[1], _expected(folder)):
        return [Problem("is signed for something else than this bundle", KEYLESS)]
    return []


def check_statement(folder: Path, keys: Mapping[str, PublicKey] | None = None) -> list[Problem]:
    """What is wrong with a bundle's statement. With `keys`, a signature by one of them has to be there."""
    problems = []
    try:
        expected = _expected(folder)
    except (KeyError, TypeError, AttributeError) as error:
        return [Problem(f"cannot be read as a result ({type(error).__name__})", RESULT)]
    if not (folder / STATEMENT).exists():
        if load_json(folder / MANIFEST)["schema"] == SCHEMA:
            problems.append(Problem("is missing", STATEMENT))
    elif load_json(folder / STATEMENT) != expected:
        problems.append(Problem("is not the statement about this bundle", STATEMENT))
    if not (folder / ENVELOPE).exists():
        return problems + ([Problem("is missing: nobody signed this bundle", ENVELOPE)] if keys else [])
    envelope = load_json(folder / ENVELOPE)
    payload = _payload(envelope)
    if payload is None:
        return [*problems, Problem("is no signed in-toto statement", ENVELOPE)]
    if not _is_about(payload, expected):
        problems.append(Problem("is signed for something else than this bundle", ENVELOPE))
    elif keys is not None and not signed_by(PAYLOAD_TYPE, payload, envelope.get("signatures"), keys):
        problems.append(Problem("holds no valid signature by the keys that were named", ENVELOPE))
    return problems


def _expected(folder: Path) -> dict[str, Any]:
    bundle = load_bundle(folder)
    return statement((bundle.folder / MANIFEST).read_bytes(), load_json(folder / RESULT))


def _is_about(payload: bytes, expected: Mapping[str, Any]) -> bool:
    try:
        return bool(json.loads(payload) == expected)
    except (ValueError, RecursionError):
        return False


def _payload(envelope: Mapping[str, Any]) -> bytes | None:
    try:
        if envelope.get("payloadType") != PAYLOAD_TYPE:
            return None
        return base64.b64decode(envelope["payload"], validate=True)
    except (KeyError, TypeError, ValueError):
        return None
