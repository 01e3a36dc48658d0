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


def test_what_stands_before_it_is_of_any_length() -> None:
    for before in (b" " * 70_000, b"\n" * 70_000, b"// nothing\n" * 7_000, b"/* " + b"x" * 70_000 + b" */"):
        assert _whole(before + b".version 8.6 /*x*/\n.target/**/sm_90a\n") == "is PTX"


@pytest.mark.parametrize(
    "text",
    [
        b'".version 8.6\\n.target sm_90a\\n"',
        b'[".version 8.6",\n ".target sm_90a"]',
        b'".version 8.6 /* x */ \\n.target /**/ sm_90a"',
        b'f".version 8.6\\n"\n    f".target {arch}\\n"',
        b'".version 8.6\\n.target %s\\n"',
        b'".version 8.6\\n"  // as all\n  R".target sm_90a"',
    ],
)
def test_spelt_out_in_a_source(text: bytes) -> None:
    assert _WRITTEN_OUT.search(b"KERNEL = " + text)


@pytest.mark.parametrize("text", [b"see .version 8.6 and .target sm_90a", b".version 8.6; x = 1; .target sm_90a"])
def test_told_of_it_alone(text: bytes) -> None:
    assert _WRITTEN_OUT.search(text) is None


@pytest.mark.parametrize(
    "text",
    [
        b"x.version 8.6 /* " * 60_000,
        b"x.version 8.6 .target /*" * 60_000,
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
