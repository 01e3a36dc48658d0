"""`validator verify DIR`: whether a bundle is what was written, whether its verdict follows, and who stands for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from validator.errors import Problem
    from validator.verdict.keyless import Signer
    from validator.verdict.signing import PublicKey

__all__ = ["touched", "verify"]


@click.command()
@click.argument("bundle", metavar="DIR")
@click.option(
    "--key", "keys", multiple=True, metavar="FILE", help="Public key (PEM) that must have signed; repeatable."
)
@click.option("--identity", metavar="NAME", help="Who must have signed through sigstore: an address, a workflow's URI.")
@click.option("--issuer", metavar="URL", help="Who vouches for --identity.")
@click.option("--trusted-root", metavar="FILE", help="Sigstore's roots of trust. [default: those of the package]")
@click.option("--commit", metavar="SHA", help="The commit that the bundle must be about, in full.")
def verify(
    bundle: str,
    keys: tuple[str, ...],
    identity: str | None,
    issuer: str | None,
    trusted_root: str | None,
    commit: str | None,
) -> int:
    """Say whether a bundle was touched.

    Recomputes its digests, its statement, and its verdict from the evidence. With --key, the statement and every review
    must be signed by one of the keys. With --identity and --issuer, the statement must be signed by that identity; no
    network is asked.

    Exit codes: 0 untouched, 1 touched (or not signed, or about another commit), 2 no bundle.
    """
    import re

    from validator.cli.output import emit
    from validator.text import visible
    from validator.verdict.bundle import load_bundle
    from validator.verdict.signing import public_keys

    if commit is not None and not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):
        raise click.BadParameter(f"{commit!r} is no commit id in full", param_hint="--commit")
    folder, signer = Path(bundle), _signer(identity, issuer, trusted_root)
    if touched(folder, public_keys([Path(k) for k in keys]) if keys else None, commit, signer):
        return 1
    manifest = load_bundle(folder).manifest
    emit(f"untouched: {len(manifest['files'])} files, verdict {manifest['verdict']}, {manifest['id']}\n")
    checked = [*([_BY_KEY] if keys else []), *([_BY_IDENTITY] if signer else [])]
    emit("".join(f"{visible(line)}\n" for line in _standing(folder, checked, datetime.now(UTC).date())))
    return 0


def _signer(identity: str | None, issuer: str | None, root: str | None) -> Signer | None:
    from validator.verdict.keyless import Signer

    if (identity is None) is not (issuer is None):
        raise click.UsageError("--identity and --issuer belong together: who signed, and who vouches for that")
    if root is not None and identity is None:
        raise click.UsageError("--trusted-root says how an --identity is checked: name one")
    if identity is None or issuer is None:
        return None
    return Signer(identity, issuer, Path(root) if root else None)


def touched(
    folder: Path,
    keys: dict[str, PublicKey] | None = None,
    commit: str | None = None,
    signer: Signer | None = None,
) -> bool:
    """Print what is wrong with a bundle; false when nothing is."""
    from validator.cli.output import emit
    from validator.errors import Problem
    from validator.report.reading import read_result
    from validator.text import visible
    from validator.verdict.attest import check_keyless, check_statement
    from validator.verdict.bundle import BundleError, NoBundle, verify_bundle
    from validator.verdict.review import ReviewError, check_reviews

    try:
        problems: list[Problem] = list(verify_bundle(folder))
        if not problems:
            problems = [*check_statement(folder, keys), *check_reviews(folder, keys), *_commit(folder, commit)]
            problems += check_keyless(folder, signer) if signer else []
            read_result(folder)  # by its schema
    except NoBundle:
        raise
    except (BundleError, ReviewError) as error:  # it was one once: what cannot be read was touched
        problems = [p if isinstance(p, Problem) else Problem(str(p)) for p in error.problems]
    emit("".join(f"touched: {visible(str(p))}\n" for p in problems))
    return bool(problems)


def _commit(folder: Path, commit: str | None) -> Iterator[Problem]:
    from validator.errors import Problem
    from validator.verdict.bundle import RESULT, load_json

    head = load_json(folder / RESULT)["change"]["head"]
    if commit is not None and commit != head:
        yield Problem(f"is about {head}, not about {commit}", RESULT)


_BY_KEY = "statement.dsse.json"
_BY_IDENTITY = "statement.sigstore.json"
_HOW = {_BY_KEY: "name a public key with --key", _BY_IDENTITY: "name who signed with --identity and --issuer"}


def _standing(folder: Path, checked: Sequence[str], today: date) -> Iterator[str]:
    """Who stands for it, and for how long it counts."""
    from validator.verdict.review import read_reviews

    there = [name for name in _HOW if (folder / name).exists()]
    yield from (f"signature: {name} is there, not checked: {_HOW[name]}" for name in there if name not in checked)
    if not there:
        yield "signature: none"
    for recorded in read_reviews(folder):
        review = recorded.review
        yield f"{review.decision} by {review.reviewer} on {review.made.date()}: {review.reason}"
        for risk in review.risks:
            over = "no longer counts, expired" if risk.expires < today else "accepted until"
            yield f"  {risk.obligation}: {over} {risk.expires}"
    yield from _age(folder, today)


def _age(folder: Path, today: date) -> Iterator[str]:
    from validator.report.history import stale_since
    from validator.report.reading import read_result

    day = stale_since(read_result(folder))
    if day is not None and day < today:
        yield f"stale: the policy lets evidence count until {day}; run the check again"
