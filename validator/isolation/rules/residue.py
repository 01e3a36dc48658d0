"""What remains different with the switch off, and changes nothing that runs.

Extra modules that are loaded, attributes that hold `None`, new functions that nothing reaches, new fields with a
default, annotations. Listed by kind so that nothing is hidden; a reviewer may still care (start-up time, `repr`, a hash
over all fields).
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.offpath.compare import Residue
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/residue", "what remains different and is harmless", Severity.NOTE)


def check(context: StageContext) -> Iterator[Finding]:
    for proof in analyse(context).proofs:
        kinds: dict[str, list[Residue]] = {}
        for item in proof.residue:
            kinds.setdefault(item.kind.value, []).append(item)
        for kind, items in sorted(kinds.items()):
            yield finding(
                RULE,
                proof.path,
                f"{len(items)} × {kind.replace('-', ' ')}: {items[0].what}{' …' if len(items) > 1 else ''}",
                line=items[0].line,
                steps=tuple(f"line {item.line}: {item.what}" for item in items),
                identity=(proof.path, kind),
            )
