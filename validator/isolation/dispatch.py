"""Code that chooses the path per step, and whether it reads anything but host state that all ranks share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.scopes import functions_of
from validator.isolation.source import Sources
from validator.isolation.syntax import nodes, unparse, walk

__all__ = ["Choice", "Hazard", "choices"]


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something a choice must not read."""

    path: str
    line: int
    what: str
    certain: bool
    """False: only a person can tell whether it touches a tensor."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A condition that the change adds to shared code, or a function of the isolated package that one calls."""

    path: str
    line: int
    condition: str
    hazards: tuple[Hazard, ...]


_DEVICE: Final = {
    "item": "copies a value from the device",
    "cpu": "copies a tensor to the host",
    "tolist": "copies a tensor to the host",
    "numpy": "copies a tensor to the host",
    "synchronize": "waits for the device",
    "nonzero": "waits for the device to know its size",
    "unique": "waits for the device to know its size",
    "masked_select": "waits for the device to know its size",
    "argwhere": "waits for the device to know its size",
    "is_nonzero": "copies a value from the device",
    "elapsed_time": "reads the device's clock",
}
_MAYBE: Final = frozenset({"any", "all", "max", "min", "sum", "amax", "amin", "mean"})
_CLOCK: Final = frozenset(
    {"time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "process_time", "now", "utcnow", "today",
     "monotonic_ns", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"}
)  # fmt: skip
_CLOCK_OWNERS: Final = frozenset({"time", "datetime", "datetime.datetime"})
_RANDOM: Final = frozenset(
    {"random", "np.random", "numpy.random", "torch.rand", "torch.randn", "torch.randint", "secrets"}
)
_RANK: Final = frozenset(
    {"rank", "local_rank", "rank_in_group", "tp_rank", "dp_rank", "pp_rank", "ep_rank", "global_rank"}
)
_OF_THE_PROCESS: Final = frozenset({"getpid", "gethostname", "get_ident", "get_native_id", "current_device", "uname"})
_RANK_VARIABLES: Final = re.compile(
    r"(?:LOCAL_|GLOBAL_|NODE_|GROUP_)?RANK|CUDA_VISIBLE_DEVICES|SLURM_(?:PROCID|LOCALID|NODEID)"
    r"|(?:OMPI|PMI|MPI|MV2)\w*RANK|HOSTNAME"
)
_MEMORY: Final = re.compile(r"(?:mem_get_info|(?:max_)?memory_(?:allocated|reserved|cached|stats))$")
_FILES: Final = frozenset({"exists", "isfile", "is_file", "isdir", "is_dir", "getmtime", "stat", "listdir"})
_PROGRESS: Final = re.compile(r"(?:stream|event)\w*(?:\(\))?$", re.I)
"""What is asked how far it is: `torch.cuda.current_stream()`, `self.done_event`."""


def choices(base: Sources, head: Sources, pairs: Iterable[tuple[str, str]], own: frozenset[str]) -> tuple[Choice, ...]:
    """New conditions in changed shared files, then the isolated functions they call by name (and those these call)."""
    found: list[Choice] = []
    called: set[str] = set()
    for old, new in pairs:
        before = {ast.dump(t) for t, _ in _conditions(base.parse(old).module)}
        for test, line in _conditions(head.parse(new).module):
            if ast.dump(test) not in before:
                found.append(Choice(new, line, unparse(test)[:200], tuple(_hazards(new, test, test=True))))
                called |= _called(test)
    functions = [
        (path, name, node) for path in sorted(own) for name, node in functions_of(head.parse(path).module).items()
    ]
    seen: set[tuple[str, str]] = set()
    while called:
        names, called = called, set()
        for path, name, node in functions:
            short = name.split(".")[-1]
            if short in names and (path, name) not in seen and len(seen) < 200:
                seen.add((path, name))
                hazards = tuple(h for s in node.body for h in _hazards(path, s, test=False))
                found.append(Choice(path, node.lineno, f"{name}()", hazards))
                called |= {c for s in node.body for c in _called(s)} - {short}
    return tuple(found)


def _conditions(module: ast.Module | None) -> Iterator[tuple[ast.expr, int]]:
    branches: list[ast.If | ast.IfExp | ast.While] = [*nodes(module, ast.If), *nodes(module, ast.IfExp)]
    branches += nodes(module, ast.While)
    yield from ((branch.test, branch.test.lineno) for branch in branches)


def _called(node: ast.AST) -> set[str]:
    calls = (n for n in walk(node) if isinstance(n, ast.Call))
    names = {name_of(c.func).split(".")[-1] or getattr(c.func, "attr", "") for c in calls}
    return names - {""}


def _hazards(path: str, node: ast.AST, *, test: bool) -> Iterator[Hazard]:
    tests = {id(n) for n in walk(node)} if test else _in_tests(node)
    for part in walk(node):
        if isinstance(part, ast.Attribute) and part.attr in _RANK:
            yield Hazard(path, part.lineno, f"`{unparse(part)[:80]}` differs from rank to rank", True)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _RANK_VARIABLES.fullmatch(part.value):
            yield Hazard(path, part.lineno, f"the variable `{part.value}` differs from rank to rank", True)
        if not isinstance(part, ast.Call):
            continue
        full = name_of(part.func)
        owner, _, last = full.rpartition(".")
        last = last or getattr(part.func, "attr", "")
        shown = unparse(part)[:80]
        if last in _DEVICE and isinstance(part.func, ast.Attribute):
            yield Hazard(path, part.lineno, f"`{shown}` {_DEVICE[last]}", True)
        elif last in _CLOCK and (owner in _CLOCK_OWNERS or (not owner and last != "time")):
            yield Hazard(path, part.lineno, f"`{shown}` reads a clock: ranks disagree", True)
        elif owner in _RANDOM or full in _RANDOM:
            yield Hazard(path, part.lineno, f"`{shown}` is random: ranks disagree", True)
        elif last.endswith("_rank") or last in _OF_THE_PROCESS or _MEMORY.match(last):
            yield Hazard(path, part.lineno, f"`{shown}` differs from rank to rank", True)
        elif last == "query" and _PROGRESS.search(
            unparse(part.func.value) if isinstance(part.func, ast.Attribute) else ""
        ):
            yield Hazard(path, part.lineno, f"`{shown}` asks how far the device is: ranks disagree", True)
        elif last in _FILES and not part.keywords and id(part) in tests:
            yield Hazard(
                path, part.lineno, f"`{shown}` asks the file system, if it is a path's: nodes may disagree", False
            )
        elif full == "torch.equal" or full == "torch.allclose":
            yield Hazard(path, part.lineno, f"`{shown}` waits for the device", True)
        elif last in _MAYBE and isinstance(part.func, ast.Attribute) and not part.args and id(part) in tests:
            yield Hazard(path, part.lineno, f"`{shown}` waits for the device if it is a tensor's", False)


def _in_tests(node: ast.AST) -> set[int]:
    """Parts of conditions, of returned values and of `bool(…)`."""
    roots: list[ast.AST] = []
    for part in walk(node):
        if isinstance(part, ast.If | ast.IfExp | ast.While):
            roots.append(part.test)
        elif isinstance(part, ast.Return) and part.value is not None:
            roots.append(part.value)
        elif isinstance(part, ast.Call) and name_of(part.func) in ("bool", "int", "float"):
            roots += part.args
    return {id(n) for r in roots for n in walk(r)}
