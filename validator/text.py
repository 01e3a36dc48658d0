"""Untrusted text made safe to show: the one place that escapes for terminals, Markdown and HTML.

Names, paths and messages come from the head revision and from compiled artifacts. Whoever renders them calls one of
these functions exactly once, where the text meets the format; nothing upstream escapes.
"""

from __future__ import annotations

import hashlib
import html as _html
import re
import unicodedata

__all__ = [
    "code",
    "fenced",
    "folded",
    "html",
    "markdown",
    "nearest",
    "shorten",
    "visible",
    "visible_block",
    "well_formed",
]

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
"""Unicode categories that a reader cannot see or that move the cursor, reorder or hide text."""

_MAX_COMBINING = 4
"""Combining marks in a row that pass: enough for any script, too few to paint over neighbouring lines."""

_BREAK = "&#8203;"
"""Zero-width space: parts a word that GitHub would turn into a mention, a reference or a link. Added here, on
purpose, after everything of the kind was removed from the text itself."""


def _escape(character: str) -> str:
    point = ord(character)
    if 0xDC80 <= point <= 0xDCFF:  # a byte that was not UTF-8, as os.fsdecode hands it over
        return f"\\x{point - 0xDC00:02x}"
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if short:
        return short
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _combining_capped(text: str) -> str:
    out, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        out.append(character if run <= _MAX_COMBINING else _escape(character))
    return "".join(out)


def visible(text: str) -> str:
    """One line in which everything a reader cannot see is spelt out (`\\x1b`, `\\u202e`, `\\n`); idempotent.

    Safe for a terminal; holds no lone surrogates, so it can be encoded as UTF-8.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(c if c == " " or unicodedata.category(c) not in _HIDDEN else _escape(c) for c in text)
    return _combining_capped(shown)


def visible_block(text: str) -> str:
    """Like `visible`, but newlines stay: for text of several lines that is shown as such (code to paste)."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))


def folded(text: str) -> str:
    """A name as file systems keep it that do not tell case or composition of letters apart."""
    return unicodedata.normalize("NFKC", text).casefold()


def well_formed(text: str) -> str:
    """The text with bytes that were not UTF-8 and lone surrogates spelt out, all else untouched: for JSON and XML."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_escape(c) if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


def shorten(text: str, limit: int = 200) -> str:
    """At most about `limit` characters: head and tail, between them the whole text's length and digest."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    note = f" … [{len(text)} characters, sha256:{digest}] … "
    room = max(limit - len(note), 8)
    return text[: room - room // 3] + note + text[len(text) - room // 3 :]


_ENTITIES = {c: f"&#{ord(c)};" for c in "&<>|\\$"}
_BACKSLASHED = frozenset("`*_[]~!")
_LINKS = re.compile(r"(?i)(://|www(?=\.))")
_EMOJI = re.compile(r":(?=[\w+-]+:)")
_MENTION = re.compile(r"[@#]")
_BLOCK_START = re.compile(r"^(?:[-+=#:]|\d+(?=[.)]))")


def markdown(text: str) -> str:
    """One line of GitHub Markdown that renders as exactly this text: no markup, HTML, link, image, mention, reference.

    Safe in a paragraph, a list item, a heading and a table cell. Pipes and backslashes become entities because GitHub
    splits table cells before it reads inline markup.
    """
    plain = visible(text).strip()
    marked = (
        _ENTITIES.get(c) or ("\\" + c if c in _BACKSLASHED and not _inside_word(plain, at) else c)
        for at, c in enumerate(plain)
    )
    return _parted("".join(marked), plain)


def _inside_word(text: str, at: int) -> bool:
    """An underscore between letters or digits is never emphasis (CommonMark): names stay readable in the source."""
    return text[at] == "_" and text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum()


def _parted(marked: str, plain: str) -> str:
    # Entities hold a '#' of their own, so references are parted around them.
    pieces = re.split(r"(&#\d+;)", marked)
    for at in range(0, len(pieces), 2):
        piece = _MENTION.sub(lambda m: m.group() + _BREAK, pieces[at])
        piece = _LINKS.sub(lambda m: _BREAK.join(m.group()) if m.group().startswith(":") else m.group() + _BREAK, piece)
        pieces[at] = _EMOJI.sub(":" + _BREAK, piece)
    whole = "".join(pieces)
    start = _BLOCK_START.match(plain)
    if not start:
        return whole
    # A line that begins like a list, a heading or an underline must not become one.
    first = start.group()
    return first + _BREAK + whole[len(first) :] if first.isdigit() else f"&#{ord(first)};" + whole[1:]


def code(text: str) -> str:
    """A code span that cannot be broken out of, alike in a paragraph and in a table cell."""
    shown = visible(text)
    if not shown:
        return "<code></code>"
    if "`" in shown or "|" in shown or shown != shown.strip():
        inner = "".join(c if c.isalnum() or c in " /.,-" or ord(c) > 127 else f"&#{ord(c)};" for c in shown)
        return f"<code>{inner}</code>"
    return f"`{shown}`"


def fenced(text: str, language: str = "") -> str:
    """A fenced code block of several lines; the fence is longer than any run of backticks inside."""
    shown = visible_block(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def html(text: str) -> str:
    """Text for an HTML element or a quoted attribute."""
    return _html.escape(visible(text), quote=True)


def nearest(name: str, names: list[str] | tuple[str, ...]) -> str | None:
    """The known name that a mistyped one most likely means; None when nothing is close."""
    import difflib

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return close[0] if close else None
