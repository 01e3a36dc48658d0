"""Whatever the text, what is shown cannot move the cursor, become markup or hide."""

from __future__ import annotations

import html as html_library
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from validator.text import code, fenced, html, markdown, nearest, shorten, visible, visible_block, well_formed

SPECIAL = "`*_[]()<>|\\!@#~&$:-+=.\"'/\n\r\t\x1b\x9b\x7f\x00\u202e\u200b\u2066\ufeff\u2028\U000e0041\udc80\ud800 1)"
hostile = st.text(
    st.one_of(st.sampled_from(SPECIAL), st.characters(exclude_categories=()), st.sampled_from("aw")), max_size=40
) | st.sampled_from(
    [
        "![x](https://evil.example/a.png)",
        "<img src=x onerror=alert(1)>",
        "`` a ` | b ``",
        "a\\|b",
        "a\\`b|c",
        "<!-- hidden",
        "@org/team fixes #12 https://evil.example www.evil.example",
        "# heading",
        "1. item",
        "- item",
        "    code",
        "\x1b]0;title\x07\x1b[2J",
        "$$x$$",
        ":tada:",
        "&lt;b&gt;",
    ]
)
reader = MarkdownIt("commonmark").enable("table").enable("strikethrough")
PASSIVE = {"paragraph_open", "paragraph_close", "inline"}


def leaves(source: str) -> list[tuple[str, str]]:
    """(type, content) of every inline token of one paragraph; fails when the source is anything but a paragraph."""
    tokens = reader.parse(source)
    assert {t.type for t in tokens} <= PASSIVE, source
    return [(child.type, child.content) for t in tokens for child in t.children or ()]


@given(hostile)
def test_visible_text_is_one_harmless_line_and_idempotent(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert all(c == " " or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"} for c in shown)
    assert visible(shown) == shown


def test_visible_spells_out_what_cannot_be_seen() -> None:
    assert visible("a\x1b[31m\u202eb\udcff\n") == "a\\x1b[31m\\u202eb\\xff\\n"
    assert visible("größe/\u6838 ok") == "größe/\u6838 ok"
    assert visible("e" + "\u0301" * 6) == "e" + "\u0301" * 4 + "\\u0301" * 2


@given(hostile)
def test_visible_block_keeps_line_breaks_only(text: str) -> None:
    for line in visible_block(text).split("\n"):
        assert visible(line) == line


@given(hostile)
def test_markdown_renders_as_text_and_nothing_else(text: str) -> None:
    kinds = {kind for kind, _ in leaves(markdown(text))}
    assert kinds <= {"text"}
    rendered = "".join(content for _, content in leaves(markdown(text)))
    assert rendered.replace("\u200b", "") == visible(text).strip()
    # What GitHub turns into links after rendering: mentions, references, bare addresses.
    assert not re.search(r"[@#](?=\w)|://|www\.|:[\w+-]+:", rendered, re.IGNORECASE)


@given(hostile)
def test_markdown_stays_inside_a_table_cell(text: str) -> None:
    for cell in (markdown(text), code(text)):
        tokens = reader.parse(f"| a | b |\n| --- | --- |\n| {cell} | end |\n")
        cells = [t.content for t, before in zip(tokens[1:], tokens, strict=False) if before.type == "td_open"]
        assert len(cells) == 2
        assert cells[1] == "end"


@given(hostile)
def test_code_spans_hold(text: str) -> None:
    inline = leaves(f"before {code(text)} after")
    kinds = [kind for kind, _ in inline]
    if "code_inline" in kinds:
        assert kinds == ["text", "code_inline", "text"]
        assert inline[1][1] == visible(text)
    else:
        markup = [content for kind, content in inline if kind == "html_inline"]
        assert markup == ["<code>", "</code>"]
        joined = "".join(content for kind, content in inline if kind == "text")
        assert joined == f"before {visible(text)} after"


@given(hostile)
def test_fenced_blocks_hold(text: str) -> None:
    tokens = reader.parse(f"{fenced(text)}\n\nafter\n")
    assert [t.type for t in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content.rstrip("\n") == visible_block(text).rstrip("\n")


@given(hostile)
def test_html_round_trips_and_holds_no_markup(text: str) -> None:
    escaped = html(text)
    assert not set(escaped) & set("<>\"'")
    assert html_library.unescape(escaped) == visible(text)


@given(hostile)
def test_well_formed_text_encodes_and_leaves_the_rest_alone(text: str) -> None:
    well_formed(text).encode()
    if all(not "\ud800" <= c <= "\udfff" for c in text):
        assert well_formed(text) == text


def test_shorten_names_the_length_and_tells_texts_apart() -> None:
    assert shorten("short") == "short"
    long, other = "x" * 5000 + "a", "x" * 2500 + "y" + "x" * 2499 + "a"
    assert len(shorten(long)) <= 200
    assert "5001 characters, sha256:" in shorten(long)
    assert shorten(long) != shorten(other)


@pytest.mark.parametrize(("typo", "meant"), [("order/early-raed", "order/early-read"), ("zzz", None)])
def test_nearest(typo: str, meant: str | None) -> None:
    assert nearest(typo, ["order/early-read", "gate/policy-edited"]) == meant
