"""A changed shared file could not be evaluated with the switch off.

It does not parse, cannot be decoded, is too large or nested too deeply, is written in another language, or there is no
switch to turn off. What was not looked at is never taken as unchanged: the file stays unproven, with the reason.

To mend it, declare the switch in the manifest; keep shared files in Python readable by `ast`; and send changes of
shared C++ and CUDA code separately, where the compiled kernels can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/not-evaluated", "shared file that could not be evaluated", Severity.UNPROVEN)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for proof in analysis.proofs:
        if proof.problem:
            yield finding(RULE, proof.path, f"{proof.path} {proof.problem}", line=proof.line)
    if analysis.switch is None:
        for _, path in analysis.pairs:
            yield finding(RULE, path, f"no manifest names a switch, so {path} was not evaluated with it off")
    for file in analysis.other:
        yield finding(
            RULE, file.path, f"{file.path} is not Python: what it does with the switch off was not examined",
            line=file.first_line,
        )  # fmt: skip
    for path in sorted(analysis.own):
        source = analysis.head.parse(path)
        if source.module is None:
            yield finding(
                RULE, path, f"{path} {source.problem}: what it does when it is loaded is unknown", line=source.line
            )
