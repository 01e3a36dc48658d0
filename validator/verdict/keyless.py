"""Signatures without a key to keep: sigstore binds the statement to an identity and logs it in public.

Signing needs the network: an identity token (of the CI that runs it, or handed over), Fulcio and Rekor. Verifying needs
none: the signature, its certificate and the proof of its log entry lie in one file beside the bundle, and the roots of
trust come from a file or from the `sigstore` package. That package is part of the `[sign]` extra.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from validator.errors import Problem
from validator.verdict.signing import SigningError

if TYPE_CHECKING:
    from sigstore.verify import Verifier

__all__ = ["TOKEN", "Signer", "sign_keyless", "signed_payload"]

TOKEN = "SIGSTORE_ID_TOKEN"
"""Environment variable with an OpenID Connect token for the audience `sigstore`; without it, the CI's own."""

_MISSING = "install the extra: pip install 'validator[sign]'"
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Signer:
    """Who has to have signed."""

    identity: str
    """As the certificate names it: an address, or the URI of a workflow."""
    issuer: str
    """Who vouches for that identity, as `https://token.actions.githubusercontent.com`."""
    trusted_root: Path | None = None
    """Sigstore's roots of trust; None: those that came with the package, without asking the network."""


def sign_keyless(payload: bytes) -> bytes:
    """A Sigstore bundle over an in-toto statement, as JSON. Raises `SigningError` when there is no way to make one."""
    return _reached(lambda: _sign(payload), "sign")


def _sign(payload: bytes) -> bytes:
    from sigstore.dsse import Statement
    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken
    from sigstore.sign import SigningContext

    token = IdentityToken(_token())
    context = SigningContext.from_trust_config(ClientTrustConfig.production())
    with context.signer(token) as signer:
        return f"{signer.sign_dsse(Statement(payload)).to_json()}\n".encode()


def _token() -> str:
    from sigstore.oidc import detect_credential

    token = os.environ.get(TOKEN) or detect_credential()
    if not token:
        hint = f"in GitHub Actions give the job `id-token: write`; elsewhere put a token into {TOKEN}"
        raise SigningError(Problem("there is no identity to sign as", "--sigstore", hint))
    return token


def signed_payload(document: bytes, signer: Signer) -> tuple[str, bytes] | None:
    """(type, payload) of a Sigstore bundle that `signer` has signed; None where that cannot be shown.

    Raises `SigningError` when it cannot be tried: no package, or no roots of trust.
    """
    return _reached(lambda: _verify(document, signer), "check")


def _verify(document: bytes, signer: Signer) -> tuple[str, bytes] | None:
    from sigstore.errors import Error
    from sigstore.models import Bundle
    from sigstore.verify import policy

    verifier = _verifier(signer.trusted_root)
    try:
        bundle = Bundle.from_json(document)
        return verifier.verify_dsse(bundle, policy.Identity(identity=signer.identity, issuer=signer.issuer))
    except (Error, ValueError):  # whatever the document holds: it shows nothing
        return None


def _verifier(root: Path | None) -> Verifier:
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    if root is None:
        return Verifier.production(offline=True)
    try:
        return Verifier(trusted_root=TrustedRoot.from_file(str(root)))
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it holds no roots of trust"
        raise SigningError(Problem(f"cannot be used ({said})", str(root), "name a trusted_root.json")) from None


def _reached(ask: Callable[[], Answer], what: str) -> Answer:
    """The answer, or what stands in the way, in words."""
    failures = _failures()
    try:
        return ask()
    except failures as error:
        said = " ".join(str(error).split())[:300]
        hint = "sign with a key of your own (`--key`), or let a machine with a network do it" if what == "sign" else ""
        raise SigningError(Problem(f"sigstore could not {what} it ({said})", "--sigstore", hint)) from None


def _failures() -> tuple[type[Exception], ...]:
    """What the package raises, and what it hands through from its own HTTP library (whose errors are `OSError`s)."""
    try:
        import sigstore.errors
    except ImportError:
        raise SigningError(Problem("signatures without a key need the package sigstore", fix=_MISSING)) from None
    return (sigstore.errors.Error, OSError)
