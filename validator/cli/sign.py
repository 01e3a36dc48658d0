"""`validator sign BUNDLE`: stand for a bundle, with a key or by an identity."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["sign"]


@click.command()
@click.argument("bundle", metavar="BUNDLE")
@click.option("--key", metavar="FILE", help="Private key (PEM), Ed25519 or ECDSA.")
@click.option("--sigstore", is_flag=True, help="By an identity, logged in public: needs a network and a token.")
def sign(bundle: str, key: str | None, sigstore: bool) -> int:
    """Sign the in-toto statement of BUNDLE, after checking that it was not touched.

    A key: openssl genpkey -algorithm ed25519 -out KEY. A passphrase is read from VALIDATOR_KEY_PASSPHRASE. With
    --sigstore, the identity is that of the CI job, or of the token in SIGSTORE_ID_TOKEN.

    Exit codes: 0 signed, 1 the bundle was touched, 2 cannot be signed.
    """
    from validator.cli.output import emit
    from validator.cli.verify import touched
    from validator.verdict.attest import sign_bundle, sign_bundle_keyless

    if (key is None) is not sigstore:
        raise click.UsageError("name a key with --key, or sign by an identity with --sigstore")
    folder = Path(bundle)
    if touched(folder):
        return 1
    if key is None:
        sign_bundle_keyless(folder)
        emit("signed by an identity: name it to `validator verify --identity … --issuer …`\n")
    else:
        emit(f"signed by key {sign_bundle(folder, Path(key))}\n")
    return 0
