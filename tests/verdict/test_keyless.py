"""Signatures by an identity: real ones are checked without a network, and what is missing is said in words."""

from __future__ import annotations

import importlib.resources
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.verdict.test_attest import make
from validator.verdict import attest, keyless
from validator.verdict.attest import check_keyless, sign_bundle_keyless
from validator.verdict.bundle import verify_bundle
from validator.verdict.keyless import TOKEN, Signer, signed_payload
from validator.verdict.signing import SigningError

sigstore = pytest.importorskip("sigstore", reason="signatures by an identity need the [sign] extra")

ELSEWHERE = (Path(__file__).parent / "sigstore/signed-elsewhere.json").read_bytes()
WORKFLOW = "https://github.com/trailofbits/pypi-attestation-models/.github/workflows/release.yml@refs/tags/v0.0.4a2"
GITHUB = "https://token.actions.githubusercontent.com"
SIGNER = Signer(WORKFLOW, GITHUB)


def roots() -> Path:
    """Sigstore's own roots of trust, as its package ships them."""
    store = importlib.resources.files("sigstore") / "_store" / "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"
    return Path(str(store / "trusted_root.json"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no network in this test")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.delenv(TOKEN, raising=False)
    for name in ("GITHUB_ACTIONS", "CIRCLECI", "BUILDKITE", "GITLAB_CI", "GOOGLE_SERVICE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("root", [None, roots()])
def test_a_real_signature_is_checked_without_a_network(root: Path | None) -> None:
    signed = signed_payload(ELSEWHERE, Signer(WORKFLOW, GITHUB, root))
    assert signed is not None
    kind, payload = signed
    assert kind == "application/vnd.in-toto+json"
    assert json.loads(payload)["predicateType"] == "https://docs.pypi.org/attestations/publish/v1"


@pytest.mark.parametrize(
    "signer",
    [
        Signer(WORKFLOW.replace("v0.0.4a2", "v9"), GITHUB),
        Signer(WORKFLOW, "https://accounts.google.com"),
        Signer("", ""),
    ],
)
def test_nobody_else_has_signed(signer: Signer) -> None:
    assert signed_payload(ELSEWHERE, signer) is None


def spoiled(*path: str, value: Any) -> bytes:
    document = json.loads(ELSEWHERE)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 10_000,
        spoiled("dsseEnvelope", "payload", value="e30="),
        spoiled("dsseEnvelope", "signatures", value=[]),
        spoiled("verificationMaterial", "tlogEntries", value=[]),
        spoiled("verificationMaterial", "certificate", value={"rawBytes": "AAAA"}),
    ],
)
def test_what_was_changed_is_signed_by_nobody(document: bytes) -> None:
    assert signed_payload(document, SIGNER) is None


def test_a_signature_over_something_else_is_no_signature_of_this_bundle(tmp_path: Path) -> None:
    bundle = make(tmp_path / "b")
    assert [p.what for p in check_keyless(bundle, SIGNER)] == ["is missing: nobody signed this bundle by an identity"]
    (bundle / "statement.sigstore.json").write_bytes(ELSEWHERE)
    assert verify_bundle(bundle) == ()
    assert [p.what for p in check_keyless(bundle, SIGNER)] == ["is signed for something else than this bundle"]
    stranger = Signer("mallory@example.com", GITHUB)
    assert [p.what for p in check_keyless(bundle, stranger)] == [
        f"is not signed by mallory@example.com (vouched for by {GITHUB})"
    ]


def test_a_signature_over_this_bundle_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the real signature above is about stands in for what this bundle would state."""
    signed = signed_payload(ELSEWHERE, SIGNER)
    assert signed is not None
    monkeypatch.setattr(attest, "_expected", lambda folder: json.loads(signed[1]))
    bundle = make(tmp_path / "b")
    (bundle / "statement.sigstore.json").write_bytes(ELSEWHERE)
    assert check_keyless(bundle, SIGNER) == []


def test_signing_writes_the_statement_and_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[bytes] = []
    monkeypatch.setattr(attest, "sign_keyless", lambda payload: handed.append(payload) or b"signed\n")
    bundle = make(tmp_path / "b")
    sign_bundle_keyless(bundle)
    assert (bundle / "statement.json").read_bytes() == handed[0]
    assert json.loads(handed[0])["_type"] == "https://in-toto.io/Statement/v1"
    assert (bundle / "statement.sigstore.json").read_bytes() == b"signed\n"
    assert verify_bundle(bundle) == ()


@pytest.mark.parametrize(
    ("token", "words"),
    [("", "no identity to sign as.*id-token: write"), ("x", "sigstore could not sign it"), (None, "no identity")],
)
def test_without_an_identity_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str | None, words: str
) -> None:
    if token is not None:
        monkeypatch.setenv(TOKEN, token)
    bundle = make(tmp_path / "b")
    before = sorted(p.name for p in bundle.iterdir())
    with pytest.raises(SigningError, match=words):
        sign_bundle_keyless(bundle)
    assert sorted(p.name for p in bundle.iterdir()) == before


def test_without_a_network_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from sigstore.models import ClientTrustConfig

    monkeypatch.setattr("sigstore.oidc.IdentityToken.__init__", lambda self, raw: None)
    monkeypatch.setenv(TOKEN, "token")
    asked: list[str] = []
    production = ClientTrustConfig.production
    monkeypatch.setattr(ClientTrustConfig, "production", lambda: asked.append("network") or production())
    with pytest.raises(SigningError, match="sigstore could not sign it"):
        keyless.sign_keyless(b'{"_type": "x"}')
    assert asked == ["network"]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n == "sigstore" or n.startswith("sigstore.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sigstore", None)
    with pytest.raises(SigningError, match=r"pip install 'validator\[sign\]'"):
        signed_payload(ELSEWHERE, SIGNER)
    with pytest.raises(SigningError, match=r"pip install 'validator\[sign\]'"):
        keyless.sign_keyless(b"")


def test_roots_of_trust_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "roots").write_text("{}")
    for path in (tmp_path / "gone", tmp_path / "roots", tmp_path):
        with pytest.raises(SigningError):
            signed_payload(ELSEWHERE, Signer(WORKFLOW, GITHUB, path))
