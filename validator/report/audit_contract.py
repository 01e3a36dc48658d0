"""`validator audit --init-contract`: the contract's skeleton for a person to fill in.

Every parameter of every kernel, the pointers inside structs that were seen used, and in comments what the code does
with each. A role is only written where the code leaves no choice; everything else stays undeclared, so that the
skeleton as it is proves nothing.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator

from validator.manifest.contract import Role
from validator.ordering.program import Parameter
from validator.ordering.result import AccessRow, Audit, KernelAudit
from validator.report.audit_words import line_words, title_of
from validator.report.words import plural
from validator.text import shorten, visible

__all__ = ["render_contract"]

_ROLES = ", ".join(role.value for role in Role)

_HEAD = f"""\
# What each argument's memory is to the launches around the kernel. Fill in the roles and `launch`, remove what does
# not help, and check with `validator audit PATH --contract THIS_FILE`.
# Roles: {_ROLES}
# (`validator explain roles` says what each may do before the wait; `stable` needs a `justification`).
schema = "validator/manifest/1"
"""


def render_contract(audit: Audit) -> str:
    """TOML that `--contract` reads; kernels of one name in several artifacts become one table."""
    groups: dict[str, list[KernelAudit]] = {}
    for kernel in audit.kernels:
        groups.setdefault(kernel.name, []).append(kernel)
    return "\n".join([_HEAD, *("\n".join(_kernel(groups[name])) + "\n" for name in sorted(groups))])


def _kernel(same: list[KernelAudit]) -> Iterator[str]:
    first = max(same, key=lambda k: len(k.parameters))
    yield "[[kernels]]"
    if title_of(first) != first.name:
        yield f"# {_comment(title_of(first))}"
    yield f"match = {_string(glob.escape(first.name))}"
    waits = plural(max(k.wait_count for k in same), "grid wait")
    triggers = plural(max(k.trigger_count for k in same), "trigger")
    yield f"# launch = {{ pdl = true }}  # or false; the code has {waits} and {triggers}"
    for parameter in first.parameters:
        yield from _argument(parameter, same)


def _argument(parameter: Parameter, same: list[KernelAudit]) -> Iterator[str]:
    uses = _uses(parameter, same)
    yield ""
    yield "[[kernels.args]]"
    yield f"name = {_string(_name(parameter))}  # {parameter.size} bytes{_type(parameter)}"
    if not uses:
        by_value = parameter.pointer is False or parameter.size < 8
        yield (
            'role = "scalar"'
            if by_value
            else '# role = "…"  # no access through it was seen; "scalar" if it is no pointer'
        )
    elif set(uses) == {0} and parameter.size <= 8:
        yield from _touched(uses[0], "")
        yield '# role = "…"'
    else:
        yield '# a struct by value (or a tensor map: `via = "tensormap"` and one role); its pointers that are used:'
        yield "# fields = ["
        for offset, rows in sorted(uses.items()):
            yield from _touched(rows, "  ")
            yield f'#   {{ offset = {offset}, name = "field{offset}", role = "…" }},'
        yield "# ]"


def _uses(parameter: Parameter, same: list[KernelAudit]) -> dict[int, list[tuple[AccessRow, bool]]]:
    """Byte offset inside the parameter → (row, touched early?)."""
    found: dict[int, list[tuple[AccessRow, bool]]] = {}
    for kernel in same:
        early = {(r.access, r.params, r.instruction) for r in kernel.early}
        for row in (*kernel.early, *kernel.accesses):
            for ref in row.params:
                if ref.index == parameter.index:
                    is_early = (row.access, row.params, row.instruction) in early
                    found.setdefault(ref.offset, []).append((row, is_early))
    return found


def _touched(rows: list[tuple[AccessRow, bool]], indent: str) -> Iterator[str]:
    """One comment line per kind of access, early ones first and marked."""
    lines: dict[str, bool] = {}
    for row, early in rows:
        where = f" at {line_words(row.lines[0])}" if early and row.lines else ""
        deep = f" through {plural(row.level - 1, 'loaded pointer')}" if row.level > 1 else ""
        text = f"{row.access}{deep} by {row.instruction}{where}"
        lines[text] = lines.get(text, False) or early
    for text, early in sorted(lines.items(), key=lambda item: (not item[1], item[0])):
        yield f"# {indent}{'EARLY ' if early else ''}{_comment(text)}"


def _name(parameter: Parameter) -> str:
    """The artifact's name where a person gave it, `arg3` where a compiler counted."""
    name = parameter.name or ""
    return f"arg{parameter.index}" if not name or re.search(r"param_?\d+$", name) else name


def _type(parameter: Parameter) -> str:
    return f", {_comment(parameter.type)}" if parameter.type else ""


def _comment(text: str) -> str:
    return visible(shorten(text, 200))


def _string(text: str) -> str:
    """A TOML basic string; `visible` leaves no control character in it."""
    return json.dumps(visible(text), ensure_ascii=False)
