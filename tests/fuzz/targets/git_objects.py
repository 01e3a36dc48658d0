"""Trees, headers, raw records and patches as git prints them: entries, or a `ChangeError` that says which object."""

from __future__ import annotations

import io
from collections.abc import Iterator

from tests.fuzz.targets.common import joined, parts, told
from validator.change.diff import _fields, _texts
from validator.change.model import ChangeError
from validator.change.objects import _header, _parse_tree

MODULES = ("validator.change.objects", "validator.change.diff")
_TREE = (
    b"100644 a.py\0"
    + bytes(range(20))
    + b"40000 d\0"
    + bytes(20)
    + b"120000 l\xff\0"
    + bytes(20)
    + b"160000 m\0"
    + bytes(20)
)
_PATCH = (
    b"diff --git a/x b/x\nindex "
    + b"1" * 40
    + b".."
    + b"2" * 40
    + b" 100644\n--- a/x\n+++ b/x\n@@ -1,2 +3,4 @@ f\n-a\n+b\n"
    b"diff --git a/y b/y\nnew file mode 100644\nindex "
    + b"0" * 40
    + b".."
    + b"3" * 40
    + b"\nBinary files /dev/null and b/y differ\n"
)


def seeds() -> Iterator[bytes]:
    yield joined(_TREE, b"1" * 40 + b" blob 12", _PATCH)
    yield joined(b"100755 run.sh\0" + bytes(32), b"1" * 40 + b" missing", _PATCH.replace(b"1" * 40, b"4" * 64))


def one(data: bytes) -> None:
    tree, header, patch = parts(data, 3)
    for name in ("1" * 40, "1" * 64):
        try:
            nodes = _parse_tree(tree, name)
        except ChangeError as error:
            told(error, where=False)
            continue
        assert all(entry and "/" not in entry and entry not in (".", "..") for entry in nodes)
        assert all(len(node.id) == len(name) for node in nodes.values())
    found = _header(header)
    assert found is None or found[1] >= 0
    for (old, new), text in _texts(io.BytesIO(patch)).items():
        assert set(old + new) <= set("0123456789abcdef")
        assert all(hunk.new_count >= 0 for hunk in text.hunks)
    assert b"\0" not in b"".join(_fields(io.BytesIO(patch)))
