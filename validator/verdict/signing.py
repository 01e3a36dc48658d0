"""Signatures over documents, by DSSE (Dead Simple Signing Envelope 1.0): what was signed is named with its type.

Ed25519 and ECDSA keys in PEM files. `cryptography` is an extra (`[sign]`): everything else works without it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validator.errors import Problem, ValidatorError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
    PublicKey = Ed25519PublicKey | EllipticCurvePublicKey

__all__ = ["PASSPHRASE", "SigningError", "public_keys", "sign", "signed_by"]

PASSPHRASE = "VALIDATOR_KEY_PASSPHRASE"
"""Environment variable that holds the passphrase of an encrypted key."""


class SigningError(ValidatorError):
    """A key cannot be used."""


def _pae(kind: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def sign(kind: str, payload: bytes, key: Path) -> list[dict[str, str]]:
    """The `signatures` of an envelope over `payload` of the type `kind`, with the private key in a PEM file."""
    private = _private(key)
    message = _pae(kind, payload)
    made = private.sign(message) if _is_ed25519(private) else private.sign(message, _ecdsa())  # type: ignore[call-arg]
    return [{"keyid": _key_id(private.public_key()), "sig": base64.b64encode(made).decode()}]


def public_keys(paths: Sequence[Path]) -> dict[str, PublicKey]:
    """Key id → public key, of PEM files. Raises `SigningError` with every file that holds none."""
    found: dict[str, PublicKey] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            key = _public(path)
        except SigningError as error:
            problems += error.problems
            continue
        found[_key_id(key)] = key
    if problems:
        raise SigningError(*problems)
    return found


def signed_by(kind: str, payload: bytes, signatures: Any, keys: Mapping[str, PublicKey]) -> list[str]:
    """Ids of those `keys` that have signed this payload; whatever the signatures claim, only a valid one counts."""
    from cryptography.exceptions import InvalidSignature

    good = []
    message = _pae(kind, payload)
    for signature in _signatures(signatures):
        for name, key in keys.items():
            try:
                if _is_ed25519(key):
                    key.verify(signature, message)  # type: ignore[call-arg]
                else:
                    key.verify(signature, message, _ecdsa())  # type: ignore[call-arg]
            except InvalidSignature:
                continue
            good.append(name)
    return sorted(set(good))


def _signatures(value: Any) -> Iterable[bytes]:
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("sig"), str):
            try:
                yield base64.b64decode(entry["sig"], validate=True)
            except ValueError:
                continue


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        fix = "install the extra: pip install 'validator[sign]'"
        raise SigningError(Problem("signatures need the package cryptography", fix=fix)) from None
    return serialization


def _private(path: Path) -> PrivateKey:
    serialization = _library()
    passphrase = os.environ.get(PASSPHRASE)
    try:
        key = serialization.load_pem_private_key(_read(path), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError) as error:
        hint = f"make one: openssl genpkey -algorithm ed25519 -out {path}; the passphrase goes into {PASSPHRASE}"
        raise SigningError(Problem(f"is no private key that can be read ({error})", str(path), hint)) from None
    return _known(key, path)  # type: ignore[no-any-return]


def _public(path: Path) -> PublicKey:
    serialization = _library()
    try:
        key = serialization.load_pem_public_key(_read(path))
    except ValueError as error:
        hint = f"make one: openssl pkey -in KEY -pubout -out {path}"
        raise SigningError(Problem(f"is no public key ({error})", str(path), hint)) from None
    return _known(key, path)  # type: ignore[no-any-return]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(1 << 16)
    except OSError as error:
        raise SigningError(Problem(f"cannot be read ({error.strerror})", str(path))) from None


def _known(key: Any, path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    if not _is_ed25519(key) and not isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        raise SigningError(Problem("is neither an Ed25519 nor an ECDSA key", str(path)))
    return key


def _is_ed25519(key: Any) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey)


def _ecdsa() -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.ECDSA(hashes.SHA256())


def _key_id(key: PublicKey) -> str:
    serialization = _library()
    data = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).hexdigest()
