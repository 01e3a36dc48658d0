"""Opening a change: every kind of repository and of path that git can hold."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repository import Node, RepositoryBuilder, files
from validator.change.git import Repository, open_change
from validator.change.model import ChangeError, ChangeStatus, FileKind, Hunk, MissingFile
from validator.change.objects import Node as TreeNode
from validator.change.objects import Objects, _parse_tree

BASE = files(
    a_py="one\ntwo\nthree\n", b_py="same\n", d__c_py="moved, and long enough to be seen as the same file\n" * 5
)
HEAD = files(
    a_py="one\n2\nthree\nfour\n", b_py="same\n", e__c_py="moved, and long enough to be seen as the same file\n" * 5
)


@pytest.fixture(params=["sha1", "sha256"])
def builder(request: pytest.FixtureRequest, tmp_path: Path) -> RepositoryBuilder:
    return RepositoryBuilder(tmp_path / "repo", object_format=request.param)


def two(builder: RepositoryBuilder, base: dict[bytes, Node] = BASE, head: dict[bytes, Node] = HEAD) -> tuple[str, str]:
    """A base on `main` and a head on `change`."""
    first = builder.commit(base, branch="main")
    return first, builder.commit(head, first, branch="change")


def test_modified_renamed_and_lines(builder: RepositoryBuilder) -> None:
    base, head = two(builder)
    change = open_change(builder.path, "main", "change")
    assert (change.base, change.head, change.merge_base) == (base, head, base)
    edited, moved = change.files
    assert (edited.path, edited.status, edited.added, edited.deleted) == ("a.py", ChangeStatus.MODIFIED, 2, 1)
    assert edited.hunks == (Hunk(2, 1, 2, 1), Hunk(3, 0, 4, 1))
    assert edited.first_line == 2
    assert (moved.path, moved.old_path, moved.status, moved.lines) == ("e/c.py", "d/c.py", ChangeStatus.RENAMED, 0)
    assert (change.added, change.deleted) == (2, 1)
    assert change.file("d/c.py") is moved
    assert change.head_tree.read("a.py") == HEAD[b"a.py"].data
    assert change.base_tree.read("a.py") == BASE[b"a.py"].data
    assert [e.path for e in change.head_tree.list()] == ["a.py", "b.py", "e/c.py"]
    assert [e.path for e in change.head_tree.list("e")] == ["e/c.py"]
    assert change.head_tree.list("nothing") == ()
    assert change.head_tree.entry("e") is None


def test_line_counts_are_those_of_numstat(builder: RepositoryBuilder) -> None:
    text = [f"line {i}\n" for i in range(200)]
    other = [line for i, line in enumerate(text) if i % 7] + ["more\n"] * 3
    other[50:50] = [
        "-- looks like a header\n",
        "+++ b/x\n",
        "@@ -1 +1 @@\n",
        "index 0..1\n",
        "Binary files a and b differ\n",
    ]
    base = {b"x": Node("".join(text).encode()), b"gone": Node(b"a\nb"), b"bin": Node(b"a\0b")}
    head = {b"x": Node("".join(other).encode()), b"new": Node(b"a\nb"), b"bin": Node(b"a\0c"), b"empty": Node(b"")}
    first, last = two(builder, base, head)
    said = {}
    for line in builder.git("diff", "--numstat", "--no-renames", first, last).splitlines():
        added, deleted, path = line.split("\t")
        said[path] = (0, 0, True) if added == "-" else (int(added), int(deleted), False)
    change = open_change(builder.path, "main", "change")
    merged: dict[str, tuple[int, int, bool]] = {}
    for file in change.files:
        if file.status is ChangeStatus.RENAMED:
            assert (file.old_path, file.path) == ("gone", "new")
            merged |= {"gone": (0, 2, False), "new": (2, 0, False)}
        else:
            merged[file.path] = (file.added, file.deleted, file.binary)
    assert merged == said


def test_two_files_with_the_same_content_count_twice(builder: RepositoryBuilder) -> None:
    two(builder, {}, {b"a": Node(b"1\n2\n"), b"b": Node(b"1\n2\n")})
    assert [f.added for f in open_change(builder.path, "main", "change").files] == [2, 2]


def test_modes_links_submodules_and_types(builder: RepositoryBuilder) -> None:
    base = {
        b"run": Node(b"x\n"),
        b"link": Node(b"run", 0o120000),
        b"file": Node(b"text\n"),
        b"old": Node(b"o" * 40, 0o160000),
    }
    commit = "1" * 40 if builder.object_format == "sha1" else "1" * 64
    base[b"old"] = Node(commit.encode(), 0o160000)
    head = {b"run": Node(b"x\n", 0o100755), b"link": Node(b"file", 0o120000), b"file": Node(b"run", 0o120000)}
    head[b"sub"] = Node(commit.replace("1", "2").encode(), 0o160000)
    two(builder, base, head)
    change = open_change(builder.path, "main", "change")
    found = {f.path: f for f in change.files}
    assert (found["run"].kind, found["run"].old_kind, found["run"].lines) == (FileKind.EXECUTABLE, FileKind.REGULAR, 0)
    assert (found["file"].status, found["file"].kind) == (ChangeStatus.TYPE_CHANGED, FileKind.SYMLINK)
    assert (found["file"].added, found["file"].deleted) == (1, 1)
    assert found["link"].kind is FileKind.SYMLINK
    assert found["sub"].kind is FileKind.SUBMODULE
    assert found["sub"].size is None
    assert found["old"].status is ChangeStatus.DELETED
    assert change.head_tree.read("link") == b"file"
    with pytest.raises(MissingFile, match="submodule"):
        change.head_tree.read("sub")


HOSTILE_PATHS = [
    b"new\nline",
    b'quo"te',
    b"back\\slash",
    b"tab\there",
    b"\x1b[2Jclear",
    b"latin-\xfc",
    b"-option",
    b" space ",
    b":(glob)*",
    b"a/" + b"b" * 240,
    "größe/字".encode(),
    b"\n\n@@ -1 +1 @@\nindex 0000",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=repr)
def test_any_path_survives(builder: RepositoryBuilder, path: bytes) -> None:
    two(builder, {b"z" + path: Node(b"old\n"), b"keep": Node(b"")}, {path: Node(b"1\n2\n"), b"keep": Node(b"")})
    change = open_change(builder.path, "main", "change")
    by_path = {os.fsencode(f.path): f for f in change.files}
    assert (by_path[path].added, by_path[b"z" + path].deleted) == (2, 1)
    assert change.head_tree.read(os.fsdecode(path)) == b"1\n2\n"
    assert os.fsdecode(path) in [e.path for e in change.head_tree.list()]


def test_bare_worktree_and_subfolder(builder: RepositoryBuilder, tmp_path: Path) -> None:
    expected = two(builder)
    builder.git("clone", "-q", "--bare", str(builder.path), str(tmp_path / "bare"))
    builder.git("worktree", "add", "-q", str(tmp_path / "tree"), "change")
    (tmp_path / "tree" / "sub").mkdir()
    for place in ("bare", "tree", "tree/sub"):
        change = open_change(tmp_path / place, "main", "change")
        assert (change.base, change.head) == expected
        assert len(change.files) == 2
    assert not (builder.path / "index-of-test").exists()


def test_alternates_are_followed(builder: RepositoryBuilder, tmp_path: Path) -> None:
    expected = two(builder)
    builder.git("clone", "-q", "--shared", "--bare", str(builder.path), str(tmp_path / "shared"))
    change = open_change(tmp_path / "shared", "main", "change")
    assert (change.base, change.head) == expected


def test_first_commit_and_empty_base(builder: RepositoryBuilder) -> None:
    head = builder.commit(HEAD, branch="main")
    change = open_change(builder.path, "empty", "main")
    assert change.head == head
    assert {f.status for f in change.files} == {ChangeStatus.ADDED}
    assert change.base_tree.list() == ()
    assert any("no base revision" in note for note in change.notes)
    assert open_change(builder.path, change.base, "main").files == change.files
    with pytest.raises(ChangeError, match="no such commit"):
        open_change(builder.path, "main~1", "main")


def test_merge_commit_is_seen_from_its_merge_base(builder: RepositoryBuilder) -> None:
    first = builder.commit({b"a": Node(b"1\n")}, branch="old")
    main = builder.commit({b"a": Node(b"1\n"), b"m": Node(b"m\n")}, first, branch="main")
    side = builder.commit({b"a": Node(b"2\n")}, first)
    builder.commit({b"a": Node(b"2\n"), b"m": Node(b"m\n")}, side, main, branch="change")
    change = open_change(builder.path, "main", "change")
    assert change.merge_base == main
    assert [f.path for f in change.files] == ["a"]


def test_changes_of_the_base_since_the_fork_are_not_the_heads(builder: RepositoryBuilder) -> None:
    first = builder.commit({b"a": Node(b"1\n")})
    builder.commit({b"a": Node(b"1\n"), b"later": Node(b"x")}, first, branch="main")
    builder.commit({b"a": Node(b"2\n")}, first, branch="change")
    change = open_change(builder.path, "main", "change")
    assert change.merge_base == first
    assert [f.path for f in change.files] == ["a"]
    assert change.base_tree.entry("later") is not None
    assert change.merge_base_tree.entry("later") is None


def test_criss_cross_merge_says_so(builder: RepositoryBuilder) -> None:
    root = builder.commit({b"a": Node(b"0")})
    one = builder.commit({b"a": Node(b"1")}, root)
    two_ = builder.commit({b"a": Node(b"2")}, root)
    builder.commit({b"a": Node(b"3")}, one, two_, branch="main")
    builder.commit({b"a": Node(b"4")}, two_, one, branch="change")
    change = open_change(builder.path, "main", "change")
    assert change.merge_base in (one, two_)
    assert any("2 merge bases" in note for note in change.notes)


def test_nothing_changed(builder: RepositoryBuilder) -> None:
    builder.commit(HEAD, branch="main")
    assert open_change(builder.path, "main", "main").files == ()


@pytest.mark.parametrize(
    ("ref", "fix"),
    [
        ("nowhere", "git fetch origin nowhere"),
        ("origin/nowhere", "git fetch origin nowhere:refs/remotes/origin/nowhere"),
        ("change~9", "git fetch --deepen=200"),
    ],
)
def test_what_brings_a_revision_into_a_shallow_clone(tmp_path: Path, ref: str, fix: str) -> None:
    builder = RepositoryBuilder(tmp_path / "repo")
    two(builder)
    shallow = tmp_path / "shallow"
    builder.git("clone", "-q", "--bare", "--depth=1", "--branch=change", builder.path.as_uri(), str(shallow))
    with pytest.raises(ChangeError) as error:
        Repository(shallow).resolve(ref)
    assert f"`{fix}`" in str(error.value)


def test_shallow_clone_says_what_is_missing(builder: RepositoryBuilder, tmp_path: Path) -> None:
    first = builder.commit({b"a": Node(b"0")})
    main = builder.commit({b"a": Node(b"1")}, first, branch="main")
    builder.commit({b"a": Node(b"2")}, first, branch="change")
    shallow = tmp_path / "shallow"
    source = f"file://{builder.path}"
    builder.git("clone", "-q", "--bare", "--depth=1", "--no-single-branch", source, str(shallow))
    with pytest.raises(ChangeError, match=r"no merge base.*shallow: fetch more history"):
        open_change(shallow, "main", "change")
    with pytest.raises(ChangeError, match="history is cut here"):
        open_change(shallow, first, "change")
    builder.git("fetch", "-q", "--depth=2", source, "change:change", "main:main", "--update-head-ok", cwd=shallow)
    change = open_change(shallow, "main", "change")
    assert (change.base, change.merge_base, change.shallow) == (main, first, True)
    assert any("shallow" in note for note in change.notes)


def test_partial_clone_fetches_nothing_and_names_the_files(builder: RepositoryBuilder, tmp_path: Path) -> None:
    two(builder)
    builder.git("config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    builder.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{builder.path}", str(partial))
    with pytest.raises(ChangeError) as caught:
        open_change(partial, "main", "change")
    assert {p.where for p in caught.value.problems} >= {"a.py"}
    assert "partial" in caught.value.problems[0].fix


def test_unknown_and_malformed_revisions_are_reported_together(builder: RepositoryBuilder) -> None:
    two(builder)
    with pytest.raises(ChangeError) as caught:
        open_change(builder.path, "mian", "--output=x")
    assert [p.where for p in caught.value.problems] == ["base mian", "head '--output=x'"]
    for ref in ("", "-h", "a b", "a\nb", "\0", "main..change", "^main", "main:a.py", ":0:a.py", "x" * 5000, "\udcff"):
        with pytest.raises(ChangeError):
            open_change(builder.path, "main", ref)


def test_a_name_with_two_meanings_is_an_error(builder: RepositoryBuilder) -> None:
    base, head = two(builder)
    builder.git("tag", "main", head)
    with pytest.raises(ChangeError, match="several meanings"):
        open_change(builder.path, "main", "change")
    assert open_change(builder.path, "refs/heads/main", "refs/heads/change").base == base


def test_a_replacement_ref_does_not_change_what_is_seen(builder: RepositoryBuilder) -> None:
    _, head = two(builder)
    lie = builder.commit(BASE)
    builder.git("replace", head, lie)
    assert len(open_change(builder.path, "main", "change").files) == 2


def test_unrelated_histories_have_no_merge_base(builder: RepositoryBuilder) -> None:
    builder.commit({b"a": Node(b"1")}, branch="main")
    builder.commit({b"b": Node(b"2")}, branch="change")
    with pytest.raises(ChangeError, match="no merge base"):
        open_change(builder.path, "main", "change")


def test_not_a_repository(tmp_path: Path) -> None:
    with pytest.raises(ChangeError, match="not a git repository"):
        Repository(tmp_path)
    with pytest.raises(ChangeError, match="no such folder"):
        Repository(tmp_path / "absent")


def test_reading_has_a_limit_and_does_not_follow_links(builder: RepositoryBuilder) -> None:
    two(builder, {}, {b"big": Node(b"x" * 100), b"up": Node(b"../../etc/passwd", 0o120000)})
    tree = open_change(builder.path, "main", "change").head_tree
    with pytest.raises(MissingFile, match="100 bytes, more than the 99"):
        tree.read("big", 99)
    assert tree.read("up") == b"../../etc/passwd"
    for path in ("", "absent", "big/below", "../big", "/big", "up/passwd"):
        with pytest.raises(MissingFile):
            tree.read(path)


def test_attributes_of_the_head_do_not_hide_lines(builder: RepositoryBuilder) -> None:
    two(builder, {b"a.py": Node(b"1\n")}, {b"a.py": Node(b"2\n"), b".gitattributes": Node(b"*.py -diff binary\n")})
    builder.git("symbolic-ref", "HEAD", "refs/heads/change")
    builder.git("reset", "-q", "--hard")
    (builder.path / ".git" / "info").mkdir(exist_ok=True)
    (builder.path / ".git" / "info" / "attributes").write_text("* -diff\n")
    change = open_change(builder.path, "main", "change")
    assert [(f.path, f.added, f.binary) for f in change.files] == [(".gitattributes", 1, False), ("a.py", 1, False)]


def test_a_large_file_is_sized_and_never_read(builder: RepositoryBuilder) -> None:
    size = 40 * 1024 * 1024
    two(builder, {b"old": Node(b"a" * size)}, {b"new": Node(b"a" * (size - 1) + b"b")})
    change = open_change(builder.path, "main", "change")
    assert [(f.path, f.status, f.binary) for f in change.files] == [("new", "A", True), ("old", "D", True)]
    assert change.files[0].size == size
    assert any("identical" in note for note in change.notes)


@pytest.mark.slow
def test_two_gigabytes(tmp_path: Path) -> None:
    """A pack of a few megabytes that holds a blob of 2 GB: what a hostile change would bring."""
    builder = RepositoryBuilder(tmp_path / "repo")
    big = tmp_path / "big"
    with big.open("wb") as stream:
        stream.truncate(2 * 1024**3)
    subprocess.run(["git", "config", "core.compression", "1"], cwd=builder.path, check=True)
    blob = builder.git("hash-object", "-w", str(big))
    big.unlink()
    base = builder.commit({b"a": Node(b"1\n")}, branch="main")
    tree = builder.git("mktree", data=f"100644 blob {blob}\tbig.bin\n".encode())
    head = builder.git("commit-tree", "-m", "c", "-p", base, tree)
    change = open_change(builder.path, "main", head)
    (found,) = [f for f in change.files if f.path == "big.bin"]
    assert (found.size, found.binary) == (2 * 1024**3, True)
    with pytest.raises(MissingFile):
        change.head_tree.read("big.bin")


def test_nested_trees_that_describe_billions_of_files_end_in_an_error(tmp_path: Path) -> None:
    builder = RepositoryBuilder(tmp_path / "repo", bare=True)
    node = builder.git("hash-object", "-w", "--stdin", data=b"x")
    kind, mode = "blob", "100644"
    for _ in range(10):
        lines = "".join(f"{mode} {kind} {node}\t{name}\n" for name in "abcdefghij")
        node, kind, mode = builder.git("mktree", data=lines.encode()), "tree", "040000"
    base = builder.commit({}, branch="main")
    head = builder.git("commit-tree", "-m", "c", "-p", base, node)
    with pytest.raises(ChangeError, match="more than 100,000 files"):
        open_change(builder.path, "main", head)
    with pytest.raises(ChangeError, match="more than 1,000,000 files"):
        Repository(builder.path).tree(head).list()


@pytest.mark.parametrize("name", [b"..", b"."])
def test_a_tree_with_a_name_no_file_can_have_is_refused(tmp_path: Path, name: bytes) -> None:
    builder = RepositoryBuilder(tmp_path / "repo", bare=True)
    blob = builder.git("hash-object", "-w", "--stdin", data=b"x")
    raw = b"100644 " + name + b"\0" + bytes.fromhex(blob)
    tree = builder.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", data=raw)
    head = builder.git("commit-tree", "-m", "c", tree)
    with pytest.raises(ChangeError, match="no file can be named"):
        Repository(builder.path).tree(head).list()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes_are_a_tree_or_an_error(data: bytes) -> None:
    try:
        nodes = _parse_tree(data, "0" * 40)
    except ChangeError:
        return
    assert sum(len(b"%o %s\0" % (n.mode, os.fsencode(name))) + 20 for name, n in nodes.items()) <= len(data)


def test_a_name_that_a_tree_has_twice_is_refused() -> None:
    one = b"100644 a\0" + b"1" * 20
    with pytest.raises(ChangeError, match="twice"):
        _parse_tree(one + one, "0" * 40)


def test_folders_that_did_not_change_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = RepositoryBuilder(tmp_path / "repo", bare=True)
    node = Node(b"same\n")
    base = {b"d%d/e/f.py" % i: node for i in range(300)}
    two(builder, base, base | {b"d7/e/f.py": Node(b"other\n")})
    read: list[str] = []
    original = Objects.tree

    def counted(self: Objects, object_id: str) -> dict[str, TreeNode]:
        read.append(object_id)
        return original(self, object_id)

    monkeypatch.setattr(Objects, "tree", counted)
    assert [f.path for f in open_change(builder.path, "main", "change").files] == ["d7/e/f.py"]
    assert len(read) == 6
