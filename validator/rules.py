"""Every rule of every stage, in one explicit list, and the pages that explain them."""

from __future__ import annotations

import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Protocol

from validator.manifest.contract import Role
from validator.rule import Rule
from validator.text import nearest

__all__ = ["ROLES", "NoPage", "aliases_of", "all_rules", "page", "unwaivable"]

REGISTRIES = (
    ("validator.gate.rules", "RULES"),
    ("validator.isolation.rules", "RULES"),
    ("validator.isolation.rules.proof", "PROOF_RULES"),
    ("validator.scope.rules", "RULES"),
    ("validator.build.rules", "RULES"),
    ("validator.ordering.rules", "MODULES"),
    ("validator.ordering.rules", "STEP_MODULES"),
    ("validator.differential.rules", "RULES"),
    ("validator.gpu.rules", "RULES"),
)
"""(package, name of its tuple of modules); each module has a `RULE` and, as its docstring, the rule's page."""


class RuleModule(Protocol):
    """One check: one module."""

    @property
    def RULE(self) -> Rule: ...


@dataclass(frozen=True, slots=True)
class NoPage:
    """There is nothing of that name."""

    nearest: str | None
    """What it most likely means."""


@functools.cache
def _modules() -> dict[str, RuleModule]:
    """Rule id → module, by id."""
    found: dict[str, RuleModule] = {}
    for package, name in REGISTRIES:
        for module in getattr(importlib.import_module(package), name):
            if found.setdefault(module.RULE.id, module) is not module:
                raise ValueError(f"two modules claim the rule {module.RULE.id}")
    return dict(sorted(found.items()))


def all_rules() -> tuple[Rule, ...]:
    """By id."""
    return tuple(module.RULE for module in _modules().values())


def aliases_of(rule: str) -> tuple[str, ...]:
    """Former ids of a rule; empty for an id that no stage knows."""
    module = _modules().get(rule)
    return module.RULE.aliases if module else ()


@functools.cache
def unwaivable() -> frozenset[str]:
    """Rules whose findings no waiver covers."""
    return frozenset(rule.id for rule in all_rules() if not rule.waivable)


def page(topic: str) -> str | NoPage:
    """What `validator explain` prints: the page of a rule by its id or a former one, or `roles`."""
    if topic == "roles":
        return ROLES
    modules = _modules()
    current = {alias: m for m in modules.values() for alias in m.RULE.aliases}
    module = modules.get(topic) or current.get(topic)
    if module is None:
        return NoPage(nearest(topic, [*modules, *current, "roles"]))
    rule = module.RULE
    waiving = "can be waived by the base revision" if rule.waivable else "cannot be waived"
    return f"{rule.id}: {rule.title}\n{rule.severity.value}, {waiving}\n\n{inspect.cleandoc(module.__doc__ or '')}"


_MEANINGS = {
    Role.WEIGHT: ("fixed for the life of the loaded model", "may be read before the wait"),
    Role.STABLE: (
        "written earlier than any grid that can still be running; needs a written `justification`",
        "may be read before the wait; the summary shows it as an assumption",
    ),
    Role.ACTIVATION: ("written by an earlier kernel of the same step", "not before the wait"),
    Role.INDEX: (
        "small tables that steer addresses: slots, block tables, lengths, expert ids",
        "not before the wait: a stale one writes to the wrong place",
    ),
    Role.STATE: ("read and written across steps: KV cache, recurrent state", "not before the wait"),
    Role.OUTPUT: ("written by this kernel", "neither read nor written before the wait"),
    Role.WORKSPACE: ("scratch memory of this kernel", "neither read nor written before the wait"),
    Role.FLAG: (
        "words that kernels or ranks synchronise through",
        "only by the operations that synchronise, acquire and release of the right scope",
    ),
    Role.MAILBOX: (
        "words that carry data and its validity: poll until the word is no longer the sentinel",
        "yes, but nothing may use the value before the check passed",
    ),
    Role.SCALAR: ("passed by value", "not memory"),
}

ROLES = "\n".join(
    (
        "Roles of kernel arguments: what their memory is to the launches around this kernel",
        "",
        *(
            f"{role.value:<11} {meaning}\n{'':<11} before the dependency wait: {early}"
            for role, (meaning, early) in _MEANINGS.items()
        ),
        "",
        "An argument with no role is undeclared: every early access to it is unproven.",
    )
)
