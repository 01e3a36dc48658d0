"""Everything the isolation proof knows about a change, worked out once and read by every rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from validator.change.model import ChangeStatus, FileChange, MissingFile
from validator.globs import matches
from validator.isolation.additions import Addition, additions
from validator.isolation.awaited import Awaited, awaited
from validator.isolation.blast.imports import imports_of
from validator.isolation.blast.radius import Radius, graph_of, measure, target_path
from validator.isolation.dispatch import Choice, choices
from validator.isolation.existing_tests import Coverage, coverage
from validator.isolation.globbed import Globbed, globbed
from validator.isolation.kernels.files import is_compiled
from validator.isolation.kernels.kept import reader
from validator.isolation.kernels.shipped import Shipped, compare_rebuilt, compare_shipped, merged
from validator.isolation.kernels.sources import undeclared
from validator.isolation.metadata import is_unnoticed
from validator.isolation.offpath.equivalence import FileProof, prove
from validator.isolation.offpath.names import Names
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.paths import is_own, shared_files
from validator.isolation.scope_guards import Guard, read_guards
from validator.isolation.source import Sources
from validator.isolation.switch_use import SwitchUse, switch_uses
from validator.isolation.syntax import nodes
from validator.stage import StageContext

__all__ = ["Analysis", "analyse"]

_INERT = (".png", ".svg", ".jpg", ".gif")
_TEXT = (".md", ".rst")
"""Inert at the top and in folders of documentation; elsewhere it may be data that code opens."""
_PROSE = ("license", "notice", "readme", "authors", "changelog", "codeowners", "contributing")
"""Changed shared files of these kinds and names run nowhere."""


@dataclass(frozen=True)
class Analysis:
    """One change, read from its objects. Parts are worked out when a rule first asks."""

    context: StageContext

    @cached_property
    def base(self) -> Sources:
        """Python files of the old side."""
        return Sources(self.context.change.merge_base_tree, self._isolated)

    @cached_property
    def head(self) -> Sources:
        """Python files of the head."""
        return Sources(self.context.change.head_tree, self._isolated, twin=self.base)

    @cached_property
    def names(self) -> Names:
        """What the names of the head's modules mean."""
        return Names(self.head)

    @cached_property
    def _isolated(self) -> Callable[[str], bool]:
        """Asked of every path of both trees by several rules: each is matched against the globs once."""
        return cache(lambda path: is_own(self.context, path))

    @cached_property
    def switch(self) -> SwitchSpec | None:
        """The switch, None when the manifest declares none."""
        manifest = self.context.manifest
        if manifest is None or manifest.switch is None:
            return None
        declared = manifest.switch
        return SwitchSpec.parse(declared.kind.value, declared.name, declared.value, declared.default)

    def is_test(self, path: str) -> bool:
        """Tests run in no product: they may import what they test."""
        return matches(path, self.context.policy.trusted.tests)

    @cached_property
    def own(self) -> frozenset[str]:
        """Isolated Python files that are no tests."""
        return frozenset(p for p in self.head.paths if self._isolated(p) and not self.is_test(p))

    @cached_property
    def shared(self) -> tuple[FileChange, ...]:
        """Changed files that belong to everybody, without tests and without files that run nowhere."""
        return tuple(f for f in shared_files(self.context) if not self.is_test(f.path) and not _runs_nowhere(f.path))

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(path at base, path at head) of changed shared Python files that both sides have."""
        return tuple(
            (f.old_path or f.path, f.path)
            for f in self.shared
            if f.path.endswith(".py")
            and f.status is not ChangeStatus.DELETED
            and (f.old_path or f.path) in self.base
            and f.path in self.head
        )

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Shared Python files that only the head has."""
        known = {h for _, h in self.pairs}
        return tuple(f.path for f in self.shared if f.path in self.head and f.path not in known)

    @cached_property
    def behind_the_switch(self) -> frozenset[str]:
        """Of those, the ones that nothing loads with the switch off: only own files, tests, each other, and lines of
        changed files that do not run then name them."""
        reached = {p.path: p.reached for p in self.proofs if not p.problem}
        left = {p for p in self.added if p.rpartition("/")[2] != "__init__.py" and not self._named_at_base(p)}
        graph = graph_of(self.head)
        importers = {p: [i for edges in (graph.eager, graph.lazy) for i, to in edges.items() if p in to] for p in left}

        def loads(importer: str, path: str) -> bool:
            if importer in left or importer in self.own or self.is_test(importer):
                return False
            lines = {i.line for i in imports_of(self.head, importer) if target_path(self.head, i) == path}
            return importer not in reached or bool(lines & reached[importer]) or not lines

        while found := {p for p in left if not importers[p] or any(loads(i, p) for i in importers[p])}:
            left -= found
        return frozenset(left)

    @cached_property
    def awaited(self) -> tuple[Awaited, ...]:
        """New modules, shared or isolated, that the base already asks for."""
        new = [p for p in (*self.own, *self.added) if p not in self.base]
        return tuple(awaited(self.base, self.head, new, self.is_test))

    @cached_property
    def globbed(self) -> tuple[Globbed, ...]:
        """New native files, isolated ones, that a build of the base takes because they lie where it looks."""
        files = (f for f in self.context.change.files if f.path and f.status is not ChangeStatus.DELETED)
        return tuple(globbed(self.base, [f.path for f in files if self._isolated(f.path)]))

    def _named_at_base(self, path: str) -> bool:
        return bool(self.base.mentions(self.head.module_name(path).rpartition(".")[2]))

    @cached_property
    def deleted(self) -> tuple[str, ...]:
        """Shared Python files that the head no longer has, those among them that have another name now."""
        gone = (ChangeStatus.DELETED, ChangeStatus.RENAMED)
        old = (f.old_path or f.path for f in self.shared if f.status in gone)
        return tuple(p for p in old if p.endswith(".py") and p not in self.head and not self._isolated(p))

    @cached_property
    def other(self) -> tuple[FileChange, ...]:
        """Changed shared files that are neither Python nor compiled kernels."""
        found = (f for f in self.shared if not f.path.endswith(".py") and not is_compiled(f.path))
        return tuple(f for f in found if not self._is_unnoticed(f))

    def _is_unnoticed(self, file: FileChange) -> bool:
        """Metadata of the project of which nothing that counts has changed."""
        if file.path.rpartition("/")[2] != "pyproject.toml" or file.status is not ChangeStatus.MODIFIED:
            return False
        trees = (self.context.change.merge_base_tree, self.context.change.head_tree)
        try:
            return is_unnoticed(*(tree.read(file.path) for tree in trees))
        except MissingFile:
            return False

    @cached_property
    def proofs(self) -> tuple[FileProof, ...]:
        """Off-path equivalence, a file each. Empty without a switch."""
        return prove(self.base, self.head, self.switch, self.pairs) if self.switch else ()

    @cached_property
    def radius(self) -> Radius:
        """How the isolated package and the rest are connected at the head."""
        return measure(self.head)

    @cached_property
    def uses(self) -> tuple[SwitchUse, ...]:
        """Where the switch is defined and read."""
        return tuple(switch_uses(self.head, self.switch)) if self.switch else ()

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Code that chooses the path per step."""
        return choices(self.base, self.head, self.pairs, self.own)

    def text(self, path: str, line: int) -> str:
        """One line of the head, as written."""
        return self.head.parse(path).text(line, line).strip()

    def modules(self) -> Sequence[tuple[str, ast.Module]]:
        """The isolated package's parsed files."""
        return [(p, m) for p in sorted(self.own) if (m := self.head.parse(p).module) is not None]

    @cached_property
    def coverage(self) -> tuple[Coverage, ...]:
        """Tests of the base over the touched shared files."""
        touched = [*(old for old, _ in self.pairs), *self.deleted]
        return tuple(coverage(self.base, self.head, touched, self.is_test))

    @cached_property
    def additions(self) -> tuple[Addition, ...]:
        """What the change registers and asks for."""
        changed = [f.path for f in self.context.change.files if f.path and not self.is_test(f.path)]
        return tuple(additions(self.base, self.head, changed, self._reached))

    def _reached(self, path: str, line: int) -> bool:
        """Whether a line of a changed file runs with the switch off, or is compiled into what everybody loads."""
        if self._isolated(path) or self.is_test(path):
            return False
        if not path.endswith(".py"):
            return True
        if self.switch is not None and self.switch.name in self.text(path, line):
            return False  # the switch itself
        proof = next((p for p in self.proofs if p.path == path), None)
        if proof is None:
            return path in self.added and path not in self.behind_the_switch
        return line in proof.reached

    @cached_property
    def shipped(self) -> Shipped:
        """Kernels outside the isolated paths, base against head: the trees' own, those handed in, those built here."""
        change = self.context.change
        pairs = [(change.merge_base_tree, change.head_tree), *([self.context.kernels] if self.context.kernels else [])]
        read = reader(self.context.store)
        sources = [p for p in (e.path for e in change.merge_base_tree.list("")) if not self._isolated(p)]
        rebuilt = self.context.rebuilt
        return merged(
            [
                *(compare_shipped(base, head, self._isolated, read) for base, head in pairs),
                compare_rebuilt(rebuilt),
                undeclared(sources, {r.source for r in rebuilt}, [f.path for f in self.shared]),
            ]
        )

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """Checks of the isolated package on hardware, parallelism, dtypes and batch."""
        return read_guards(self.modules(), self.called)

    @cached_property
    def called(self) -> frozenset[str]:
        """Names that the isolated package or changed shared code calls, and the entry points' own names."""
        paths = [*self.own, *(h for _, h in self.pairs), *self.added]
        trees = [m for p in paths if (m := self.head.parse(p).module) is not None]
        calls = (node.func for module in trees for node in nodes(module, ast.Call))
        names = {str(getattr(f, "attr", "") or getattr(f, "id", "")) for f in calls}
        entries = self.context.manifest.isolation.entry_points if self.context.manifest else ()
        return frozenset(names | {e.rpartition(":")[2].split(".")[-1] for e in entries})


def _runs_nowhere(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    documentation = "/" not in path or re.match(r"docs?/|design/|\.github/", path) is not None
    return (
        name.endswith(_INERT)
        or name == "py.typed"
        or (documentation and name.endswith(_TEXT))
        or name.partition(".")[0] in _PROSE
    )


_LAST: list[tuple[tuple[str, ...], Analysis]] = []


def analyse(context: StageContext) -> Analysis:
    """The analysis of this change; the last one is kept, because every rule asks for it."""
    manifest = context.manifest.model_dump_json() if context.manifest else ""
    key = (
        context.change.merge_base_tree.revision,
        context.change.head_tree.revision,
        manifest,
        context.policy.model_dump_json(),
        *(tree.revision for tree in context.kernels or ()),
    )
    if not _LAST or _LAST[0][0] != key or _LAST[0][1].context.rebuilt != context.rebuilt:
        _LAST[:] = [(key, Analysis(context))]
    return _LAST[0][1]
