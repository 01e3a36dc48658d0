"""Waivers: exact, ending, from files that are checked as a whole."""

from __future__ import annotations

from datetime import date

import pytest

from validator.policy.model import Policy
from validator.policy.waivers import judge_waivers, load_waivers
from validator.tables import TableError

ID = "isolation/binary-file:0123456789ab"


def text(
    finding: str = ID, created: str = "2026-11-01", expires: str = "2027-01-15", reason: str = "long enough"
) -> bytes:
    return (
        f'schema = "validator/waivers/1"\n[[waivers]]\nfinding = "{finding}"\nowner = "@m"\nreason = "{reason}"\n'
        f'link = "https://example.org/1"\ncreated = {created}\nexpires = {expires}\n'
    ).encode()


def judged(
    data: bytes, today: str = "2026-11-29", ids: set[str] | None = None, barred: set[str] | None = None
) -> list[str]:
    """What became of it: `active` or the kinds of its notices."""
    found = judge_waivers(
        load_waivers({"w": data}), Policy(), date.fromisoformat(today), {ID} if ids is None else ids, barred or set()
    )
    return [*(["active"] if ID in found.active else []), *(n.kind for n in found.notices)]


@pytest.mark.parametrize(
    ("data", "today", "expected"),
    [
        (text(), "2026-11-29", ["active"]),
        (text(), "2027-01-15", ["active", "expires-soon"]),
        (text(), "2027-01-16", ["expired"]),
        (text(), "2026-10-31", ["not-yet"]),
        (text(expires="2027-06-01"), "2026-11-29", ["too-long"]),
    ],
)
def test_days(data: bytes, today: str, expected: list[str]) -> None:
    assert judged(data, today) == expected


def test_only_the_exact_finding_and_never_an_unwaivable_one() -> None:
    assert judged(text(), ids={"isolation/binary-file:0123456789ac"}) == ["unmatched"]
    assert judged(text(), barred={ID}) == ["unmatched"]


def test_mistakes_all_at_once() -> None:
    with pytest.raises(TableError) as caught:
        load_waivers(
            {
                "a": text(),
                "b": text(),
                "c": text(finding="isolation/*", reason="x"),
                "d": text(created="2027-02-01"),
                "e": b"[[waivers]]",
            }
        )
    assert [str(p) for p in caught.value.problems] == [
        f"b:3: waivers[0].finding: {ID} is waived in a:3: waivers[0].finding too; keep one of them",
        "c:3: waivers[0].finding: 'isolation/*' is not of the form ^[a-z]+/[a-z0-9-]+:[0-9a-f]{12}$",
        "c:5: waivers[0].reason: expected at least 10 characters, not 'x'",
        "d:8: waivers[0].expires: `expires` (2027-01-15) is not after `created` (2027-02-01)",
        'e: missing key `schema`; begin the file with: schema = "validator/waivers/1"',
    ]
