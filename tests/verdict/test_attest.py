"""Statements, signatures and reviews are bound to one bundle, and say so when they are not."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.verdict.test_bundle import DOCUMENT
from validator.verdict.attest import check_statement, sign_bundle, statement
from validator.verdict.bundle import BundleError, dump, verify_bundle, write_bundle
from validator.verdict.review import ReviewError, check_reviews, read_reviews, record
from validator.verdict.signing import PASSPHRASE, SigningError, public_keys

pytest.importorskip("cryptography", reason="signatures need the [sign] extra")

NOW = datetime(2026, 11, 29, 12, 0, 30, 7, tzinfo=UTC)
ABOUT = {
    "change": {"head": "b" * 40, "base": "a" * 40, "tree": "c" * 40},
    "policy": {"digest": "sha256:" + "d" * 64},
}


def make(folder: Path, status: str = "proven", verdict: str = "pass") -> Path:
    """A bundle with one obligation of that status."""
    obligation = {**DOCUMENT["obligations"][0], "status": status, "reason": "because"}  # type: ignore[index]
    document = {**DOCUMENT, **ABOUT, "verdict": verdict, "obligations": [obligation]}
    files = {"result.json": dump(document), "environment.json": dump({})}
    write_bundle(folder, files, verdict, lambda m: {"statement.json": dump(statement(m, document))})
    return folder


def keys(folder: Path, name: str = "key", kind: tuple[str, ...] = ("ed25519",)) -> tuple[Path, Path]:
    """A private and its public key, made by openssl."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    private = ed25519.Ed25519PrivateKey.generate() if kind == ("ed25519",) else ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / f"{name}.pem").write_bytes(pem)
    (folder / f"{name}.pub").write_bytes(public)
    return folder / f"{name}.pem", folder / f"{name}.pub"


def test_a_statement_is_in_toto_and_names_what_it_is_about(tmp_path: Path) -> None:
    said = json.loads((make(tmp_path / "b") / "statement.json").read_bytes())
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert [c["digest"] for c in said["predicate"]["configuration"]] == [
        {"gitCommit": "b" * 40},
        {"gitTree": "c" * 40},
        {"gitCommit": "a" * 40},
        {"sha256": "d" * 64},
    ]
    assert (said["predicate"]["result"], said["predicate"]["passedTests"]) == ("PASSED", ["a"])
    assert check_statement(tmp_path / "b") == []
    assert verify_bundle(tmp_path / "b") == ()


@pytest.mark.parametrize("verdict", ["fail", "unproven"])
def test_only_a_pass_is_passed(verdict: str) -> None:
    about: dict[str, Any] = {**DOCUMENT, **ABOUT, "verdict": verdict}
    assert statement(b"", about)["predicate"]["result"] == "FAILED"


@pytest.mark.parametrize("kind", [("ed25519",), ("ec",)])
def test_a_signature_counts_for_its_key_and_its_bundle_alone(tmp_path: Path, kind: tuple[str, ...]) -> None:
    bundle, other = make(tmp_path / "b"), make(tmp_path / "other", "refuted", "fail")
    private, public = keys(tmp_path, "one", kind)
    _, stranger = keys(tmp_path, "two", kind)
    assert [p.what for p in check_statement(bundle, public_keys([public]))] == ["is missing: nobody signed this bundle"]
    sign_bundle(bundle, private)
    assert check_statement(bundle, public_keys([public])) == []
    assert check_statement(bundle, public_keys([stranger, public])) == []
    assert [p.where for p in check_statement(bundle, public_keys([stranger]))] == ["statement.dsse.json"]
    (other / "statement.dsse.json").write_bytes((bundle / "statement.dsse.json").read_bytes())
    assert [p.what for p in check_statement(other)] == ["is signed for something else than this bundle"]


@pytest.mark.parametrize(
    "edit", [{"payloadType": "text/plain"}, {"payload": "!"}, {"payload": None}, {"payload": "e30="}]
)
def test_an_envelope_that_says_something_else_is_found(tmp_path: Path, edit: dict[str, Any]) -> None:
    bundle, (private, _) = make(tmp_path / "b"), keys(tmp_path)
    sign_bundle(bundle, private)
    path = bundle / "statement.dsse.json"
    path.write_bytes(dump({**json.loads(path.read_bytes()), **edit}))
    assert [p.where for p in check_statement(bundle)] == ["statement.dsse.json"]


@pytest.mark.parametrize("signatures", [None, [], [{"sig": "AAAA"}], [{"sig": 7}], ["x"]])
def test_nothing_but_a_valid_signature_counts(tmp_path: Path, signatures: Any) -> None:
    bundle, (private, public) = make(tmp_path / "b"), keys(tmp_path)
    sign_bundle(bundle, private)
    path = bundle / "statement.dsse.json"
    path.write_bytes(dump({**json.loads(path.read_bytes()), "signatures": signatures}))
    assert [p.what for p in check_statement(bundle, public_keys([public]))] == [
        "holds no valid signature by the keys that were named"
    ]


def test_a_statement_about_another_manifest_is_found(tmp_path: Path) -> None:
    bundle = make(tmp_path / "b")
    (bundle / "statement.json").write_bytes(dump({"_type": "x"}))
    assert [p.where for p in check_statement(bundle)] == ["statement.json"]


def test_keys_that_cannot_be_used_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = keys(tmp_path)
    monkeypatch.setenv(PASSPHRASE, "not asked for")
    with pytest.raises(SigningError, match="no private key that can be read"):
        sign_bundle(make(tmp_path / "b"), private)
    with pytest.raises(SigningError) as caught:
        public_keys([private, tmp_path / "gone", public])
    assert len(caught.value.problems) == 2


def test_openssl_keys_are_read(tmp_path: Path) -> None:
    key = tmp_path / "k.pem"
    try:
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl that makes Ed25519 keys")
    assert len(sign_bundle(make(tmp_path / "b"), key)) == 64


def test_reviews_are_a_chain_bound_to_the_bundle(tmp_path: Path) -> None:
    bundle, (private, public) = make(tmp_path / "b"), keys(tmp_path)
    record(bundle, "reject", "ann", "look at the state again", [], NOW, private)
    record(bundle, "approve", "ben", "looked", [], NOW, private)
    assert check_reviews(bundle, public_keys([public])) == []
    assert verify_bundle(bundle) == ()
    first, second = read_reviews(bundle)
    assert second.review.after == first.digest
    assert (first.review.commit, first.review.policy) == ("b" * 40, "sha256:" + "d" * 64)
    assert first.review.made == datetime(2026, 11, 29, 12, 0, 30, tzinfo=UTC)
    (bundle / first.name).unlink()
    assert [p.what for p in check_reviews(bundle)] == ["does not follow the review before it"]


def test_a_review_is_about_one_bundle(tmp_path: Path) -> None:
    one, other = make(tmp_path / "b"), make(tmp_path / "c", "unproven", "unproven")
    record(one, "approve", "ann", "fine", [], NOW, None)
    (other / "reviews").mkdir()
    (other / "reviews/0001.json").write_bytes((one / "reviews/0001.json").read_bytes())
    assert [p.what for p in check_reviews(other)] == ["is about another bundle, policy or commit"]


def test_an_unsigned_or_changed_review_is_no_review_where_keys_are_asked_for(tmp_path: Path) -> None:
    bundle, (private, public) = make(tmp_path / "b"), keys(tmp_path)
    record(bundle, "approve", "ann", "fine", [], NOW, private)
    path = bundle / "reviews/0001.json"
    document = json.loads(path.read_bytes())
    document["review"]["reviewer"] = "mallory"
    path.write_bytes(dump(document))
    assert [p.what for p in check_reviews(bundle, public_keys([public]))] == [
        "holds no valid signature by the keys that were named"
    ]
    document["review"]["more"] = 1
    path.write_bytes(dump(document))
    with pytest.raises(ReviewError):
        check_reviews(bundle)
    path.write_bytes(b"{")
    with pytest.raises(BundleError):
        check_reviews(bundle)


def test_an_unproven_obligation_is_approved_by_name_until_a_day(tmp_path: Path) -> None:
    bundle = make(tmp_path / "b", "unproven", "unproven")
    later, today = date(2027, 1, 31), NOW.date()
    for risks, words in (
        ([], "a: is unproven"),
        ([("a", today)], "is over already"),
        ([("a", later), ("a", later)], "is accepted twice"),
        ([("a", later), ("ab", later)], "did you mean a"),
    ):
        with pytest.raises(ReviewError, match=words):
            record(bundle, "approve", "ann", "fine", risks, NOW, None)
    assert read_reviews(bundle) == []
    record(bundle, "approve", "ann", "fine", [("a", later)], NOW, None)
    (risk,) = read_reviews(bundle)[0].review.risks
    assert (risk.obligation, risk.expires) == ("a", later)


def test_what_was_refuted_is_rejected_and_never_approved(tmp_path: Path) -> None:
    bundle = make(tmp_path / "b", "refuted", "fail")
    with pytest.raises(ReviewError, match="was refuted and cannot be approved"):
        record(bundle, "approve", "ann", "fine", [("a", date(2027, 1, 1))], NOW, None)
    assert record(bundle, "reject", "ann", "no", [], NOW, None).name == "reviews/0001.json"


def test_a_proven_obligation_has_no_risk_to_accept(tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="there is no risk to accept"):
        record(make(tmp_path / "b"), "approve", "ann", "fine", [("a", date(2027, 1, 1))], NOW, None)


@pytest.mark.parametrize(("reviewer", "reason"), [("", "r"), ("ann", "  ")])
def test_a_review_has_a_name_and_a_reason(tmp_path: Path, reviewer: str, reason: str) -> None:
    with pytest.raises(ReviewError):
        record(make(tmp_path / "b"), "reject", reviewer, reason, [], NOW, None)
