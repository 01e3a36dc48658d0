"""What a person decided about a bundle: recorded beside it, bound to its digest and its policy, signed where a key is.

`reviews/0001.json`, `0002.json`, …: each names the digest of the one before, so none can be taken out of the middle.
Approval of something `unproven` is the acceptance of a named risk until a named day; what was refuted cannot be
approved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from validator.errors import Problem, ValidatorError
from validator.text import nearest
from validator.verdict.bundle import MANIFEST, RESULT, REVIEWS, BundleError, dump, load_bundle, load_json, put
from validator.verdict.model import Status
from validator.verdict.signing import sign, signed_by

if TYPE_CHECKING:
    from validator.verdict.signing import PublicKey

__all__ = ["PAYLOAD_TYPE", "SCHEMA", "Review", "ReviewError", "Risk", "check_reviews", "read_reviews", "record"]

SCHEMA: Final = "validator/review/1"
PAYLOAD_TYPE = "application/vnd.validator.review+json"

Text = Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]


class ReviewError(ValidatorError):
    """The decision cannot be recorded."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Risk(_Model):
    """One obligation that was not proven and is accepted for a while."""

    obligation: Text
    expires: date
    """Last day on which the acceptance counts."""


class Review(_Model):
    """`validator/review/1`: one decision."""

    schema_: Annotated[Literal["validator/review/1"], Field(alias="schema")] = SCHEMA
    decision: Literal["approve", "reject"]
    reviewer: Text
    reason: Text
    risks: tuple[Risk, ...] = ()
    bundle: str
    """Id of the bundle."""
    manifest: str
    """`sha256:…` of its `bundle.json`."""
    policy: str
    """`sha256:…` of the policy that judged."""
    commit: str
    verdict: Literal["pass", "fail", "unproven"]
    made: datetime
    """When, UTC."""
    after: str | None
    """`sha256:…` of the review before this one; null for the first."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A review as it lies on disk."""

    name: str
    review: Review
    digest: str
    signatures: Any
    payload: bytes


def record(
    folder: Path,
    decision: Literal["approve", "reject"],
    reviewer: str,
    reason: str,
    risks: Sequence[tuple[str, date]],
    now: datetime,
    key: Path | None,
) -> Recorded:
    """Write a decision beside a bundle that has been verified before. Raises `ReviewError` with every problem."""
    result, bound = load_json(folder / RESULT), _bound(folder)
    problems = list(_risks(result, risks, now.date())) if decision == "approve" else []
    if problems:
        raise ReviewError(*problems)
    before = read_reviews(folder)
    try:
        review = Review.model_validate(
            {
                "schema": SCHEMA,
                "decision": decision,
                "reviewer": reviewer,
                "reason": reason,
                "risks": [{"obligation": o, "expires": d} for o, d in risks],
                "verdict": result["verdict"],
                "made": now.replace(microsecond=0),
                "after": before[-1].digest if before else None,
                **bound,
            }
        )
    except ValidationError as error:
        raise ReviewError(
            *(Problem(e["msg"].lower(), ".".join(map(str, e["loc"]))) for e in error.errors(include_url=False))
        ) from None
    payload = _payload(review)
    document = {"review": json.loads(payload), "signatures": sign(PAYLOAD_TYPE, payload, key) if key else []}
    put(folder / REVIEWS / f"{len(before) + 1:04d}.json", dump(document))
    return read_reviews(folder)[-1]


def _bound(folder: Path) -> dict[str, str]:
    """What a review of this bundle is about. Raises `BundleError` when its result does not say."""
    bundle, result = load_bundle(folder), load_json(folder / RESULT)
    try:
        return {
            "bundle": bundle.manifest["id"],
            "manifest": "sha256:" + hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest(),
            "policy": result["policy"]["digest"],
            "commit": result["change"]["head"],
        }
    except (KeyError, TypeError) as error:
        raise BundleError(Problem(f"does not say what it is about ({error})", RESULT)) from None


def _risks(result: Mapping[str, Any], risks: Sequence[tuple[str, date]], today: date) -> Iterator[Problem]:
    statuses = {o["id"]: Status.of(o["status"], o.get("asked", True)).value for o in result["obligations"]}
    for name, status in sorted(statuses.items()):
        if status == "refuted":
            yield Problem("was refuted and cannot be approved", name, "mend it and check anew")
    named = [name for name, _ in risks]
    for name, day in risks:
        if name not in statuses:
            meant = nearest(name, list(statuses))
            yield Problem(
                "is no obligation of this bundle", f"--accept {name}", f"did you mean {meant}?" if meant else ""
            )
        elif statuses[name] != "unproven":
            yield Problem(f"is {statuses[name]}: there is no risk to accept", f"--accept {name}")
        if day <= today:
            yield Problem("is over already", f"--accept {name}={day}", "name a day in the future")
        if named.count(name) > 1:
            yield Problem("is accepted twice", f"--accept {name}")
    for name in sorted(n for n, s in statuses.items() if s == "unproven" and n not in named):
        yield Problem("is unproven", name, f"accept the risk by name until a day: --accept '{name}=YYYY-MM-DD'")
    if not statuses:
        yield Problem("nothing was examined, so there is nothing to approve", RESULT)


def _payload(review: Review) -> bytes:
    return dump(review.model_dump(mode="json", by_alias=True))


def read_reviews(folder: Path) -> list[Recorded]:
    """Every decision beside a bundle, oldest first. Raises `BundleError` or `ReviewError` when one cannot be read."""
    found = []
    for path in sorted((folder / REVIEWS).glob("*.json")):
        name = f"{REVIEWS}/{path.name}"
        document = load_json(path)
        try:
            review = Review.model_validate(document.get("review"))
        except ValidationError:
            raise ReviewError(Problem(f"is no {SCHEMA}", name)) from None
        digest = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
        found.append(Recorded(name, review, digest, document.get("signatures"), _payload(review)))
    return found


def check_reviews(folder: Path, keys: Mapping[str, PublicKey] | None = None) -> list[Problem]:
    """Decisions that are not about this bundle, that break the chain, or (with `keys`) that nobody known signed."""
    problems, bound, before = [], _bound(folder), None
    for number, recorded in enumerate(read_reviews(folder), 1):
        review = recorded.review
        if recorded.name != f"{REVIEWS}/{number:04d}.json" or review.after != before:
            problems.append(Problem("does not follow the review before it", recorded.name))
        if {name: getattr(review, name) for name in bound} != bound:
            problems.append(Problem("is about another bundle, policy or commit", recorded.name))
        if keys is not None and not signed_by(PAYLOAD_TYPE, recorded.payload, recorded.signatures, keys):
            problems.append(Problem("holds no valid signature by the keys that were named", recorded.name))
        before = recorded.digest
    return problems
