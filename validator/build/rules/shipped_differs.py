"""A compiled file that the change ships is not what its source builds to.

The source was compiled here, twice and the same each time, with the release of the compiler that the file itself names,
and the machine code (or the instructions of the PTX) is another. Whoever reads the source and whoever audits the file
look at two kernels: the source was edited after the file was made, or the file comes from somewhere else. Paths, line
information and debugging sections do not count, nor do names that a compiler makes of them.

Bad: `decode.cu` was edited in review, `decode.sm_90a.cubin` is the one from before. Good: both are committed together.

How to mend it: compile the source again with the same compiler and flags and commit what comes out, or correct the
`flags` of the `[[builds]]` table if they are not those the file was made with.

It does not see a file made by another release of the compiler: that one cannot be compared and stays unproven.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.build.target import Target
from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity, Status

__all__ = ["RULE", "check"]

RULE = Rule("build/shipped-differs", "what ships is not what its source builds to", Severity.ERROR)


def check(target: Target) -> Iterator[Finding]:
    for held in target.held():
        if held.status is Status.REFUTED:
            yield Finding(
                RULE.id,
                RULE.severity,
                f"{held.path}: {held.how}",
                Location(held.path),
                why="who reads the source and who runs what ships look at two kernels",
                fix=f"compile {target.build.source} for {target.arch} again and commit what comes out",
                identity=(held.path, target.build.source, target.arch),
            )
