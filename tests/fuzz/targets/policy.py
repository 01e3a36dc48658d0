"""Policies and waivers that a change edits: read, or errors that say all, and where."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import ROOT, joined, parts, small, told
from validator.errors import ValidatorError
from validator.gate.configuration import ini_sections, project_keys
from validator.gate.keys import changed_keys, try_document
from validator.policy.load import load_policy
from validator.policy.waivers import load_waivers

MODULES = ("validator.policy", "validator.tables", "validator.positions", "validator.gate.keys",
           "validator.gate.configuration")  # fmt: skip
_WAIVER = b"""schema = "validator/waivers/1"
[[waivers]]
finding = "scope/path-not-allowed-0123456789ab"
owner = "o"
reason = "r"
link = "https://example.org/1"
created = 2026-11-01
expires = 2026-12-01
"""


def seeds() -> Iterator[bytes]:
    policies = list(small((ROOT / "policies").rglob("*.toml"), 8))
    yield from (joined(policy, policy.replace(b"true", b"false")) for policy in policies)
    yield joined(_WAIVER, _WAIVER.replace(b"2026-12-01", b"2027-12-01"))
    yield joined(b"[tool.pytest.ini_options]\naddopts = ['-q']\n", b"[tool.pytest.ini_options]\naddopts = ['-x']\n")
    yield joined(b"[tool:pytest]\naddopts = -q\n", b"[tool:pytest]\naddopts: -x\n[options.entry_points]\nx = 1\n")


def one(data: bytes) -> None:
    old, new = parts(data, 2)
    for load in (load_policy, load_waivers):
        for text in (old, new):
            try:
                load({"policies/fuzz.toml": text})
            except ValidatorError as error:
                told(error)
    before, problem = try_document(old, "old.toml")
    after, _ = try_document(new, "new.toml")
    assert before is not None or problem
    if before is not None and after is not None:
        assert all(change.text for change in changed_keys(before, after))
    project_keys(old, new, "pyproject.toml")
    ini_sections(old, new)
