"""Every rule's page as one Markdown document, `docs/rules.md`, and the place of each in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from validator.rule import Rule
from validator.rules import NoPage, all_rules, page

__all__ = ["DOCS_URL", "anchor", "help_uri", "render_rules"]

DOCS_URL = "VALIDATOR_DOCS_URL"
"""Environment variable with the address at which a copy of `docs/rules.md` can be read."""

_ABSOLUTE = re.compile(r"https?://[A-Za-z0-9._~:/?&=%@+,;()!$'*-]+")

_FAMILIES = {
    "order": "Ordering of compiled kernels",
    "differential": "Results against a reference",
    "isolation": "Who can be reached",
    "scope": "What is declared",
    "gate": "What judges a change",
}


def anchor(rule: str) -> str:
    """Fragment of a rule's heading, as GitHub, GitLab and Python-Markdown's `toc` make it: no slash, lower case."""
    return re.sub(r"[^\w-]", "", rule.lower())


def help_uri(rule: str) -> str | None:
    """Where a rule's page can be read on the web; None where nobody said, or what was said is no absolute address."""
    address = os.environ.get(DOCS_URL, "")
    return f"{address}#{anchor(rule)}" if _ABSOLUTE.fullmatch(address) else None


def render_rules() -> str:
    """The whole document; `validator rules --format markdown`."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Rules\n"
    yield "Written by `validator rules --format markdown`; do not edit. `validator explain RULE` prints one page.\n"
    known = all_rules()
    families = dict.fromkeys([*_FAMILIES, *(_family(r) for r in known)])
    for family in families:
        own = [r for r in known if _family(r) == family]
        if own:
            yield f"## {_FAMILIES.get(family, family)}\n"
            yield "\n".join(f"- [`{r.id}`](#{anchor(r.id)}): {r.title}" for r in own) + "\n"
    for rule in known:
        yield from _page(rule)


def _family(rule: Rule) -> str:
    return rule.id.partition("/")[0]


def _page(rule: Rule) -> Iterator[str]:
    told = page(rule.id)
    text = "" if isinstance(told, NoPage) else told.split("\n\n", 1)[-1]
    waiving = "can be waived by the base revision" if rule.waivable else "cannot be waived"
    yield f"### {rule.id}\n"
    yield f"*{rule.title}* · {rule.severity.value} · {waiving}\n"
    if rule.aliases:
        yield f"Formerly {', '.join(f'`{a}`' for a in rule.aliases)}.\n"
    yield f"````text\n{text.rstrip()}\n````\n"
