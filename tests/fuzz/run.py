"""`python -m tests.fuzz.run TARGET`: libFuzzer over one target, through atheris; what is found ends it.

    --seconds N   stop after N seconds
    --runs N      stop after N inputs
    --seed N      of libFuzzer; the same inputs again
    --corpus DIR  keep what was found interesting, and start from it; [default: a folder that goes away]
    --lines       replay the corpus afterwards and count the lines of MODULES that were reached

Exit code 0 when nothing was found, else libFuzzer's; the input lies in the working folder as `crash-…`, `timeout-…`,
`oom-…`: mend the reader and put the input into `tests/fuzz/found/TARGET/`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
FOUND = Path(__file__).with_name("found")
WORDS = Path(__file__).with_name("words")
PLANTED = "planted"
"""A target with a hole, to see that the fuzzer finds one."""
MEMORY = 2048
"""MiB of resident memory above which an input is one that exhausts it."""
SLOW = 20
"""Seconds above which an input hangs; instrumented code takes about four times as long."""
LONGEST = 1 << 16
"""Bytes of an input."""


def targets() -> list[str]:
    """Names of all targets."""
    folder = Path(__file__).with_name("targets")
    return sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "common", PLANTED))


def stored(name: str) -> list[Path]:
    """Inputs that broke a target once."""
    folder = FOUND / name
    return sorted(folder.iterdir()) if folder.is_dir() else []


def load(name: str) -> ModuleType:
    """A target, not instrumented."""
    return importlib.import_module(f"tests.fuzz.targets.{name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[*targets(), PLANTED])
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--lines", action="store_true")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(asked.corpus or stack.enter_context(tempfile.TemporaryDirectory(prefix="validator-corpus-")))
        folder.mkdir(parents=True, exist_ok=True)
        status = _fuzz(asked.target, folder, asked)
        if asked.lines:
            print(f"lines: {_lines(asked.target, folder)}", flush=True)
    raise SystemExit(status)


def _fuzz(name: str, corpus: Path, asked: argparse.Namespace) -> int:
    """libFuzzer ends the process it runs in, so that is one of its own. Returns its exit status."""
    child = os.fork()
    if child == 0:
        _run(name, corpus, asked)
        os._exit(70)  # never reached: libFuzzer has exited
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(name: str, corpus: Path, asked: argparse.Namespace) -> None:
    import atheris

    modules = list(_modules(name))
    with atheris.instrument_imports(include=modules):
        for module in modules:
            importlib.import_module(module)
        target = load(name)
    with tempfile.TemporaryDirectory(prefix="validator-seeds-") as scratch:
        seeds, words = Path(scratch, "seeds"), WORDS / f"{name}.dict"
        _planted(target, name, seeds)
        options = [f"-rss_limit_mb={MEMORY}", f"-timeout={SLOW}", f"-max_len={LONGEST}", f"-seed={asked.seed}"]
        options += [f"-runs={asked.runs}", f"-max_total_time={asked.seconds}"]
        options += [f"-dict={words}"] if words.exists() else []
        options += ["-print_final_stats=1", "-len_control=20", "-detect_leaks=0"]
        atheris.Setup([sys.argv[0], *options, str(corpus), str(seeds)], target.one)
        atheris.Fuzz()


def _modules(name: str) -> Iterator[str]:
    """The modules that a target names, without importing the target: that would import them uninstrumented."""
    tree = ast.parse(Path(__file__).with_name("targets").joinpath(f"{name}.py").read_bytes())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES":
            yield from ast.literal_eval(node.value)


def _planted(target: ModuleType, name: str, folder: Path) -> None:
    """Seeds and what broke the target once, one a file."""
    folder.mkdir()
    for number, data in enumerate((*target.seeds(), *(path.read_bytes() for path in stored(name)))):
        (folder / f"{number:04d}").write_bytes(data)


def _lines(name: str, corpus: Path) -> str:
    """How much of the target's modules the corpus reaches."""
    import coverage

    counted = coverage.Coverage(data_file=None, source_pkgs=list(_modules(name)))
    counted.start()
    target = load(name)
    for data in (*target.seeds(), *(path.read_bytes() for path in sorted(corpus.iterdir()))):
        target.one(data)
    counted.stop()
    reached = total = 0
    for path in counted.get_data().measured_files():
        _, lines, _, missing, _ = counted.analysis2(path)
        reached, total = reached + len(lines) - len(missing), total + len(lines)
    return f"{reached} of {total} ({100 * reached / max(total, 1):.0f} %) of {', '.join(_modules(name))}"


if __name__ == "__main__":
    main()
