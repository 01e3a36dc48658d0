"""A new line holds characters that reorder or hide the text around them.

Direction-changing characters let an editor or a review page show code in another order than a compiler reads it
("Trojan Source", CVE-2021-42574), zero-width characters and blank letters make two names look like one, and tags, or
variation selectors in a row, can hold a text of any length that nobody sees but a program. A carriage return within a
line ends a comment for Python and nothing else; an escape or a backspace lets a terminal show another line. Whoever
reads such a change judges something else than what runs. Lines that the base holds already are left alone, and so are
words of scripts that are parted by what has no width, and flags that are spelt in tags.

Bad:  `if role != "user<U+202E> <U+2066># admins only<U+2069> <U+2066>":`
Good: `if role != "user":  # admins only`

To mend it, take the characters out; a program that needs one writes it as an escape (`"\\u202e"`).

What it does not see: letters of different scripts that look alike, marks of direction that move nothing but what stands
beside them (U+200E, U+200F, U+061C), soft hyphens, and what UTF-16 files hold (they count as binary).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from validator.change.model import MAX_READ, FileChange, FileKind, read_many
from validator.checks import finding
from validator.rule import Rule
from validator.stage import StageContext
from validator.text import visible
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/hidden-text", "text that is not what it looks like", Severity.ERROR)

_HIDDEN = (
    "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates of direction
    "\u115f\u1160\u3164\uffa0"  # letters that are blank, and that names may hold
    "\ufeff\u2061-\u2064\u206a-\u206f\ufff9-\ufffb"  # no width, and no use in a text
    "\u2028\u2029\x08\x1b"  # lines that end for some, and what moves a terminal's
)
_PARTS = "\u034f\u17b4\u17b5\u180e\u200b-\u200d\u2060"
"""No width, but parts or joins letters of some scripts: beside one of those, and not beside one of ASCII."""
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_FOUND = re.compile(
    f"[{_HIDDEN}]|\r(?!$)|[{_SELECTORS}]{{2}}|[\U000e0000-\U000e007f]|(?<=[!-~])[{_PARTS}]|[{_PARTS}](?=[!-~])"
    f"|(?<![^\0-\x7f{_PARTS}])[{_PARTS}](?![^\0-\x7f{_PARTS}])"
)
_ANY = re.compile(f"[{_HIDDEN}{_PARTS}{_SELECTORS}\U000e0000-\U000e007f]")
"""What most files have none of: they are not looked through line by line."""
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
"""Of a part of a country (Unicode Technical Standard 51, ED-14a)."""


def check(context: StageContext) -> Iterator[Finding]:
    files = {file.path: file for file in context.change.files if _is_read(file)}
    large = [path for path, file in files.items() if (file.size or 0) > MAX_READ]
    for path in large:
        what = f"{path} has more than the {MAX_READ:,} bytes that are looked through for hidden characters"
        yield finding(RULE, path, what, why="nobody can read it either", fix="split it", severity=Severity.UNPROVEN)
    found = read_many(context.change.head_tree, [path for path in files if path not in large])
    for path, data in sorted(found):
        places = list(_places(files[path], data))
        if places:
            line, character = places[0]
            more = f", as {len(places) - 1} more of its new lines do" if len(places) > 1 else ""
            yield finding(
                RULE,
                path,
                f"{path}:{line} holds {visible(character)}{more}",
                line=line,
                why="a person who reads it sees other text than a compiler does",
                fix=r"take the characters out; a program that needs one writes it as an escape, as '\u202e'",
            )


def _is_read(file: FileChange) -> bool:
    text = not file.binary and file.kind in (FileKind.REGULAR, FileKind.EXECUTABLE)
    return text and bool(file.new_id) and any(hunk.new_count for hunk in file.hunks)


def _places(file: FileChange, data: bytes) -> Iterator[tuple[int, str]]:
    """(line, the first such character) of every new line that holds one."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")  # where a file begins, it says: UTF-8
    if not _ANY.search(text) and "\r" not in text.replace("\r\n", ""):
        return
    new = {line for hunk in file.hunks for line in range(hunk.new_start, hunk.new_start + hunk.new_count)}
    for number, line in enumerate(text.split("\n"), 1):
        match = _FOUND.search(_FLAG.sub("", line)) if number in new else None
        if match:
            yield number, match.group()[0]
