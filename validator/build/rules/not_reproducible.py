"""Two builds of one source with one compiler gave two results.

Every build is made twice, in folders of different names. Where the results differ, what is audited is not what somebody
else's build of the same source gives: a time, a path or a random name got into the code, or the build reads something
that changes.

Bad: a generator that draws a kernel's name at random. Good: a name made from the kernel's parameters.

How to mend it: take out of the source, or of what generates it, whatever changes from build to build.

It does not see what differs only between machines, or after the second build.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.build.cells import Result
from validator.build.target import Target
from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "check"]

RULE = Rule("build/not-reproducible", "two builds of one source differ", Severity.UNPROVEN)


def check(target: Target) -> Iterator[Finding]:
    for version, made in target.counting().items():
        if made.result is Result.DIFFERS:
            yield Finding(
                RULE.id,
                RULE.severity,
                f"{target.build.source} for {target.arch} with {target.build.toolchain} {version}: {made.why}",
                Location(target.build.source),
                why="what was looked at here is not what another build of the same source gives",
                fix="take out of the source whatever changes from build to build: times, paths, random names",
                identity=(target.build.source, target.arch, target.build.toolchain),
            )
