"""Policies: what ships is valid and explained, several files are one, mistakes come all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from pydantic import BaseModel

from tests.support.repository import RepositoryBuilder, files
from validator.change.folder import FolderTree
from validator.change.git import Repository
from validator.policy.load import PolicyError, load_policy, policy_from_tree
from validator.policy.model import Policy, Tolerance, json_schema
from validator.verdict.model import Strength

SHIPPED = Path(__file__).parents[2] / "policies"
HEAD = 'schema = "validator/policy/1"\n'


def problems(**texts: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load_policy({f"policies/{name}.toml": text.encode() for name, text in texts.items()})
    return [str(problem) for problem in caught.value.problems]


def test_what_ships_is_valid_and_is_what_an_empty_policy_means_for_trusted_files() -> None:
    policy = load_policy({"p": (SHIPPED / "fast-track.toml").read_bytes()})
    assert policy.trusted == Policy().trusted
    assert policy.dependencies == Policy().dependencies
    assert policy.ordering.min_strength is Strength.MACHINE_CODE


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(section, key) of every key of a policy."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys(inner, name)
        else:
            yield prefix, field.alias or name


def test_the_readme_explains_every_key() -> None:
    sections = re.split(r"^### `\[(\w+)\]`", (SHIPPED / "README.md").read_text(), flags=re.MULTILINE)
    texts = {"": sections[0]} | dict(zip(sections[1::2], sections[2::2], strict=True))
    missing = [
        (section, key) for section, key in keys(Policy) if not re.search(rf"^\| `{key}[`.]", texts[section], re.M)
    ]
    assert missing == []
    assert all(f"`{key}`" in texts["differential"] for key in Tolerance.model_fields)


def test_the_schema_accepts_what_ships() -> None:
    import tomllib

    jsonschema.validate(tomllib.loads((SHIPPED / "fast-track.toml").read_text()), json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "validator/policy/1", "isolation": {"rots": []}}, json_schema())


def test_several_files_are_one_policy() -> None:
    policy = load_policy(
        {
            "policies/a.toml": f'{HEAD}name = "a"\n[isolation]\nmax_shared_files = 1\n'.encode(),
            "policies/b.toml": f"{HEAD}[isolation]\nmax_shared_lines = 2\n[scope.batch]\nmax = 4\n".encode(),
        }
    )
    assert (policy.name, policy.isolation.max_shared_files, policy.isolation.max_shared_lines) == ("a", 1, 2)
    assert policy.scope.batch is not None
    assert policy.scope.batch.max == 4


def test_a_key_that_two_files_set_is_an_error_whatever_their_order() -> None:
    assert problems(
        a=f"{HEAD}[isolation]\nmax_shared_files = 1\n", b=f"{HEAD}\n[isolation]\nmax_shared_files = 99\n"
    ) == [
        "policies/b.toml:4: isolation.max_shared_files: `isolation.max_shared_files` is set in "
        "policies/a.toml:3: isolation.max_shared_files too; keep one of them"
    ]


def test_mistakes_of_all_files_at_once() -> None:
    found = problems(
        a=f"{HEAD}[isolation]\nroot = []\nmax_shared_files = -1\n",
        b="x = 1",
        c=f'{HEAD}[ordering]\nmin_strength = "proof-on-machin-code"\n[scope]\nbatch = {{ min = 3, max = 2 }}\n',
        d=f'{HEAD}[differential.tolerances."*"]\nrms_ratio = inf\n',
    )
    assert [f.split("; ")[0] for f in found] == [
        "policies/a.toml:3: isolation.root: unknown key `root`",
        "policies/a.toml:4: isolation.max_shared_files: input should be greater than or equal to 0, not -1",
        "policies/b.toml: missing key `schema`",
        "policies/c.toml:3: ordering.min_strength: 'proof-on-machin-code' is not a valid value",
        "policies/c.toml:5: scope.batch: batch limit is empty: min 3 is above max 2",
        "policies/d.toml:3: differential.tolerances.*.rms_ratio: input should be a finite number, not inf",
    ]
    assert "did you mean 'proof-on-machine-code'?" in found[3]


def test_no_policy_at_the_base(tmp_path: Path) -> None:
    builder = RepositoryBuilder(tmp_path / "repo", bare=True)
    builder.commit(files(policies__README_md="none yet", policies__deep__a_toml=HEAD), branch="main")
    with pytest.raises(PolicyError, match="no policy at the base revision"):
        policy_from_tree(Repository(builder.path).tree("main"))


def test_a_folder_serves_as_well(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.toml").write_text(HEAD + 'name = "mine"\n')
    (tmp_path / "policies" / "link.toml").symlink_to("/etc/passwd")
    tree = FolderTree(tmp_path)
    assert policy_from_tree(tree).name == "mine"
    assert [e.kind for e in tree.list("policies")] == ["regular", "symlink"]
    assert tree.read("policies/link.toml") == b"/etc/passwd"
    assert tree.entry("../x") is None
    assert len(tree.revision) == 64
