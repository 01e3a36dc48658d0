"""Isolation as a proof: with the switch off, nothing changed. `run(context)` is the stage.

One obligation for each changed shared file, one for each thing that may be found by name, and one for each promise
about the package as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from validator.checks import Check, Goal, settle
from validator.isolation.analysis import Analysis, analyse
from validator.isolation.blast.imports import When
from validator.isolation.index import keep, recall
from validator.isolation.offpath.equivalence import FileProof
from validator.isolation.rules import not_evaluated
from validator.isolation.rules.proof import (
    ADDED,
    DISCOVERY,
    EFFECTS,
    ENTRIES,
    OFF_PATH,
    RADIUS,
    SCOPE,
    SHIPPED,
    STEP,
    SWITCH,
    TESTS,
)
from validator.isolation.tests_run import run_tests
from validator.stage import StageContext
from validator.verdict.model import Evidence, Finding, Obligation, StageResult, Status, Strength

__all__ = ["run"]

_NOT_SHOWN = (
    "what C extensions, `__getattr__` and other dynamic lookups do",
    "that attributes which only the head stores are not looked up by packages outside the tree",
    "that code which sets attributes under computed names (`setattr(x, name, …)`), on objects of which it does not say "
    "what they are, leaves alone what the facts are about",
    "objects that were pickled by an earlier version, or made without their constructor by code that names no class",
    "that what was read a moment before in the same function is not removed or replaced in between",
    "classes outside the tree whose constructors call back, or whose subclasses leave out the constructor above",
    "code that reads docstrings, or the text of annotations of functions without a decorator",
    "code that lists all attributes or fields of an object (`vars`, `asdict`, `repr`, pickling)",
)


class _Parted:
    """A rule's findings, found once and parted: thousands of goals ask for a few each."""

    def __init__(self, whole: Check, context: StageContext, key: Callable[[Finding], str]) -> None:
        self._whole = whole
        self._parts: dict[str, list[Finding]] = {}
        for found in whole.check(context):
            self._parts.setdefault(key(found), []).append(found)

    def __iter__(self) -> Iterator[str]:
        """What there are findings of, in their order."""
        return iter(self._parts)

    def of(self, key: str) -> _Part:
        return _Part(self._whole, self._parts.get(key, []))


class _Part:
    """A rule, narrowed to some of its findings."""

    def __init__(self, whole: Check, found: Sequence[Finding]) -> None:
        self.__name__ = whole.__name__
        self.RULE = whole.RULE
        self.found = found

    def check(self, _: StageContext) -> Sequence[Finding]:
        """The findings that are meant."""
        return self.found


def run(context: StageContext) -> StageResult:
    """Settle every isolation obligation of the change. Nothing of the judged repository is imported or run."""
    analysis = analyse(context)
    if context.store is not None:
        recall(analysis.base, context.store)
        recall(analysis.head, context.store)
    context.progress(
        f"isolation: {len(analysis.head.paths):,} Python files, {len(analysis.shared)} shared files changed"
    )
    whole = _only_what_applies(settle(context, _goals(analysis)), analysis)
    whole = replace(whole, evidence=tuple(_with_importers(e, analysis) for e in whole.evidence))
    parts = [_off_path(context, analysis), _discovery(context), whole, run_tests(context, analysis)]
    if context.store is not None:
        keep(analysis.base, context.store)
        keep(analysis.head, context.store)
    return StageResult(
        tuple(o for p in parts for o in p.obligations),
        tuple(e for p in parts for e in p.evidence),
        tuple(f for p in parts for f in p.findings),
    )


_RADIUS_GOAL = "isolation/blast-radius"
_SCOPE_GOAL = "isolation/declared-scope"
_SHIPPED_GOAL = "isolation/shipped-kernels"
_SWITCH_GOAL = "isolation/switch"
_TESTS_GOAL = "isolation/tests"


def _only_what_applies(result: StageResult, analysis: Analysis) -> StageResult:
    """What had nothing to look at proves nothing: it does not apply, or is unproven and nobody asked for it."""
    shipped, touched = analysis.shipped, ", ".join(old for old, _ in analysis.pairs)
    absent, unasked = Status.NOT_APPLICABLE, Status.NOT_ASKED
    nothing = {
        _SWITCH_GOAL: (absent, not analysis.uses, "nothing reads the switch, and nothing reaches the isolated package"),
        _SCOPE_GOAL: (
            unasked if analysis.own else absent,
            not analysis.guards,
            "the code refuses nothing by itself: the scope rests on whoever turns the switch on",
        ),
        _SHIPPED_GOAL: (
            absent,
            not (shipped.files or shipped.same_sources),
            "the base holds no kernels outside the isolated paths, neither compiled nor as sources",
        ),
        _TESTS_GOAL: (
            unasked if touched else absent,
            not analysis.coverage,
            f"no test of the base imports {touched or 'a touched shared file'}: none can say whether it still works",
        ),
    }
    settled = []
    for obligation in result.obligations:
        status, lacking, reason = nothing.get(obligation.id, (obligation.status, False, ""))
        aside = lacking and obligation.status is Status.PROVEN
        settled.append(replace(obligation, status=status, reason=reason) if aside else obligation)
    return replace(result, obligations=tuple(settled))


# With the switch off --------------------------------------------------------------------------------------------


def _off_path(context: StageContext, analysis: Analysis) -> StageResult:
    """An obligation a changed shared file."""
    proofs = {p.path: p for p in analysis.proofs}
    pairs = [new for _, new in analysis.pairs]
    other = (f.path for f in analysis.other)
    files = sorted({*pairs, *analysis.deleted, *analysis.added, *other, *_unparsed(analysis)})
    checks = [_Parted(check, context, lambda found: found.where.path) for check in OFF_PATH] if files else []
    goals = [
        Goal(
            f"isolation/off-path/{path}",
            f"With the switch off, {path} does what it did before.",
            [check.of(path) for check in checks],
            lambda _, path=path: _figures(proofs.get(path)),  # type: ignore[misc]  # one goal, one path
            not_covered=_NOT_SHOWN,
            denial=f"With the switch off, {path} no longer does what it did before.",
        )
        for path in files
    ]
    if not goals:
        return _nothing("isolation/off-path", "With the switch off, shared code does what it did before.",
                        "the change touches no shared code")  # fmt: skip
    result = settle(context, goals)
    evidence = tuple(_with_facts(e, proofs.get(e.id.removeprefix("isolation/off-path/"))) for e in result.evidence)
    return replace(result, evidence=evidence)


def _unparsed(analysis: Analysis) -> tuple[str, ...]:
    """Own files of which what they do when they are loaded, or who loads them, is not known."""
    rules = (not_evaluated.walked, not_evaluated.shadowing, not_evaluated.expected, not_evaluated.built)
    found = [f for rule in rules for f in rule(analysis)]
    return (*(p for p in analysis.own if analysis.head.parse(p).module is None), *(f.where.path for f in found))


def _figures(proof: FileProof | None) -> Mapping[str, int]:
    if proof is None:
        return {"ways of being off": 0}
    kinds = Counter(f"harmless: {item.kind.value.replace('-', ' ')}" for item in proof.residue)
    decided = [s for s in proof.differences if not s.difference.undecided]
    return {"ways of being off": len(proof.ways), "differences": len(decided), **dict(sorted(kinds.items()))}


def _with_facts(evidence: Evidence, proof: FileProof | None) -> Evidence:
    """The facts that the proof rests on, as assumptions that a person can check."""
    facts = tuple(f"with the switch off {fact.text}: {fact.rests_on}" for fact in proof.facts) if proof else ()
    return replace(evidence, kind="off-path-equivalence", assumptions=facts)


def _nothing(name: str, statement: str, reason: str) -> StageResult:
    obligation = Obligation(name, statement, Status.NOT_APPLICABLE, reason, strength=Strength.SOURCE)
    return StageResult((obligation,))


# Discovery ------------------------------------------------------------------------------------------------------


def _discovery(context: StageContext) -> StageResult:
    """An obligation for each thing that may be found by name; none when there is nothing."""
    parts = _Parted(DISCOVERY, context, lambda found: found.id)
    goals = []
    for one in parts:
        part = parts.of(one)
        where = part.found[-1].where
        goals.append(
            Goal(
                f"isolation/discovery/{one.rsplit(':', 1)[-1]}",
                f"With the switch off, nothing picks up what {where.path} adds at line {where.line}.",
                [part],
                lambda _: {"lookups by name": 1},
                not_covered=("which run-time types reach the lookup",),
                denial=f"With the switch off, something picks up what {where.path} adds at line {where.line}.",
            )
        )
    return settle(context, goals)


# The package as a whole -----------------------------------------------------------------------------------------


def _goals(analysis: Analysis) -> Sequence[Goal]:
    def blocked(context: StageContext) -> str:
        return "" if context.manifest else "no readable manifest says which paths are the change's own"

    def switchless(context: StageContext) -> str:
        return blocked(context) or ("" if analysis.switch else "the manifest names no switch")

    return (
        Goal(
            _RADIUS_GOAL,
            "Nothing outside loads the isolated package unless the switch is on, and no import cycle runs through it.",
            RADIUS,
            lambda _: _radius(analysis),
            blocked,
            ("imports by a computed name",),
            "Something outside loads the isolated package while the switch is off, or an import cycle runs through it.",
        ),
        Goal(
            "isolation/entry-points",
            "Code outside reaches the isolated package through the declared entry points only.",
            ENTRIES,
            lambda _: {"imports from outside": len(analysis.radius.inward)},
            blocked,
            denial="Code outside reaches the isolated package by another way than the declared entry points.",
        ),
        Goal(
            "isolation/no-outside-effects",
            "Loading and running the isolated package changes nothing outside itself.",
            EFFECTS,
            lambda _: {
                "isolated modules": len(analysis.own),
                "modules it imports": len(analysis.radius.outward),
                "private names it uses": len(analysis.radius.private),
            },
            blocked,
            (
                "stores through objects that it is handed, other than to methods that the tree defines",
                "files that it writes, and code that it makes as text and runs (`exec`)",
            ),
            "Loading or running the isolated package changes something outside itself.",
        ),
        Goal(
            _SWITCH_GOAL,
            "The declared switch is off by default, for everybody, and is what the code reads.",
            SWITCH,
            lambda _: {"uses of the switch": len(analysis.uses)},
            switchless,
            denial="The declared switch is not off by default for everybody, or is not what the code reads.",
        ),
        Goal(
            "isolation/dispatch",
            "The choice of the path reads only host state that all ranks share.",
            STEP,
            lambda _: {"conditions and functions": len(analysis.choices)},
            blocked,
            denial="The choice of the path reads state that ranks may not share.",
        ),
        Goal(
            "isolation/additions",
            "Nothing that the change adds is installed, built or loaded for everybody.",
            ADDED,
            lambda _: {
                "additions": len(analysis.additions),
                **dict(sorted(Counter(f"of kind {a.kind}" for a in analysis.additions).items())),
            },
            not_covered=("operators and variables whose names are computed",),
            denial="Something that the change adds is installed, built or loaded for everybody.",
        ),
        Goal(
            _SHIPPED_GOAL,
            "Every compiled kernel that the base ships is the same at the head.",
            SHIPPED,
            lambda _: {
                "unchanged": analysis.shipped.unchanged,
                "changed": len(analysis.shipped.changed),
                "new": len(analysis.shipped.new),
                "gone": len(analysis.shipped.gone),
                "moved to another file": len(analysis.shipped.moved),
                "sources that nothing touches": analysis.shipped.same_sources,
            },
            not_covered=(
                "kernels that are built from source when the project is installed, as a build system says, "
                "other than by the `[[builds]]` tables of manifests",
            ),
            denial="A compiled kernel that the base ships is changed or gone at the head.",
        ),
        Goal(
            _TESTS_GOAL,
            "The base's tests of the touched shared files are at the head with the same assertions.",
            TESTS,
            lambda _: {
                "test files": len(analysis.coverage),
                "assertions": sum(c.assertions for c in analysis.coverage),
            },
            denial="A test of a touched shared file is gone, or asserts less than at the base.",
        ),
        Goal(
            _SCOPE_GOAL,
            "No check in the code admits what the manifest does not name.",
            SCOPE,
            lambda _: {"isolated modules": len(analysis.own), "checks": len(analysis.guards)},
            blocked,
            ("refusals that are spelled in ways this program does not read",),
            "A check in the code admits what the manifest does not name.",
        ),
    )  # fmt: skip


_MOST_IMPORTERS = 200
_WHEN = {When.EAGER: "import", When.LAZY: "call", When.TYPE_CHECKING: "types"}


def _with_importers(evidence: Evidence, analysis: Analysis) -> Evidence:
    """Who imports something isolated, as rows for the summary's picture (`validator.report.story`)."""
    if evidence.id != _RADIUS_GOAL:
        return evidence
    rows = [
        {
            "path": found.path,
            "line": found.line,
            "when": _WHEN[found.when],
            "target": f"{found.module}:{found.name}" if found.name else found.module,
            "behind": " and ".join(found.guards),
        }
        for found in sorted(analysis.radius.inward, key=lambda i: (i.path, i.line, i.module, i.name))
    ]
    return replace(evidence, details={**evidence.details, "importers": rows[:_MOST_IMPORTERS]})


def _radius(analysis: Analysis) -> Mapping[str, int]:
    radius = analysis.radius
    return {
        "Python files": radius.files,
        "isolated": len(radius.isolated),
        "imports from outside": len(radius.inward),
        "files that reach it at import time": len(radius.reach.at_import),
        "files that reach it at call time": len(radius.reach.at_call),
    }
