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
Every word of a vector load needs its own check; where only some of them are compared the rest is left open
(`unproven`), since a flag among them may speak for all.

Not seen: which sentinel the sender uses, and whether the comparison is the right one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.mailbox import Unchecked, unchecked_uses
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/mailbox-used-before-check", "a mailbox word is used before it was checked", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per mailbox argument, uses that nothing checks before those that a word beside them may speak for."""
    found: dict[tuple[str, bool], list[Unchecked]] = {}
    for item in unchecked_uses(facts):
        found.setdefault((item.mailbox, item.beside), []).append(item)
    for (name, beside), items in found.items():
        if beside and (name, False) in found:
            continue
        load, use = items[0].load, items[0].use
        if beside:
            said = f"a word of '{name}' is used at {facts.at(use)}, and only other words of its load were checked"
            why = "whether they speak for this word too does not show; words arrive one by one unless they share a flag"
        else:
            said = f"a word of '{name}' is used at {facts.at(use)} before the check of its load has passed"
            why = "until the check passes the word may still be the sentinel"
        yield finding(
            RULE,
            facts,
            [item.load for item in items],
            said,
            identity=(name,),
            why=why,
            fix="use the value only behind the loop that polls this very word",
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (load, use)),
            severity=Severity.UNPROVEN if beside else Severity.ERROR,
        )
