"""Several things in the tree have the switch's name.

The proof takes every read of that name for a read of the switch. Where another class has an attribute of the same name,
with another meaning, such a read may be of that one, and what was left out as "never runs" may run. The same holds
where the base already stores or hands on something under that name.

To mend it, give the switch a name of its own, or write its container into the manifest (`section.name`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import Analysis, analyse
from validator.isolation.offpath.constants import is_constant, value_of
from validator.isolation.offpath.scopes import functions_of
from validator.isolation.offpath.stores import stores
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.syntax import nodes, unparse, walk
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/switch-ambiguous", "several things have the switch's name", Severity.UNPROVEN)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    if analysis.switch is None or not any(proof.reads_switch for proof in analysis.proofs):
        return
    for path, line, text in _turned_on(analysis, analysis.switch):
        yield finding(
            RULE,
            path,
            f"the base writes `{text}`: whether that turns the switch on was not worked out",
            line=line,
            why="code that was there before may run the new path without anybody having asked for it",
            fix="give the switch a name that the base does not use",
            identity=(analysis.switch.name, path, text),
        )
    owners = dict(_owners(analysis, analysis.switch.name))
    if len(owners) < 2 or _all_off(analysis, analysis.switch):
        return
    shown = ", ".join(f"`{owner}` ({path}:{line})" for (path, owner), line in list(owners.items())[:4])
    (path, _), line = list(owners.items())[1]
    yield finding(
        RULE,
        path,
        f"`{analysis.switch.name}` is an attribute of {len(owners)} classes: {shown}",
        line=line,
        why="a read of one of them may have been taken for a read of the switch",
        fix="give the switch a name of its own, or write its container into the manifest",
        identity=(analysis.switch.name,),
    )


def _turned_on(analysis: Analysis, switch: SwitchSpec) -> Iterator[tuple[str, int, str]]:
    """(file of the base, line, text) of what is handed or stored under the switch's name, and is not off."""

    def is_on(value: ast.expr) -> bool:
        return is_constant(value) and value_of(value) not in (switch.default, None, False, "0", "")

    for path in analysis.base.mentions(switch.name):
        module = None if analysis.is_test(path) else analysis.base.parse(path).module
        for handed in nodes(module, ast.keyword):
            if handed.arg == switch.name and is_on(handed.value):
                yield path, handed.value.lineno, f"{handed.arg}={unparse(handed.value)}"
        for call in nodes(module, ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(attr="setdefault" | "putenv"), args=[ast.Constant(value=key), value]):
                    if key == switch.name and is_on(value):
                        yield path, call.lineno, unparse(call)
        for store in nodes(module, ast.Assign):
            for target in store.targets:
                key = value_of(target.slice) if isinstance(target, ast.Subscript) else getattr(target, "attr", None)
                if key == switch.name and is_on(store.value):
                    yield path, store.lineno, unparse(store)


def _all_off(analysis: Analysis, switch: SwitchSpec) -> bool:
    """Whether only the change has the name, and all that classes keep under it while it is off is off: `Args.fused`,
    `Config.fused`, `self.fused = build()` behind the switch."""
    left = [v for (path, _), line, v in _stored(analysis, switch.name) if not _is_behind(analysis, path, line)]
    off = (is_constant(v) and value_of(v) == switch.default for v in left)
    return not analysis.base.mentions(switch.name) and all(off)


def _is_behind(analysis: Analysis, path: str, line: int) -> bool:
    """Whether a line of a function that the base has does not run with the switch off."""
    proof = next((p for p in analysis.proofs if p.path == path and not p.problem), None)
    if proof is None or line in proof.reached:
        return False
    old = next(b for b, h in analysis.pairs if h == path)
    known = functions_of(analysis.base.parse(old).module)
    around = [
        (node.lineno, qualified)
        for qualified, node in functions_of(analysis.head.parse(path).module).items()
        if node.lineno <= line <= (node.end_lineno or 0)
    ]
    return bool(around) and max(around)[1] in known


def _owners(analysis: Analysis, name: str) -> Iterator[tuple[tuple[str, str], int]]:
    """((path, class), line) of every class that keeps something of its own under the name; copies do not count."""
    return ((owner, line) for owner, line, _ in _stored(analysis, name))


def _stored(analysis: Analysis, name: str) -> Iterator[tuple[tuple[str, str], int, ast.expr | None]]:
    for path in analysis.head.mentions(name):
        module = analysis.head.parse(path).module
        for store in stores(path, module.body) if module and not analysis.is_test(path) else ():
            if store.name == name and store.class_name and not _is_copy(store.value, name):
                yield (path, store.class_name), store.line, store.value


def _is_copy(value: ast.expr | None, name: str) -> bool:
    """Whether the value is taken from something of the same name."""
    return value is not None and any(
        name in (getattr(n, "attr", None), getattr(n, "id", None), getattr(n, "value", None)) for n in walk(value)
    )
