"""`validator sign BUNDLE`: stand for a bundle with a key."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["sign"]


@click.command()
@click.argument("bundle", metavar="BUNDLE")
@click.option("--key", required=True, metavar="FILE", help="Private key (PEM), Ed25519 or ECDSA.")
def sign(bundle: str, key: str) -> int:
    """Sign the in-toto statement of BUNDLE, after checking that it was not touched.

    A key: openssl genpkey -algorithm ed25519 -out KEY. A passphrase is read from VALIDATOR_KEY_PASSPHRASE.

    Exit codes: 0 signed, 1 the bundle was touched, 2 cannot be signed.
    """
    from validator.cli.output import emit
    from validator.cli.verify import touched
    from validator.verdict.attest import sign_bundle

    folder = Path(bundle)
    if touched(folder):
        return 1
    emit(f"signed by key {sign_bundle(folder, Path(key))}\n")
    return 0
