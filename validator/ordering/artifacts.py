"""Audits whole files: PTX text, cubins, and what carries them (fat binaries, libraries, wheels).

Each file is read by the front end its content asks for, kernel by kernel, so that a library of thousands of kernels
does not stand in memory at once. Several files are spread over processes. What cannot be read is a `Skipped`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract, Step, match_contract
from validator.ordering.audit import assemble, audit_program
from validator.ordering.result import Audit, KernelAudit, Skipped
from validator.ordering.steps import apply_steps

__all__ = ["Artifact", "Progress", "audit_artifacts"]

Progress = Callable[[str], None]
"""Takes one plain line."""


class Artifact(NamedTuple):
    """One file to audit; either its bytes or where to read them."""

    name: str
    """What reports call it; untrusted text."""
    data: bytes | None = None
    path: Path | None = None


class _Job(NamedTuple):
    artifact: Artifact
    contracts: tuple[KernelContract, ...]
    globs: tuple[str, ...]
    cache: Path | None = None


class _Done(NamedTuple):
    name: str
    kernels: list[KernelAudit]
    skipped: list[Skipped]
    tools: dict[str, str]


def audit_artifacts(
    artifacts: Iterable[Artifact | tuple[str, bytes]],
    contracts: tuple[KernelContract, ...],
    steps: tuple[Step, ...] = (),
    kernel_glob: str | Sequence[str] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> Audit:
    """Audit every kernel of every artifact whose name matches `kernel_glob` (None: all), in up to `jobs` processes.

    `cache`: a folder, the validator's own, with results of files that did not change; None: everything is read again.
    """
    globs = (kernel_glob,) if isinstance(kernel_glob, str) else tuple(kernel_glob or ())
    work = [_Job(Artifact(*item), contracts, globs, cache) for item in artifacts]
    kernels: list[KernelAudit] = []
    skipped: list[Skipped] = []
    tools: dict[str, str] = {}
    for number, done in enumerate(_run(work, jobs), 1):
        kernels += done.kernels
        skipped += done.skipped
        tools |= done.tools
        if progress is not None:
            progress(f"{number} of {len(work)} files, {len(kernels)} kernels: {done.name}")
    judged, findings = apply_steps(kernels, contracts, steps) if steps else (kernels, ())
    return assemble(judged, skipped, findings, tools)


def _run(work: list[_Job], jobs: int) -> Iterator[_Done]:
    if jobs <= 1 or len(work) <= 1:
        yield from map(_audit, work)
        return
    # Fresh interpreters: a fork of a process with threads may hang.
    with ProcessPoolExecutor(min(jobs, len(work)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_audit, work)


def _audit(job: _Job) -> _Done:
    """One file, from the cache if it has not changed."""
    if job.cache is None:
        return _read(job)
    from validator.ordering.sass.cache import ResultCache, Stored
    from validator.ordering.sass.tools import Tools

    results = ResultCache(job.cache, dict(Tools.find().versions))
    try:
        source = job.artifact.path if job.artifact.data is None and job.artifact.path else _bytes(job.artifact)
        key = results.key(source, job.artifact.name, job.contracts, job.globs)
    except OSError:
        return _read(job)
    stored = results.get(key)
    if stored is not None:
        return _Done(job.artifact.name, list(stored.kernels), list(stored.skipped), stored.tools)
    done = _read(job)
    if not done.skipped:
        # What was skipped may be readable next time: a tool that was missing or took too long.
        results.put(key, Stored(tuple(done.kernels), (), done.tools))
    return done


def _read(job: _Job) -> _Done:
    """One file. Whatever goes wrong with it is said, not raised."""
    done = _Done(job.artifact.name, [], [], {})
    try:
        if _is_ptx(job.artifact):
            _ptx(job, _bytes(job.artifact), job.artifact.name, done)
        else:
            _binary(job, done)
    except ValidatorError as error:
        done.skipped.extend(
            Skipped(problem.where or job.artifact.name, problem.what, problem.fix) for problem in error.problems
        )
    except OSError as error:
        done.skipped.append(Skipped(job.artifact.name, f"cannot be read: {error.strerror or error}"))
    if not done.kernels and not done.skipped and not job.globs:
        done.skipped.append(Skipped(job.artifact.name, "holds no kernel", "name a file that holds PTX or machine code"))
    return done


def _bytes(artifact: Artifact) -> bytes:
    if artifact.data is not None:
        return artifact.data
    return artifact.path.read_bytes() if artifact.path is not None else b""


def _start(artifact: Artifact) -> bytes:
    if artifact.data is not None:
        return artifact.data[:4096]
    if artifact.path is None:
        return b""
    with artifact.path.open("rb") as file:
        return file.read(4096)


def _is_ptx(artifact: Artifact) -> bool:
    """By name, else by content: text that has a `.version` directive near its start."""
    if artifact.name.lower().endswith(".ptx"):
        return True
    start = _start(artifact)
    return b"\0" not in start and b".version" in start


def _wanted(job: _Job, *names: str) -> bool:
    return not job.globs or any(fnmatch.fnmatchcase(n, g) for n in names for g in job.globs)


def _ptx(job: _Job, data: bytes, name: str, done: _Done) -> None:
    from validator.ordering.ptx import read_ptx
    from validator.ordering.sass.demangle import demangle

    module = read_ptx(data, name)
    readable = demangle(p.name for p in module.programs)
    for program in module.programs:
        demangled = readable.get(program.name, program.name)
        if _wanted(job, program.name, demangled):
            contract = match_contract(job.contracts, program.name, demangled)
            try:
                done.kernels.append(
                    audit_program(program, contract, artifact=name, demangled=demangled, digest=program.digest)
                )
            except ValidatorError as error:
                done.skipped.extend(Skipped(p.where or name, p.what, p.fix) for p in error.problems)


def _binary(job: _Job, done: _Done) -> None:
    from validator.ordering.sass import read_binary
    from validator.ordering.sass.demangle import demangle
    from validator.ordering.settled import audit_settled

    source = job.artifact.path if job.artifact.data is None and job.artifact.path is not None else _bytes(job.artifact)

    @cache
    def in_full(name: str) -> bool:
        # What a contract says can make more of a kernel than its opcodes do.
        if not job.contracts:
            return False
        return match_contract(job.contracts, name, demangle((name,))[name]) is not None

    module = read_binary(source, job.artifact.name, in_full=in_full)
    for kernel in module:
        if not _wanted(job, kernel.name, kernel.demangled):
            continue
        contract = match_contract(job.contracts, kernel.name, kernel.demangled)
        if kernel.program is None:
            done.kernels.append(audit_settled(kernel, contract))
        else:
            done.kernels.append(
                audit_program(
                    kernel.program,
                    contract,
                    artifact=kernel.artifact,
                    demangled=kernel.demangled,
                    digest=kernel.digest,
                )
            )
    done.skipped.extend(module.skipped)
    for name, text in module.ptx:
        _ptx(job, text, name, done)
    done.tools.update(module.tools.versions)
