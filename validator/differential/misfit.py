"""A candidate or a reference that cannot be called as the contract says: a misunderstanding, no fault of the kernel."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from validator.differential.faults import FaultKind
from validator.differential.results import CaseResult
from validator.differential.runner import Runner
from validator.run.sandbox import Outcome

__all__ = ["lacks_package", "reference_misfit", "takes_others"]

_LARGEST = 1 << 20
"""Bytes of a source that is looked at."""


_LACKS = re.compile(r"ModuleNotFoundError: No module named '([^\W\d]\w*)['.]")


def lacks_package(runner: Runner, error: str) -> str:
    """Why an import says nothing about the candidate: the package is not in its tree, and not here. Empty: it is."""
    found = _LACKS.match(error)
    if found is None:
        return ""
    name, tree = found[1], runner.candidate.tree
    if name in sys.stdlib_module_names or (tree / name).is_dir() or (tree / f"{name}.py").is_file():
        return ""
    return f"{runner.candidate.target} imports {name}, which is not installed here (or not for this interpreter)"


def takes_others(runner: Runner, first: CaseResult) -> str:
    """Why the candidate cannot be called as the contract says: it takes other arguments. Empty where it can."""
    contract, target = runner.contract, runner.candidate.target
    name = re.escape(target.rpartition(":")[2])
    # What is wrapped takes the arguments by another name.
    named = rf"{name}|<lambda>|__call__" if _is_plain(target, runner.candidate.tree) else r"\w+|<lambda>"
    own = rf"TypeError: (\S+\.)?({named})\(\) (takes|missing|got) .*argument"
    said = next((f.message for f in first.faults if f.kind is FaultKind.WORKER and re.search(own, f.message)), "")
    if not said or runner.chosen.compiled:
        return ""
    passed = [*(n for n in contract.values if n not in contract.returns), *contract.configurations]
    return f"{said}; {_passes(passed)}"


def reference_misfit(runner: Runner, first: CaseResult) -> str:
    """Why no case can be judged, whatever its inputs: there is no such reference, or it takes other arguments."""
    stock = runner.stock
    for target in dict.fromkeys(t for t in (stock.baseline, stock.reference) if t is not None):
        _, met, detail = first.unusable.partition(f"{target} gives no result: ")
        outcome, _, error = detail.partition(" ")
        if met and outcome == Outcome.UNLOADABLE.value:
            return f"the reference {target} cannot be imported from the base tree: {error}"
        name = re.escape(target.rpartition(":")[2])
        if met and re.match(rf"TypeError: (\S+\.)?{name}\(\) (takes|missing|got) .*argument", error):
            passed = [n for n in stock.values if n not in stock.returns]
            return f"the reference {target} cannot be called: {error}; {_passes(passed)}"
    return ""


def _passes(names: list[str]) -> str:
    return f"the contract passes {len(names)} arguments: {', '.join(names)}"


def _is_plain(target: str, tree: Path) -> bool:
    """Whether it is a function as its module writes it; also where nothing can be read."""
    module, _, name = target.partition(":")
    stem = tree.joinpath(*module.split("."))
    for path in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
        try:
            if path.is_file() and path.stat().st_size <= _LARGEST:
                body = ast.parse(path.read_bytes()).body
                break
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return True
    else:
        return True
    for node in reversed(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return not node.decorator_list
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return not isinstance(node.value, ast.Call)
    return True
