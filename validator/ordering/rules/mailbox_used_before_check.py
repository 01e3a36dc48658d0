"""A mailbox word is used before it was checked.

A mailbox carries data and its validity in the same word: poll until it is no longer the sentinel. It may be loaded at
any time, but nothing may use the value before the check of *that* load has passed.

Bad:  `v = ld(box); word[t] = v; while (v == EMPTY) v = ld(box);`
Bad:  two words loaded, only the first one compared.
Good: `do v = ld(box); while (v == EMPTY); word[t] = v;`

Mend it by moving every use behind the loop that polls that very word.

What is decided: a value flows unchecked when it reaches a store, an address or an asynchronous operation along a path
on which no branch that depends on that load has let it pass. Arithmetic on the way is followed; comparisons are checks.
A branch that goes back to load again passes on its other side; a first look before a loop counts as a check.

Not seen: which sentinel the sender uses, and whether the comparison is the right one.
"""

from __future__ import annotations

from collections.abc import Iterable

from validator.ordering.facts import Facts
from validator.ordering.findings import finding
from validator.ordering.mailbox import unchecked_uses
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("order/mailbox-used-before-check", "a mailbox word is used before it was checked", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per mailbox argument."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, load, use in unchecked_uses(facts):
        found.setdefault(name, []).append((load, use))
    for name, pairs in found.items():
        load, use = pairs[0]
        yield finding(
            RULE,
            facts,
            [i for i, _ in pairs],
            f"a word of '{name}' is used at {facts.at(use)} before the check of its load has passed",
            identity=(name,),
            why="until the check passes the word may still be the sentinel",
            fix="use the value only behind the loop that polls this very word",
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (load, use)),
        )
