"""Compiled code under another name: by content, of any size and shape, in linear time."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.isolation.rules.disguised_kernel import _WRITTEN_OUT, _whole

ORDERING = Path(__file__).parents[2] / "fixtures" / "ordering"


def test_everything_that_compilers_made_is_known_by_its_content() -> None:
    made = [p for p in ORDERING.rglob("*") if p.suffix in (".ptx", ".cubin")]
    assert len(made) > 100
    told = {".ptx": "is PTX", ".cubin": "is machine code for a GPU"}
    assert [p for p in made if _whole(p.read_bytes()) != told[p.suffix]] == []


@pytest.mark.parametrize("data", [b"\x50\xed\x55\xba" + bytes(60), b"\xb1\x43\x62\x46" + bytes(20)])
def test_fat_binaries(data: bytes) -> None:
    assert _whole(data) == "is a fat binary"


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF" + bytes(60), b"# .version 8.6\n", b".versions 8.6\n", b"/* .version 8.6 "]
)
def test_other_files_are_not(data: bytes) -> None:
    assert _whole(data) == ""


@pytest.mark.parametrize(
    "text",
    [
        b"/**/" * 200_000,
        b"/*" * 400_000,
        b"x.version 8.6 " * 60_000,
        b"x.version 8.6" + b"// " * 200_000,
        b" " * 800_000,
    ],
)
def test_a_text_that_could_be_matched_in_many_ways_is_matched_in_one(text: bytes) -> None:
    """Were it tried in every way, this would not end."""
    assert _whole(text) == ""
    assert _WRITTEN_OUT.search(text) is None
