"""Options of `check` about where its cells run, which of them, and for how long; and the engine that they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from validator.text import visible

if TYPE_CHECKING:
    from validator.cli.display import Display
    from validator.pipeline import Options
    from validator.scale.batch import Executor
    from validator.scale.budget import Budget
    from validator.scale.engine import Engine
    from validator.scale.run_folder import Asked, RunFolder
    from validator.scale.store import Store

__all__ = ["Scale", "Working", "asked_of", "executor_of", "opened_work", "scale_options", "seed_taken_up"]

EXECUTORS = ("local", "ray")
Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--shard", metavar="I/N", help="Run this part of the cells only, for a matrix of jobs; needs --part."),
    click.option("--part", metavar="DIR", help="Where a shard's results go; `validator merge` puts them together."),
    click.option("--budget", metavar="TIME", help="As 90s, 20m, 1h30m: what is not reached by then is unproven."),
    click.option("--gpu-budget", metavar="TIME", help="The same, of GPU time."),
    click.option("--executor", type=click.Choice(EXECUTORS), default="local", show_default=True,
                 help="Processes of this machine, or a Ray cluster (RAY_ADDRESS; without it, one on this machine)."),
    click.option("--resume", is_flag=True, help="Take up the run of this --bundle that was interrupted."),
)  # fmt: skip


def scale_options(command: Command) -> Command:
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)


@dataclass(frozen=True, slots=True)
class Scale:
    """The options as they were given."""

    shard: str | None = None
    part: str | None = None
    budget: str | None = None
    gpu_budget: str | None = None
    executor: str = "local"
    resume: bool = False
    bundle: str | None = None
    seed_given: bool = False
    journal: str | None = None

    def check(self) -> None:
        """Refuse what cannot be meant, before any work is done."""
        if (self.shard is None) != (self.part is None):
            raise click.UsageError("--shard I/N and --part DIR belong together")
        if self.shard is not None and self.bundle is not None:
            raise click.UsageError("a shard writes a --part; `validator merge` writes the --bundle")
        if self.journal is not None and (self.shard or self.resume or self.executor != "local"):
            raise click.UsageError("--journal is of one process, case by case; --resume takes up cells of any executor")
        if self.shard is not None and not self.seed_given:
            raise click.UsageError("all shards need the same --seed: give each of them one")
        if self.resume and self.bundle is None and self.part is None:
            raise click.UsageError("--resume takes up the run of a --bundle (or of a --part): name it")


@dataclass(frozen=True, slots=True)
class Working:
    """What runs the cells, and what it leaves behind."""

    engine: Engine
    folder: RunFolder | None


def seed_taken_up(scale: Scale, seed: int | None) -> int | None:
    """The seed asked for, or else that of the run that is taken up."""
    from validator.scale.run_folder import beside, load_asked

    place = Path(scale.part) if scale.part else beside(Path(scale.bundle)) if scale.bundle else None
    if seed is None and scale.resume and place is not None and (place / "run.json").exists():
        return load_asked(place).seed
    return seed


def asked_of(options: Options, shard: str | None = None) -> Asked:
    """The run that these options mean, its commits by their ids."""
    from validator.change.git import Repository
    from validator.scale.run_folder import Asked
    from validator.scale.shard import Shard

    repository = Repository(options.repository)
    base, head = repository.resolve(options.base), repository.resolve(options.head)
    part = Shard.parse(shard) if shard is not None else None
    return Asked(base, head, options.rfc, options.policies, options.seed, part, (options.base, options.head))


@contextmanager
def opened_work(scale: Scale, options: Options, cache: Store | None, display: Display) -> Iterator[Working]:
    """The engine for a check, and its folder where one was asked for."""
    from validator.cli.cache import key_of_trusted_runs
    from validator.scale.board import Board
    from validator.scale.budget import Budget, parse_duration
    from validator.scale.engine import Engine
    from validator.scale.run_folder import RunFolder, beside
    from validator.scale.shard import Shard

    budget = Budget(
        parse_duration(scale.budget, "--budget") if scale.budget is not None else None,
        parse_duration(scale.gpu_budget, "--gpu-budget") if scale.gpu_budget is not None else None,
    )
    shard = Shard.parse(scale.shard) if scale.shard is not None else None
    place = Path(scale.part) if scale.part else beside(Path(scale.bundle)) if scale.bundle else None
    with ExitStack() as stack:
        folder = None
        if place is not None:
            asked, key = asked_of(options, scale.shard), key_of_trusted_runs()
            folder = stack.enter_context(RunFolder(place, asked, resume=scale.resume, key=key))
        executor = stack.enter_context(executor_of(scale.executor, budget))
        shared = stack.enter_context(opened_shared())
        kept = [store for store in (folder.results if folder else None, cache) if store is not None]

        def changed(board: Board) -> None:
            display.show(board)
            if folder is not None:
                folder.note(board)

        board = Board(changed=changed)
        whole = folder.results if folder is not None and shard is not None else None
        known = [*kept, *([shared] if shared is not None else [])]
        try:
            yield Working(Engine(executor, known, kept, whole, shard, budget, board=board), folder)
        except BaseException:
            if folder is not None:
                _left(folder)
            raise
        if folder is not None:
            folder.note(board, now=True)


def _left(folder: RunFolder) -> None:
    """What an interrupted run leaves: nothing, or something to take up."""
    if len(folder.results):
        click.echo("what is done so far is kept: the same command with --resume goes on from there", err=True)
    else:
        folder.remove()


def executor_of(name: str, budget: Budget) -> Executor:
    """`local` does little work in this process, unless it may have to be ended."""
    if name == "ray":
        from validator.scale.cluster import Cluster

        return Cluster()
    from validator.scale.local import Local

    return Local(in_place=not budget.bounded)


@contextmanager
def opened_shared() -> Iterator[Store | None]:
    """Results of trusted runs that somebody shares with this machine."""
    place = os.environ.get("VALIDATOR_SHARED_CACHE")
    if not place:
        yield None
        return
    from validator.cli.cache import key_of_trusted_runs
    from validator.scale.remote import Remote, is_remote
    from validator.scale.store import Store

    key = key_of_trusted_runs()
    if not is_remote(place):
        with Store(Path(place), key=key, shared=True) as store:
            yield store
        return
    with Remote(place, key) as remote:
        if remote.why:
            click.echo(visible(f"{place}: cannot be read, going on without it: {remote.why}"), err=True)
        yield remote.store
