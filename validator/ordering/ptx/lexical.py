"""Words of PTX: comments, identifiers, literals, type and space names.

Every pattern is linear in its input: repeated classes are possessive and an unterminated comment or string is
consumed to its end once, so that no input can make a scan start over.
"""

from __future__ import annotations

import re

from validator.ordering.program import Space

__all__ = ["SPACES", "TYPE_BITS", "code_only", "integer", "split_commas", "words"]

SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.CLUSTER,
    "local": Space.LOCAL,
    "const": Space.CONST,
    "param": Space.PARAM,
    "param::entry": Space.PARAM,
    "param::func": Space.PARAM,
}
"""State space modifiers (PTX ISA, "State spaces")."""

TYPE_BITS = {
    "pred": 1,
    **dict.fromkeys(("b8", "u8", "s8", "e4m3", "e5m2", "ue8m0", "e3m2", "e2m3"), 8),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2", "u8x2", "s8x2"), 16),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "tf32", "f16x2", "bf16x2", "u16x2", "s16x2", "u8x4", "s8x4"), 32),
    **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 64),
    **dict.fromkeys(("texref", "samplerref", "surfref"), 64),
    "b128": 128,
    "b1024": 1024,
}
"""Fundamental and packed types → bits."""

_LINE_COMMENT = re.compile(r"//[^\n]*+")
_BLOCK_OR_STRING = re.compile(r'//[^\n]*+|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*+"?', re.DOTALL)
_RISKY_STRING = re.compile(r'"[^"\n]*[/;{}\\]')
_NOT_NEWLINE = re.compile(r"[^\n]++")
_INTEGER = re.compile(r"([-~]?)\s*+(?:0[xX]([0-9a-fA-F]++)|0[bB]([01]++)|0([0-7]++)|(0|[1-9][0-9]*+))[uU]?")
_FLOAT_BITS = re.compile(r"0[fFdD]([0-9a-fA-F]{8}|[0-9a-fA-F]{16})")
_OPERAND = re.compile(r"(?:[^,{\[(]++|\{[^{}]*+\}|\[[^\[\]]*+\]|\([^()]*+\)|[{\[(])++")


def words(text: str) -> frozenset[str]:
    """The words of `text`: a table written as prose."""
    return frozenset(text.split())


def _neutral(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == '"':
        return '"' + "_" * (len(text) - 2) + '"' if len(text) > 1 and text[-1] == '"' else text
    if text[1] == "*" and (len(text) < 4 or not text.endswith("*/")):
        return text
    return _NOT_NEWLINE.sub(" ", text)


def code_only(text: str) -> str:
    """`text` without comments, string contents made harmless, newlines kept (line numbers stay right).

    An unterminated comment or string is left in place for the statement scan to stumble over.
    """
    if "/" not in text and '"' not in text:
        return text
    if "/*" not in text and not _RISKY_STRING.search(text):
        return _LINE_COMMENT.sub("", text)
    return _BLOCK_OR_STRING.sub(_neutral, text)


def integer(text: str) -> int | None:
    """Value of an integer literal, of the bits of an `0f…`/`0d…` literal, or None."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        bits = _FLOAT_BITS.fullmatch(text)
        if bits is not None:
            return int(bits[1], 16)
        return 32 if text == "WARP_SZ" else None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    digits, base = next((d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if d is not None)
    if len(digits) > 64:
        return None
    value = int(digits, base)
    return -value if sign == "-" else ~value if sign == "~" else value


def split_commas(text: str) -> list[str]:
    """Operands of a statement: split at commas outside braces, brackets and parentheses."""
    if "{" not in text and "[" not in text and "(" not in text:
        parts = text.split(",")
    else:
        parts = _OPERAND.findall(text)
    return [part.strip() for part in parts]
