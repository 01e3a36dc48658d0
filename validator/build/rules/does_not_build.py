"""A source of the change does not compile, or takes too long to.

The manifest says that this source makes a kernel for this architecture. The compiler, in a sandbox that reads the
sources below `root` and its own installation, refused it, made nothing, wrote files or started processes without end,
or was still at it after five minutes.

Bad: a source that includes a header outside `root`. Good: `root` names the folder that holds both.

How to mend it: see the compiler's first error; correct the source, its `flags` or its `root`, or take the architecture
out of `[[builds]]` if the kernel is not for it.

It does not see whether the source builds where more than that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from validator.build.cells import Result
from validator.build.target import Target
from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "check"]

RULE = Rule("build/does-not-build", "a source of the change does not compile", Severity.UNPROVEN)
_PLACE = re.compile(r"([^\s():]+)\((\d{1,7})\): ")


def check(target: Target) -> Iterator[Finding]:
    for version, made in target.counting().items():
        if made.result is Result.FAILED:
            place = _PLACE.match(made.why)
            own = place is not None and target.build.source.endswith(place[1])
            yield Finding(
                RULE.id,
                RULE.severity,
                f"{target.build.source} for {target.arch} with {target.build.toolchain} {version}: {made.why}",
                Location(target.build.source, int(place[2]) if place is not None and own else None),
                why="nothing was made that could be looked at",
                fix="correct the source, its `flags` or its `root`; or take the architecture out of `[[builds]]`",
                identity=(target.build.source, target.arch, target.build.toolchain, version),
            )
