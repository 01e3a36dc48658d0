"""`validator diff` and `validator replay`: candidates against their references, outside of a whole check."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from validator.change.git import Repository
    from validator.differential.cases import Case
    from validator.differential.processes import Trees
    from validator.differential.results import CaseResult
    from validator.manifest.contract import KernelContract
    from validator.scale.cell import Work

__all__ = ["diff", "replay"]

_MANIFEST = click.option("--manifest", metavar="FILE", help="Contracts: a manifest or its kernel part.")
_TREE = click.option("--tree", default=".", show_default=True, metavar="DIR", help="Folder with the candidates.")
_BASE = click.option(
    "--base", metavar="REF-or-DIR", help="Where references come from. [default: the tree itself, which proves less]"
)
_DEVICE = click.option(
    "--device",
    type=click.Choice(("cpu", "ptx", "cuda")),
    default="cpu",
    show_default=True,
    help="Run a CPU callable, the compiled PTX on a CPU, or on a GPU.",
)


@click.command()
@click.argument("specs", nargs=-1, metavar="[FILE[:GLOB]]...")
@_MANIFEST
@_TREE
@_BASE
@_DEVICE
@click.option("--kernel", "glob", default="*", metavar="GLOB", help="Only kernels of this name.")
@click.option("--cases", "count", type=click.IntRange(0, 100_000), default=100, show_default=True, help="Random ones.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Root of every random choice. [default: random]")
@click.option("--corpus", metavar="DIR", help="Stored cases, tried first; what fails is added to it.")
@click.option("--journal", metavar="DIR", help="Keep every finished case there, and take up an earlier run's.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Cases at a time. [default: processors]")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def diff(
    specs: tuple[str, ...],
    manifest: str | None,
    tree: str,
    base: str | None,
    device: str,
    glob: str,
    count: int,
    seed: int | None,
    corpus: str | None,
    journal: str | None,
    format_: str,
    jobs: int | None,
    quiet: bool,
) -> int:
    """Run every candidate of a manifest against its reference.

    Several manifests may be named, each with a glob for the kernels of it that are meant.

    Exit codes: 0 pass, 1 fail or unproven, 2 could not run, 130 interrupted.
    """
    import json

    from validator.cli.output import Progress, emit
    from validator.cli.seeds import chosen_seed
    from validator.differential.corpus import store_case, stored_cases
    from validator.differential.device import Device
    from validator.differential.document import diff_document, verdict_of
    from validator.differential.found import Noted
    from validator.differential.session import run_contracts
    from validator.differential.text import run_text

    contracts = _asked([*([manifest] if manifest else []), *specs], glob)
    first = stored_cases(Path(corpus)) if corpus else ()
    seed, kept = chosen_seed(seed, journal)
    progress = Progress(quiet=quiet)

    places = [spec for spec in (manifest, *specs) if spec]
    where = _options(places[0] if len(places) == 1 else "FILE", tree, base, device)
    found: dict[str, Noted] = {}

    def keep(failed: CaseResult, simpler: CaseResult | None) -> None:
        found[failed.case.id] = Noted(failed, simpler)
        if corpus and failed.case not in first:
            store_case(Path(corpus), (simpler or failed).case, failed.case)

    try:
        with _trees(tree, base) as trees, _working(jobs) as work:
            ran = run_contracts(
                contracts,
                trees,
                seed,
                count,
                first,
                progress,
                trusted=base is not None,
                keep=keep,
                device=Device(device),
                journal=kept,
                work=work,
                where=where,
            )
    except KeyboardInterrupt as stop:
        for noted in found.values():
            stop.add_note(noted.words(where))
        raise
    finally:
        progress.close()
    if format_ == "json":
        emit(json.dumps(diff_document(seed, ran), indent=2) + "\n")
    else:
        emit(run_text(ran, verdict_of([stage for _, _, stage in ran]).value, where))
    return 0 if verdict_of([stage for _, _, stage in ran]).value == "pass" else 1


@click.command()
@click.argument("case", metavar="CASE")
@click.option(
    "--manifest", metavar="FILE", help="Contracts. [default: what lies beside a case of a bundle, trees included]"
)
@_TREE
@_BASE
@_DEVICE
def replay(case: str, manifest: str | None, tree: str, base: str | None, device: str) -> int:
    """Run one case again. CASE is a stored case: a file, or its one line of JSON.

    A case of a bundle (`counterexamples/ID.json`) needs nothing else: what it runs lies beside it.

    Exit codes: 0 the candidate is right, 1 it is wrong or nothing is shown, 2 could not run, 130 interrupted.
    """
    from validator.cli.output import emit
    from validator.differential.device import Device
    from validator.differential.session import replay_case
    from validator.differential.text import replay_text

    stored = _case(case)
    if manifest is None:
        manifest, tree, base = _beside(case)
    matching = [c for c in _contracts(manifest, "*") if c.match == stored.kernel]
    if not matching:
        raise click.UsageError(f"{manifest}: has no kernel {stored.kernel!r}, which the case is for")
    with _trees(tree, base) as trees:
        result = replay_case(matching[0], trees, stored, Device(device))
    emit(replay_text(result))
    return 0 if result.status == "passed" else 1


def _beside(case: str) -> tuple[str, str, str]:
    """Manifest and trees of a bundle that a case lies in."""
    folder = Path(case).parent
    if not case.endswith(".json") or not (folder / "manifest.toml").is_file():
        raise click.UsageError("give --manifest FILE: no manifest lies beside the case")
    return str(folder / "manifest.toml"), str(folder / "head"), str(folder / "base")


def _case(argument: str) -> Case:
    from validator.differential.cases import load_case

    if argument.lstrip().startswith("{"):
        return load_case(argument, "CASE")
    return load_case(_read(argument).decode("utf-8", "replace"), argument)


def _options(manifest: str, tree: str, base: str | None, device: str) -> str:
    """The options of `replay` that mean what `diff` was given."""
    import shlex

    path = manifest if Path(manifest).exists() else manifest.rpartition(":")[0] or manifest
    words = ["--manifest", path, *(["--tree", tree] if tree != "." else []), *(["--base", base] if base else [])]
    return shlex.join([*words, *(["--device", device] if device != "cpu" else [])])


def _asked(specs: list[str], glob: str) -> list[KernelContract]:
    """Kernels of all these manifests. A spec is a file, or a file and a glob."""
    import fnmatch

    if not specs:
        raise click.UsageError("name a manifest: --manifest FILE, or FILE:GLOB for some of its kernels")
    found: dict[str, KernelContract] = {}
    for spec in specs:
        path, colon, own = spec.rpartition(":")
        if not colon or Path(spec).exists():
            path, own = spec, "*"
        for contract in _contracts(path, own):
            if found.setdefault(contract.match, contract) != contract:
                raise click.UsageError(f"{path}: kernel {contract.match!r} is described in another manifest too")
    chosen = [c for c in found.values() if fnmatch.fnmatchcase(c.match, glob)]
    if not chosen:
        raise click.UsageError(f"{', '.join(specs)}: no kernel of the name {glob!r}; there are {', '.join(found)}")
    return chosen


def _contracts(path: str, glob: str) -> list[KernelContract]:
    import fnmatch

    from validator.manifest.load import load_contract

    contracts, _ = load_contract(_read(path), path)
    chosen = [c for c in contracts if fnmatch.fnmatchcase(c.match, glob)]
    if not contracts:
        raise click.UsageError(f"{path}: describes no kernel: it has no [[kernels]] table")
    if not chosen:
        known = ", ".join(c.match for c in contracts)
        raise click.UsageError(f"{path}: no kernel of the name {glob!r}; there are {known}")
    return chosen


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None


@contextmanager
def _working(jobs: int | None) -> Iterator[Work]:
    """Processes of this machine; nothing that they do is kept for another run."""
    from validator.scale.engine import Engine
    from validator.scale.local import Local

    class Here(Engine):
        def keep(self, path: Path) -> str:
            self.executor.place(str(path), path)
            return str(path)

    with Local(jobs or 0) as processes:
        yield Here(processes)


def _repository(head: Path, tree: str, base: str) -> Repository:
    """That of the candidates' folder, which a revision is looked up in."""
    from validator.change.git import Repository
    from validator.errors import ValidatorError

    try:
        return Repository(head)
    except ValidatorError:
        told = f"no such folder, and no revision either: {tree} lies in no git repository"
        raise click.UsageError(f"--base {base}: {told}") from None


@contextmanager
def _trees(tree: str, base: str | None) -> Iterator[Trees]:
    """The two folders callables are imported from; a revision is written out of git objects first."""
    import tempfile

    from validator.differential.processes import Trees

    head = Path(tree).absolute()
    if not head.is_dir():
        raise click.UsageError(f"--tree {tree}: no such folder")
    if base is None or Path(base).is_dir():
        yield Trees(head, Path(base).absolute() if base else head)
        return
    from validator.run.tree import write_tree

    with tempfile.TemporaryDirectory() as folder:
        repository = _repository(head, tree, base)
        write_tree(repository.tree(repository.resolve(base)), Path(folder))
        yield Trees(head, Path(folder))
