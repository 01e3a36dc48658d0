"""Manifests: every mistake at once, contradictions refused, contracts read alone or as part."""

from __future__ import annotations

import time
import tomllib
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from validator.cli.skeleton import starting_files
from validator.manifest.contract import Role
from validator.manifest.load import ManifestError, load_contract, load_manifest
from validator.manifest.model import json_schema

GOOD = (Path(__file__).parents[2] / "fixtures/rules/honest/head/rfcs/fused-scale.toml").read_text()
NAME = "rfcs/fused-scale.toml"


def problems(text: str, name: str = NAME) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_manifest(text.encode(), name)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_one() -> None:
    manifest = load_manifest(GOOD.encode(), NAME)
    assert manifest.scope.batch.max == 8
    assert [a.role for a in manifest.kernels[0].args] == [Role.ACTIVATION, Role.WEIGHT]
    assert manifest.switch is not None
    jsonschema.validate(_plain(tomllib.loads(GOOD)), json_schema())


def _plain(value: object) -> object:
    """Dates as JSON has them."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool) else str(value)


def test_ten_mistakes() -> None:
    text = (
        GOOD.replace('title = "Fused scale"', 'titel = "Fused scale"')
        .replace('["@kernels-team"]', '"@kernels-team"')
        .replace("2027-03-31", '"soon"')
        .replace('kind = "env"', 'kind = "environment"')
        .replace('models = ["tiny-hybrid"]', "models = []")
        .replace('["sm_100a"]', '["sm_100a", "sm_100a"]')
        .replace("min = 1, max = 8", "min = 9, max = 8")
        .replace("pdl = false", 'pdl = "maybe"')
        .replace('role = "weight"', 'roel = "weight"')
    )
    assert problems(text) == [
        "rfcs/fused-scale.toml: title: missing key `title`",
        "rfcs/fused-scale.toml:3: titel: unknown key `titel`; did you mean `title`?",
        "rfcs/fused-scale.toml:4: owners: expected an array, not '@kernels-team'",
        "rfcs/fused-scale.toml:6: expires: expected a date such as 2026-11-29, not 'soon'",
        "rfcs/fused-scale.toml:10: switch.kind: 'environment' is not a valid value; known: env, flag, config, build",
        "rfcs/fused-scale.toml:21: scope.models: expected at least 1 element, not an empty array",
        "rfcs/fused-scale.toml:22: scope.architectures: 'sm_100a' is listed more than once",
        "rfcs/fused-scale.toml:24: scope.batch: batch range is empty: min 9 is above max 8",
        "rfcs/fused-scale.toml:33: kernels[0].launch.pdl: expected true or false, not 'maybe'",
        "rfcs/fused-scale.toml:40: kernels[0].args[1].roel: unknown key `roel`; did you mean `role`?",
    ]


def test_contradictions_are_told_each_at_its_own_key() -> None:
    text = (
        GOOD.replace("2027-03-31", "2026-11-20")
        .replace('"serving/switches.py"', '"fastpath/**"')
        .replace("[[references]]", '[[artifacts]]\npath = "x.ptx"\narch = "sm_80"\n\n[[references]]')
    )
    assert problems(text) == [
        "rfcs/fused-scale.toml:6: expires: `expires` (2026-11-20) is not after `created` (2026-11-20)",
        "rfcs/fused-scale.toml:15: isolation: `isolation` lists 'fastpath/**' both as its own and as shared",
        "rfcs/fused-scale.toml:27: artifacts: `artifacts` are built for sm_80, "
        "which `scope.architectures` does not list",
    ]


def test_a_switch_that_is_on_by_default() -> None:
    assert problems(GOOD.replace('default = "0"', 'default = "1"')) == [
        "rfcs/fused-scale.toml:12: switch.value: switch 'TINY_FUSED_SCALE' has the same `value` and `default`: "
        "the new path would be on for all"
    ]


def test_the_file_has_the_manifests_name() -> None:
    assert problems(GOOD, "rfcs/other.toml") == [
        "rfcs/other.toml:2: id: `id` is 'fused-scale', but the file is named 'other'; "
        "rename the file to fused-scale.toml"
    ]


def test_a_newer_schema_is_said_first_and_alone() -> None:
    assert problems('schema = "validator/manifest/9"\nnonsense = 1\n') == [
        "rfcs/fused-scale.toml:1: schema: `schema` is 'validator/manifest/9'; "
        'this version reads schema = "validator/manifest/1"'
    ]


def test_a_contract_alone_and_as_part_of_a_manifest() -> None:
    alone = 'schema = "validator/manifest/1"\n[[kernels]]\nmatch = "k*"\n[[kernels.args]]\nname = "x"\nrole = "index"\n'
    kernels, steps = load_contract(alone.encode(), "c.toml")
    assert kernels[0].args[0].role is Role.INDEX
    assert steps == ()
    assert load_contract(GOOD.encode(), NAME)[0][0].match == "scale"
    with pytest.raises(ManifestError, match=r"c\.toml:6: kernels\[0\]\.args\[0\]\.role: 'idnex'.*did you mean 'index'"):
        load_contract(alone.replace('"index"', '"idnex"').encode(), "c.toml")
    with pytest.raises(ManifestError, match=r"c\.toml:7: kernel: unknown key `kernel`; did you mean `kernels`"):
        load_contract((alone + "[kernel]\n").encode(), "c.toml")


def test_stable_needs_a_reason_in_a_manifest() -> None:
    """A contract alone may leave it out: the audit then says that none was given."""
    text = GOOD.replace('role = "weight"', 'role = "stable"')
    (problem,) = problems(text)
    assert "role 'stable' of" in problem
    assert "needs a written `justification`" in problem
    kernels, _ = load_contract(b'schema = "validator/manifest/1"\n' + text[text.index("[[kernels]]") :].encode(), NAME)
    assert [name for argument in kernels[0].args for name in argument.unjustified]
    load_manifest(text.replace('role = "stable"', 'role = "stable"\njustification = "host table"').encode(), NAME)


def test_what_init_leaves_to_be_filled_in_declares_nothing() -> None:
    text = starting_files("fused-scale", date(2026, 12, 1))[NAME]
    assert [p.partition(" is still")[0] for p in problems(text)] == [
        "rfcs/fused-scale.toml:4: title: 'TODO'",
        "rfcs/fused-scale.toml:8: summary: 'TODO'",
        "rfcs/fused-scale.toml:5: owners[0]: '@TODO'",
        "rfcs/fused-scale.toml:22: scope.models[0]: 'TODO'",
        "rfcs/fused-scale.toml:17: switch.name: 'TODO_ENABLE_FUSED_SCALE'",
    ]
    assert "fastpath/fused_scale/**" in text
    load_manifest(text.replace("TODO", "Todos").encode(), NAME)


def test_a_contract_of_any_size_is_answered_in_time() -> None:
    """Lists that a manifest may make as long as it likes have a limit: what is made of them is searched and run."""
    head = 'schema = "validator/manifest/1"\n[[kernels]]\nmatch = "k"\n'
    dims = "dims = [{}]\n"
    for text in (
        dims.format(", ".join(f'"D{i} in 1..4"' for i in range(2000))),
        dims.format('"D in {' + ", ".join(map(str, range(60_000))) + '}"'),
        'dims = ["D in 1..4"]\nproduction = [' + "{ D = 1 }, " * 20_000 + "]\n",
        "args = [" + '{ name = "x", role = "weight" }, ' * 3000 + "]\n",
    ):
        begun = time.process_time()
        with pytest.raises(ManifestError, match="at most"):
            load_contract((head + text).encode(), "m.toml")
        assert time.process_time() - begun < 5


EIGHT = b"""
schema = "validator/manifest/1"
colour = "red"
[[kernels]]
match = "k"
candidate = "fast.model"
reference = "stock.ops:f"
dims = ["B in 1..4", "D in 1..8"]
batch = "Q"
rounding = "sometimes"
args = [
    { name = "x", role = "activaton", dtype = "float32", shape = ["B", "D"] },
    { name = "y", role = "weight", dtype = "flaot32", shape = ["B", "D"] },
    { name = "i", role = "index", dtype = "int32", shape = ["B"], domain = { index = "z.0" } },
    { name = "j", role = "index", dtype = "int32", shape = ["B"], domain = { index = "y.0" } },
    { name = "out", role = "output", dtype = "float32", shape = ["B", "D +"] },
]
"""


def test_what_only_a_whole_table_shows_is_told_beside_what_single_keys_show() -> None:
    """Eight mistakes, and none that is only made by leaving out what is wrong."""
    with pytest.raises(ManifestError) as raised:
        load_contract(EIGHT, "eight.toml")
    told = "\n".join(str(problem) for problem in raised.value.problems)
    for word in ("colour", "fast.model", "'Q'", "sometimes", "activaton", "flaot32", "'z'", "'D +'"):
        assert told.count(word) >= 1, word
    assert len(told.replace("; ", "\n").splitlines()) == 8 + told.count("; known") + told.count("; did you mean")
    assert "'y'" not in told
