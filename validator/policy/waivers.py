"""Waivers: single findings that a maintainer accepted for a while. Read from the base revision only.

A waiver names one finding by its exact id. It never widens to a rule or a path, it ends, it has an owner and a link,
and every report shows it. A change that adds one is judged without it (`gate/waiver-edited`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from validator.change.model import Tree, read_files
from validator.errors import Problem
from validator.globs import matches
from validator.policy.model import WAIVER_SCHEMA, Policy, Waiver
from validator.tables import TableError, load_model
from validator.text import well_formed

__all__ = [
    "WaiverNotice",
    "Waivers",
    "json_schema",
    "judge_waivers",
    "load_waivers",
    "waiver_text",
    "waivers_from_tree",
]


class WaiverFile(BaseModel):
    """One file of `policies/waivers/`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Annotated[Literal["validator/waivers/1"], Field(alias="schema")] = WAIVER_SCHEMA
    waivers: tuple[Waiver, ...] = ()


@dataclass(frozen=True, slots=True)
class WaiverNotice:
    """Something a reader should know about a waiver."""

    kind: Literal["expired", "not-yet", "too-long", "expires-soon", "unmatched"]
    waiver: Waiver
    message: str


@dataclass(frozen=True, slots=True)
class Waivers:
    """Waivers, judged for one day and one set of findings."""

    active: Mapping[str, Waiver]
    """Finding id → the waiver that covers it today."""
    notices: tuple[WaiverNotice, ...]


def waivers_from_tree(tree: Tree, policy: Policy, folder: str = "policies") -> tuple[Waiver, ...]:
    """All waivers of a trusted revision. Raises `TableError` with all problems."""
    files = read_files(tree, folder, ".toml", deep=True)
    return load_waivers({path: data for path, data in files.items() if matches(path, policy.waivers.files)})


def load_waivers(files: Mapping[str, bytes]) -> tuple[Waiver, ...]:
    """Path → content; a finding that is waived twice is an error. Raises `TableError`."""
    problems: list[Problem] = []
    found: dict[str, tuple[Waiver, str]] = {}
    for name in sorted(files):
        try:
            file, document = load_model(WaiverFile, files[name], name, WAIVER_SCHEMA)
        except TableError as error:
            problems += error.problems
            continue
        for number, waiver in enumerate(file.waivers):
            place = document.place(("waivers", number, "finding"))
            if waiver.finding in found:
                what = f"{waiver.finding} is waived in {found[waiver.finding][1]} too"
                problems.append(Problem(what, place, "keep one of them"))
            found[waiver.finding] = (waiver, place)
    if problems:
        raise TableError(*problems)
    return tuple(waiver for waiver, _ in found.values())


def judge_waivers(
    waivers: Sequence[Waiver],
    policy: Policy,
    today: date,
    finding_ids: Collection[str],
    unwaivable: Collection[str] = (),
) -> Waivers:
    """Which waivers count today. `finding_ids`: all findings of this run; `unwaivable`: ids that no waiver covers."""
    active: dict[str, Waiver] = {}
    notices: list[WaiverNotice] = []
    for waiver in waivers:
        days = (waiver.expires - waiver.created).days
        if waiver.expires < today:
            notices.append(WaiverNotice("expired", waiver, f"expired on {waiver.expires}; it covers nothing"))
        elif waiver.created > today:
            notices.append(WaiverNotice("not-yet", waiver, f"starts on {waiver.created}; it covers nothing yet"))
        elif days > policy.waivers.max_days:
            limit = policy.waivers.max_days
            notices.append(
                WaiverNotice("too-long", waiver, f"lives {days} days, policy allows {limit}; it covers nothing")
            )
        else:
            if waiver.finding in finding_ids and waiver.finding not in unwaivable:
                active[waiver.finding] = waiver
            else:
                notices.append(
                    WaiverNotice("unmatched", waiver, "no finding of this run that may be waived has this id")
                )
            left = (waiver.expires - today).days
            if left <= policy.waivers.warn_days:
                notices.append(WaiverNotice("expires-soon", waiver, f"expires on {waiver.expires}, in {left} days"))
    return Waivers(active, tuple(notices))


def waiver_text(said: Mapping[str, str], unwaivable: Collection[str] = ()) -> str:
    """A waiver file with one waiver, from its keys as text. Raises `TableError` with all problems."""
    days = ("created", "expires")
    lines = [f"{key} = {said[key] if key in days else _string(said[key])}" for key in said]
    text = "\n".join([f'schema = "{WAIVER_SCHEMA}"', "", "[[waivers]]", *lines]) + "\n"
    problems = [
        Problem(f"is no day such as 2027-01-31: {said[key]!r}", f"--{key}") for key in days if not _is_day(said[key])
    ]
    rule = said["finding"].rpartition(":")[0]
    if rule.startswith("gate/") or rule in unwaivable:
        problems.append(Problem("cannot be waived", said["finding"], "mend the change, or change the policy first"))
    if not problems:
        load_waivers({"waiver": text.encode()})
        return text
    raise TableError(*problems)


def _string(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for the one control character that JSON lets stand."""
    return json.dumps(well_formed(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one waiver file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **WaiverFile.model_json_schema(by_alias=True)}
