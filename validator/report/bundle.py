"""Fills a bundle: the rendered result, and the content of everything that evidence names by digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from validator.change.model import MAX_READ, ChangeError, Tree
from validator.differential.sources import base_sources, head_sources
from validator.report.details import counterexamples
from validator.report.html import render_html
from validator.report.json import check_document, to_json
from validator.report.markdown import render_markdown
from validator.report.story import excerpts, logs, marked
from validator.report.text import render_text
from validator.verdict.attest import statement
from validator.verdict.bundle import ENVIRONMENT, RESULT, STATEMENT, digest, dump, object_name, write_bundle
from validator.verdict.model import octets

if TYPE_CHECKING:
    from validator.verdict.result import CheckResult

__all__ = ["bundle_files", "save_bundle"]


def save_bundle(result: CheckResult, target: Path) -> str:
    """Write the bundle of a result and return its id."""
    files = bundle_files(result)
    about = json.loads(files[RESULT])
    return write_bundle(
        target, files, result.verdict.value, lambda manifest: {STATEMENT: dump(statement(manifest, about))}
    )


def bundle_files(result: CheckResult) -> dict[str, bytes]:
    """Name → content of every file but the bundle's own manifest."""
    document = dict(check_document(result))
    environment = document.pop("environment")
    files = {
        RESULT: to_json(document).encode(),
        ENVIRONMENT: to_json(environment).encode(),
        "summary.html": render_html(result).encode(),
        "summary.md": render_markdown(result).encode(),
        "summary.txt": render_text(result).encode(),
    }
    files.update((object_name(data), data) for data in _inputs(result))
    files.update(_counterexamples(result))
    files.update(_excerpts(result))
    files.update(_logs(result))
    return files


def _inputs(result: CheckResult) -> list[bytes]:
    """What was examined, where it still can be read by its path and is what the evidence says it is."""
    wanted = {(path, said) for e in result.evidence for path, said in e.inputs.items()}
    if result.manifest_path is not None and result.manifest_digest is not None:
        wanted.add((result.manifest_path, result.manifest_digest))
    found = []
    for path, said in sorted(wanted):
        for tree in (result.change.head_tree, result.change.base_tree):
            data = _read(tree, path)
            if data is not None and digest(data) == said:
                found.append(data)
                break
    return found


def _counterexamples(result: CheckResult) -> Iterator[tuple[str, bytes]]:
    """Every case that failed, and the manifest that says what it means: what `validator replay` takes."""
    found = [one for e in result.evidence for one in counterexamples(e)]
    for one in found:
        yield f"counterexamples/{one.id}.json", f"{one.case}\n".encode()
    if found and result.manifest_path is not None:
        manifest = _read(result.change.head_tree, result.manifest_path)
        if manifest is not None and digest(manifest) == result.manifest_digest:
            yield "counterexamples/manifest.toml", manifest
            yield from _replayable(result, {one.kernel for one in found})


def _replayable(result: CheckResult, kernels: set[str]) -> Iterator[tuple[str, bytes]]:
    """What those kernels' callables are loaded from, below `head` and `base`: replay needs no repository."""
    contracts = result.manifest.kernels if result.manifest is not None else ()
    for contract in (c for c in contracts if c.match in kernels):
        sides = {"head": head_sources(result.change.head_tree, contract)}
        sides["base"] = base_sources(result.change.base_tree, contract)
        for side, files in sides.items():
            yield from ((f"counterexamples/{side}/{path}", data) for path, data in files.items())


def _excerpts(result: CheckResult) -> Iterator[tuple[str, bytes]]:
    """The code around every finding that brought some."""
    for evidence in result.evidence:
        for one in excerpts(evidence):
            name = one.title or evidence.id
            head = f"{name}, {one.at}" if one.at else name
            yield _file("excerpts", one.finding or f"{evidence.id} {one.title}", f"{head}\n{marked(one)}")


def _logs(result: CheckResult) -> Iterator[tuple[str, bytes]]:
    return (_file("logs", f"{e.id} {one.name}", one.text) for e in result.evidence for one in logs(e))


def _file(folder: str, name: str, text: str) -> tuple[str, bytes]:
    """A file whose name is safe and, by the digest of its content and its name, its own."""
    data = octets(f"{text}\n")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-80:] or "without-a-name"
    own = hashlib.sha256(octets(name) + b"\0" + data).hexdigest()[:12]
    return f"{folder}/{plain}.{own}.txt", data


def _read(tree: Tree, path: str) -> bytes | None:
    try:
        return tree.read(path, MAX_READ) if tree.entry(path) else None
    except ChangeError:
        return None
