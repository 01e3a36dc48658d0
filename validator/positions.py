"""Line of every key in a TOML text. The standard parser keeps no positions, so this walks the text once more.

It only locates: the text has been accepted by `tomllib` already, which alone says what it means.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left

__all__ = ["Path", "positions"]

Path = tuple[str | int, ...]
"""Keys and array indices from the root: `("kernels", 0, "args", 2, "role")`."""

_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_KEY = re.compile(r"""[ \t]*+(?:([\w-]++)|("(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'))[ \t]*+""")
_SCALAR = re.compile(r"[^,\]}#\n]*+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)


def positions(text: str) -> dict[Path, int]:
    """Key path → 1-based line, for tables, arrays of tables, keys and array elements."""
    return _Walk(text).run()


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[Path, int] = {}
        self.arrays: dict[Path, int] = {}
        """Array of tables → how many tables it has so far."""

    def run(self) -> dict[Path, int]:
        table: Path = ()
        self._blank()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._blank()
        return self.lines

    def _note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect_left(self.newlines, at) + 1)

    def _blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _key(self) -> list[str]:
        """A dotted key."""
        parts = []
        while match := _KEY.match(self.text, self.at):
            parts.append(match[1] or tomllib.loads(f"k = {match[2]}")["k"])
            self.at = match.end()
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1
        raise ValueError(f"no key at {self.at}")

    def _header(self) -> Path:
        start = self.at
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        parts = self._key()
        self.at += 2 if many else 1
        path: Path = ()
        for number, part in enumerate(parts):
            path = (*path, part)
            self._note(path, start)
            if many and number == len(parts) - 1:
                self.arrays[path] = self.arrays.get(path, 0) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path] - 1)
                self._note(path, start)
        return path

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path, start)
        self.at += 1
        self._value(path)

    def _value(self, path: Path) -> None:
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1
        if self.text.startswith("[", self.at):
            self._array(path)
        elif self.text.startswith("{", self.at):
            self._inline(path)
        else:
            match = _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at)
            self.at = match.end() if match else self.at

    def _array(self, path: Path) -> None:
        self.at += 1
        self._blank()
        index = 0
        while not self.text.startswith("]", self.at):
            self._note((*path, index), self.at)
            self._value((*path, index))
            self._separator()
            index += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        self._blank()
        while not self.text.startswith("}", self.at):
            self._pair(path)
            self._separator()
        self.at += 1

    def _separator(self) -> None:
        self._blank()
        if self.text.startswith(",", self.at):
            self.at += 1
            self._blank()
        elif self.at >= len(self.text):
            raise ValueError("the text ends inside a value")
