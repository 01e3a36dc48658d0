"""The corpus: cases that failed once, stored as one line of JSON a file, tried before all others ever after."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from validator.differential.cases import (
    Case,
    case_text,
    layouts_of,
    load_case,
    nameable,
    variants_of,
)
from validator.differential.errors import DifferentialError
from validator.differential.padding import has_padding
from validator.differential.pinned import allowed
from validator.differential.shapes import Space
from validator.errors import Problem
from validator.manifest.contract import KernelContract

__all__ = ["fits", "parse_cases", "split", "store_case", "stored_cases"]


def parse_cases(files: Mapping[str, bytes]) -> tuple[Case, ...]:
    """Stored cases by file name. Raises `DifferentialError` with every file that holds none."""
    cases, problems = [], []
    for name, data in sorted(files.items()):
        try:
            cases.append(load_case(data.decode("utf-8", "replace"), name))
        except DifferentialError as error:
            problems += [p if isinstance(p, Problem) else Problem(str(p)) for p in error.problems]
    if problems:
        raise DifferentialError(*problems)
    return tuple(cases)


def stored_cases(folder: Path) -> tuple[Case, ...]:
    """Every case of a folder. One that does not exist yet is an empty one. Raises `DifferentialError` for what is none,
    or one that nothing can be added to: not when there is something to add."""
    if not folder.exists():
        return ()
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise DifferentialError(Problem("is no folder that cases can be added to", str(folder), "name another one"))
    return parse_cases({path.name: path.read_bytes() for path in folder.glob("*.json")})


def store_case(folder: Path, case: Case, instead_of: Case | None = None) -> None:
    """Add a case to a folder, then drop the one it replaces: a file appears whole or not at all, and none is lost."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _file(folder, case)
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_text(case_text(case) + "\n")
        os.replace(part, path)
    if instead_of is not None and instead_of.id != case.id:
        _file(folder, instead_of).unlink(missing_ok=True)


def _file(folder: Path, case: Case) -> Path:
    return folder / f"{case.id}.json"


def fits(contract: KernelContract, case: Case) -> bool:
    """Whether the contract, as it stands now, allows the case."""
    space, dims = Space(contract), dict(case.dims)
    if len(dims) != len(case.dims) or dims.keys() != set(space.names) or not space.holds(dims):
        return False
    named = [name for part in (case.dtypes, case.variants, case.layouts) for name, _ in part]
    if not {*named, *case.aliased} <= contract.values.keys():
        return False
    values = {name: values for name, (_, values) in contract.values.items()}
    return (
        all(dtype in values[name].choices for name, dtype in case.dtypes)
        and all(layout in layouts_of(values[name]) for name, layout in case.layouts)
        and all(getattr(values[name], "alias_of", None) for name in case.aliased)
        and _chooses(contract, case.configuration)
        and all(variant in variants_of(contract, case, name, alone=False) for name, variant in case.variants)
        and (has_padding(contract) or not case.padding)
        and _names(contract, case)
        and (contract.batch is not None or case.plan != "batch-mates")
    )


def _chooses(contract: KernelContract, chosen: tuple[tuple[str, int], ...]) -> bool:
    """Whether the candidate can be told to choose this: nothing, or one of each."""
    options = contract.configurations
    one_of_each = tuple(name for name, _ in chosen) == tuple(options) and all(v in options[n] for n, v in chosen)
    return not chosen or one_of_each


def _names(contract: KernelContract, case: Case) -> bool:
    """Whether the values that the case names itself are within the contract."""
    able = nameable(contract, case)
    few = dict(case.pinned)
    return len(few) == len(case.pinned) and all(n in able and allowed(able[n], values) for n, values in few.items())


def split(contract: KernelContract, cases: Iterable[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """This kernel's cases: those that its contract allows, and those that it does not (any more)."""
    mine = [case for case in cases if case.kernel == contract.match]
    allowed = tuple(case for case in mine if fits(contract, case))
    return allowed, tuple(case for case in mine if case not in allowed)
