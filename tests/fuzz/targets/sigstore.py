"""Sigstore bundles: whatever lies beside evidence as its signature shows who signed it, or shows nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from tests.fuzz.targets.common import ROOT
from validator.verdict import keyless
from validator.verdict.keyless import Signer, signed_payload

MODULES = ("validator.verdict.keyless", "sigstore.models", "sigstore.verify", "sigstore.dsse")
_WORKFLOW = "https://github.com/trailofbits/pypi-attestation-models/.github/workflows/release.yml@refs/tags/v0.0.4a2"
_SIGNER = Signer(_WORKFLOW, "https://token.actions.githubusercontent.com")
_REAL = (ROOT / "tests" / "verdict" / "sigstore" / "signed-elsewhere.json").read_bytes()

keyless._verifier = cache(keyless._verifier)  # one for all inputs: reading the roots of trust takes most of the time


def seeds() -> Iterator[bytes]:
    yield _REAL
    yield json.dumps(
        {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": {}}
    ).encode()
    yield b"{}"


def one(data: bytes) -> None:
    found = signed_payload(data, _SIGNER)
    if found is not None:
        assert found == signed_payload(_REAL, _SIGNER)
