"""`validator verify` against a bundle that was touched: any file, any key, anywhere; and against one that was rewritten
with all its digests mended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from validator.cli.verify import verify
from validator.report.bundle import save_bundle
from validator.report.reading import read_result
from validator.verdict.attest import statement
from validator.verdict.bundle import dump, load_bundle
from validator.verdict.compute import compute
from validator.verdict.model import Obligation, Status

STORED = Path(__file__).parents[1] / "report" / "bundles" / "good"
"""Of the demo's good change."""
SEED = 20261129


def _status(obligation: dict[str, Any]) -> Status:
    return Status.of(obligation["status"], obligation.get("asked", True))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's result, written by this version."""
    folder = tmp_path_factory.mktemp("demo") / "bundle"
    save_bundle(read_result(STORED), folder)
    return folder


def exit_code(folder: Path) -> int:
    done = CliRunner().invoke(verify, [str(folder)], standalone_mode=False, catch_exceptions=False)
    return int(done.return_value)


def files_of(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_bundle_itself_is_untouched(bundle: Path) -> None:
    assert exit_code(bundle) == 0
    assert {"bundle.json", "statement.json", "result.json", "environment.json"} <= set(files_of(bundle))


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def lengthen(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + bytes([chance.randrange(1, 256)]))


def swap_for_a_link(path: Path, chance: random.Random) -> None:
    target = path.with_name(f"target-{chance.randrange(100)}")
    path.rename(target)
    path.symlink_to(target)


def swap_for_a_pipe(path: Path, chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def delete(path: Path, chance: random.Random) -> None:
    path.unlink()


DEEDS = [flip, cut, lengthen, swap_for_a_link, swap_for_a_pipe, delete]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_a_file_that_was_touched(bundle: Path, tmp_path: Path, deed: Callable[[Path, random.Random], None]) -> None:
    chance = random.Random(SEED)
    for number, name in enumerate(files_of(bundle)):
        folder = tmp_path / str(number)
        shutil.copytree(bundle, folder)
        deed(folder / name, chance)
        if deed is delete and name == "bundle.json":
            continue  # then the folder is no bundle any more: exit code 2
        assert exit_code(folder) == 1, (deed.__name__, name)


def test_a_file_more(bundle: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("extra", "objects/ab/more", "reviews/notes.txt", ".hidden", "reviews/0001.json")):
        folder = tmp_path / str(number)
        shutil.copytree(bundle, folder)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
        assert exit_code(folder) == 1, name


Path_ = tuple[str | int, ...]


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every key and every element of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def changed(document: Any, path: Path_, chance: random.Random) -> Any:
    """A copy with something else at a place: another value of the same type, another type, or nothing."""
    document = json.loads(json.dumps(document))
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    old = inside[path[-1]]
    how = chance.randrange(4)
    if how == 0:
        del inside[path[-1]]
    elif how == 1 and isinstance(inside, dict):
        inside[f"{path[-1]} "] = inside.pop(path[-1])
    elif how == 2:
        inside[path[-1]] = None if old is not None else 0
    else:
        inside[path[-1]] = other_than(old)
    return document


def other_than(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return "pass" if value in ("fail", "unproven") else value + "x"
        case list():
            return [*value, "more"]
        case dict():
            return {**value, "more": 1}
    return "something"


@pytest.mark.parametrize("name", ["bundle.json", "result.json", "environment.json", "statement.json"])
def test_any_key_that_was_touched(bundle: Path, tmp_path: Path, name: str) -> None:
    chance = random.Random(SEED)
    document = json.loads((bundle / name).read_bytes())
    every = list(places(document))
    folder = tmp_path / "b"
    shutil.copytree(bundle, folder)
    for path in chance.sample(every, min(len(every), 250)):
        touched = changed(document, path, chance)
        (folder / name).write_bytes(dump(touched))
        if name == "bundle.json" and path == ("schema",) and str(touched.get("schema")).rpartition("/")[2].isdigit():
            continue
        assert exit_code(folder) == 1, (name, path)


def mended(folder: Path, result: dict[str, Any]) -> None:
    """The same bundle around another result, with every digest, id and statement as they would have to be."""
    raw = dump(result)
    manifest = load_bundle(folder).manifest
    manifest["files"]["result.json"] |= {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    lines = (
        f"{e['sha256']} {e['bytes']} {n}\n" for n, e in sorted(manifest["files"].items()) if n != "environment.json"
    )
    manifest["id"] = "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()
    manifest["verdict"] = result.get("verdict")
    (folder / "result.json").write_bytes(raw)
    (folder / "bundle.json").write_bytes(dump(manifest))
    with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError):
        (folder / "statement.json").write_bytes(dump(statement(dump(manifest), result)))


def test_a_verdict_that_does_not_follow_is_refused_with_every_digest_mended(bundle: Path, tmp_path: Path) -> None:
    """Whatever is changed in what the verdict rests on, a bundle that verifies states the verdict that follows."""
    chance = random.Random(SEED)
    document = json.loads((bundle / "result.json").read_bytes())
    parts = ("verdict", "reason", "obligations", "findings", "waivers", "evidence")
    rests = [path for path in places(document) if path[0] in parts]
    folder = tmp_path / "b"
    shutil.copytree(bundle, folder)
    refused = 0
    for path in chance.sample(rests, min(len(rests), 100)):
        touched = changed(document, path, chance)
        mended(folder, touched)
        if exit_code(folder) == 1:
            refused += 1
            continue
        obligations = [
            Obligation(o["id"], o["statement"], _status(o), o["reason"], tuple(o["evidence"]))
            for o in touched["obligations"]
        ]
        assert touched["verdict"] == compute(obligations).value
    assert refused


def test_a_pass_that_was_written_over_a_failure_is_refused(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    document = json.loads((bundle / "result.json").read_bytes())
    for statuses in (("refuted",), ("unproven",), ("refuted", "unproven")):
        forged = json.loads(json.dumps(document))
        for obligation, status in zip(forged["obligations"], statuses, strict=False):
            obligation["status"] = status
            obligation.pop("asked", None)
        forged["verdict"] = "pass"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(bundle, folder)
        mended(folder, forged)
        assert exit_code(folder) == 1


def test_two_keys_of_one_name_are_refused(bundle: Path, tmp_path: Path) -> None:
    """One reader takes the first, another the last."""
    folder = tmp_path / "b"
    shutil.copytree(bundle, folder)
    mended(folder, json.loads((bundle / "result.json").read_bytes()))
    assert exit_code(folder) == 0
    raw = (folder / "result.json").read_bytes().replace(b"{", b'{"verdict": "pass", ', 1)
    manifest = load_bundle(folder).manifest
    manifest["files"]["result.json"] |= {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    (folder / "result.json").write_bytes(raw)
    (folder / "bundle.json").write_bytes(dump(manifest))
    assert exit_code(folder) == 1
