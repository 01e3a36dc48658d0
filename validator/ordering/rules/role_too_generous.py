"""A role that the step contradicts: memory declared `weight` or `stable` is written by a launch that may still run.

Roles are claims about the caller. Where the manifest gives the order of launches and which buffer each argument is,
they can be checked: for every launch the audit derives which earlier launches may still be running before its wait
(early triggers chain), and what they write.

Bad:  `slots` declared `stable`, and the launch before writes it.
Good: `slots` declared `index` and read behind the wait; or written by a launch that is surely complete.

Mend it by declaring what the step shows and reading behind the wait, or by waiting before triggering in the launches
between.

Not seen: memory that the step does not name as a buffer, and writes through pointers loaded from memory.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule("order/role-too-generous", "the step contradicts a declared role", Severity.ERROR)
