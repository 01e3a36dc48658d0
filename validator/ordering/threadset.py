"""Sets of threads as masks: one bit a thread, and what a person calls the set."""

from __future__ import annotations

__all__ = ["DEFAULT_THREADS", "describe"]

DEFAULT_THREADS = 1024
"""Threads that are told apart; bits beyond stand for samples of further rows."""


def describe(mask: int, everyone: int) -> str:
    """A set of threads in words: "all threads", "thread 0", "threads 0 to 31 and 96 to 127"."""
    if mask == everyone:
        return "all threads"
    beyond = mask >> DEFAULT_THREADS
    mask &= (1 << DEFAULT_THREADS) - 1
    if beyond:
        return f"{describe(mask, everyone)} and others of further rows" if mask else "threads of further rows"
    warps = (everyone.bit_length() + 31) // 32
    lanes = mask & 0xFFFFFFFF
    if warps > 1 and lanes.bit_count() == 1 and mask == everyone & sum(lanes << 32 * warp for warp in range(warps)):
        return f"lane {lanes.bit_length() - 1} of every warp"
    parts: list[str] = []
    position = 0
    while mask >> position and len(parts) < 4:
        rest = mask >> position
        start = position + (rest & -rest).bit_length() - 1
        run = mask >> start
        length = (~run & (run + 1)).bit_length() - 1
        stop = start + length - 1
        open_end = stop == everyone.bit_length() - 1 and start > 0
        parts.append(f"{start} and up" if open_end else str(start) if start == stop else f"{start} to {stop}")
        position = stop + 1
    if not parts:
        return "no thread"
    if mask >> position:
        parts.append("…")
    single = len(parts) == 1 and parts[0].isdigit()
    return f"thread {parts[0]}" if single else f"threads {', '.join(parts)}"
