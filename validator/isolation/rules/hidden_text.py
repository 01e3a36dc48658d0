"""A new line holds characters that reorder or hide the text around them.

Direction-changing characters let an editor or a review page show code in another order than a compiler reads it
("Trojan Source", CVE-2021-42574), zero-width characters and blank letters make two names look like one, and the
characters of the tag block can hold a text of any length that nobody sees but a program. Whoever reads such a change
judges something else than what runs. Lines that the base holds already are left alone.

Bad:  `if role != "user<U+202E> <U+2066># admins only<U+2069> <U+2066>":`
Good: `if role != "user":  # admins only`

To mend it, take the characters out; a program that needs one writes it as an escape (`"\\u202e"`).

What it does not see: letters of different scripts that look alike, and what UTF-16 files hold (they count as binary).
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
    *range(0x202A, 0x202F),  # embeddings and overrides of direction
    *range(0x2066, 0x206A),  # isolates
    *(0x115F, 0x1160, 0x3164, 0xFFA0),  # letters that are blank, and that names may hold
    *(0x180E, 0x200B, 0x2060, 0xFEFF),  # no width; joiners have a use in many scripts
    *range(0xE0000, 0xE0080),  # tags
)
_FOUND = re.compile(b"|".join(re.escape(chr(point).encode()) for point in _HIDDEN))
_MARK = "\ufeff".encode()
"""Where a file begins, it says that it is UTF-8."""


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
    if not _FOUND.search(data, len(_MARK) if data.startswith(_MARK) else 0):
        return
    new = {line for hunk in file.hunks for line in range(hunk.new_start, hunk.new_start + hunk.new_count)}
    for number, line in enumerate(data.removeprefix(_MARK).split(b"\n"), 1):
        match = _FOUND.search(line) if number in new else None
        if match:
            yield number, match.group().decode()
