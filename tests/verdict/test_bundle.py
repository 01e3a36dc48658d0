"""A bundle appears whole or not at all, and says so when it was touched."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from validator.report.schemas import schema_of
from validator.verdict import bundle
from validator.verdict.bundle import BundleError, dump, load_bundle, object_name, verify_bundle, write_bundle

DOCUMENT = {
    "verdict": "pass",
    "obligations": [
        {"id": "a", "statement": "it holds", "status": "proven", "reason": "", "evidence": ["e"], "findings": []}
    ],
    "evidence": [{"id": "e", "status": "proven"}],
    "findings": [],
    "waivers": [],
}
RESULT = dump(DOCUMENT)
FILES = {"result.json": RESULT, "environment.json": dump({"started": "now"}), object_name(b"ptx"): b"ptx"}


def write(folder: Path) -> str:
    return write_bundle(folder, FILES, "pass")


def test_a_fresh_bundle_verifies_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "b")
    assert verify_bundle(tmp_path / "b") == ()
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_the_id_is_that_of_the_content_without_the_environment(tmp_path: Path) -> None:
    one = write(tmp_path / "one")
    two = write_bundle(tmp_path / "two", {**FILES, "environment.json": dump({"started": "later"})}, "pass")
    other = write_bundle(tmp_path / "three", {**FILES, object_name(b"x"): b"x"}, "pass")
    assert one == two != other


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_changed_file_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path / "b")
    path = tmp_path / "b" / name
    path.write_bytes(path.read_bytes() + b" ")
    assert [(p.where, p.what) for p in verify_bundle(tmp_path / "b")] == [
        (name, "was changed since the bundle was written")
    ]


def test_missing_extra_and_linked_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "b")
    (tmp_path / "b/environment.json").unlink()
    (tmp_path / "b/extra").write_text("x")
    (tmp_path / "b/result.json").unlink()
    (tmp_path / "b/result.json").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(RESULT)
    said = {(p.where, p.what) for p in verify_bundle(tmp_path / "b")}
    assert said == {
        ("environment.json", "is missing"),
        ("extra", "is not listed in the bundle's manifest"),
        ("result.json", "is missing"),
    }


def test_a_linked_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path / "b")
    (tmp_path / "b/more").symlink_to(tmp_path)
    assert [(p.where, p.what) for p in verify_bundle(tmp_path / "b")] == [
        ("more", "is not listed in the bundle's manifest")
    ]


def test_a_rewritten_verdict_is_found_even_with_matching_digests(tmp_path: Path) -> None:
    forged = json.loads(RESULT)
    forged["obligations"][0]["status"] = "refuted"
    write_bundle(tmp_path / "b", {**FILES, "result.json": dump(forged)}, "pass")
    assert [p.where for p in verify_bundle(tmp_path / "b")] == ["result.json"]


def test_a_manifest_rewritten_to_hide_a_file_changes_the_id(tmp_path: Path) -> None:
    write(tmp_path / "b")
    manifest = json.loads((tmp_path / "b/bundle.json").read_bytes())
    (tmp_path / "b" / object_name(b"ptx")).unlink()
    del manifest["files"][object_name(b"ptx")]
    (tmp_path / "b/bundle.json").write_bytes(dump(manifest))
    assert [p.what for p in verify_bundle(tmp_path / "b")] == ["the id is not that of the listed files"]


def test_an_earlier_bundle_is_replaced_and_anything_else_is_not(tmp_path: Path) -> None:
    write(tmp_path / "b")
    write_bundle(tmp_path / "b", {**FILES, "more": b"m"}, "pass")
    assert verify_bundle(tmp_path / "b") == ()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("keep")
    with pytest.raises(BundleError, match="holds other files"):
        write(tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="not a folder"):
        write(tmp_path / "file")
    assert (tmp_path / "mine/notes").read_text() == "keep"


def test_nothing_is_left_when_writing_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "_swap", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "/abs", ""])
def test_names_stay_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError):
        write_bundle(tmp_path / "b", {name: b""}, "pass")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"schema": "validator/bundle/9", "files": {}}'])
def test_a_folder_that_is_no_bundle_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "bundle.json").write_bytes(content)
    with pytest.raises(BundleError):
        verify_bundle(tmp_path)


def old(folder: Path) -> Path:
    """A bundle as version 1 wrote it."""
    path = folder / "bundle.json"
    manifest = json.loads(path.read_bytes())
    files = {n: {k: v for k, v in e.items() if k != "kind"} for n, e in manifest["files"].items()}
    path.write_bytes(dump({**manifest, "schema": "validator/bundle/1", "files": files}))
    return folder


EVERY_KIND = {
    "result.json": dump(DOCUMENT),
    "environment.json": b"{}",
    "summary.md": b"",
    "objects/ab/cd": b"",
    "counterexamples/0.json": b"",
    "excerpts/a.txt": b"",
    "logs/b.txt": b"",
}
KINDS = ["counterexample", "environment", "excerpt", "log", "input", "result", "summary"]


def test_every_file_of_a_bundle_has_a_kind(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", EVERY_KIND, "pass")
    manifest = load_bundle(tmp_path / "b").manifest
    assert manifest["schema"] == "validator/bundle/2"
    assert [e["kind"] for _, e in sorted(manifest["files"].items())] == KINDS
    jsonschema.validate(manifest, schema_of("bundle"))
    manifest["files"]["logs/b.txt"]["kind"] = "input"
    (tmp_path / "b/bundle.json").write_bytes(dump(manifest))
    assert [p.what for p in verify_bundle(tmp_path / "b")] == ["is said to be of another kind than it is"]


def test_a_bundle_of_version_1_is_read_as_what_it_would_be_today(tmp_path: Path) -> None:
    one = write_bundle(tmp_path / "b", EVERY_KIND, "pass")
    now = load_bundle(tmp_path / "b").manifest
    assert load_bundle(old(tmp_path / "b")).manifest == now
    assert verify_bundle(tmp_path / "b") == ()
    assert now["id"] == one
    (tmp_path / "b/objects/ab/cd").write_bytes(b"x")
    assert [p.where for p in verify_bundle(tmp_path / "b")] == ["objects/ab/cd"]


def test_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", EVERY_KIND, "pass")
    path = tmp_path / "b/bundle.json"
    path.write_bytes(path.read_bytes().replace(b"bundle/2", b"bundle/3"))
    with pytest.raises(BundleError, match="a newer validator may have written it"):
        load_bundle(tmp_path / "b")
