"""The bundle: a folder that holds a result and everything it rests on, every file named by its digest.

    bundle.json        what is in the folder: name → sha256, bytes, kind; the bundle's own id
    result.json        the check result, free of times and absolute paths
    environment.json   times, versions, paths: the only file that differs between two runs over the same input
    summary.html, summary.md, summary.txt
    objects/ab/cdef…   inputs, named by their sha256
    counterexamples/   the smallest cases that fail, as `validator replay` takes them; manifest.toml says what
                       they mean, head/ and base/ hold what their callables are loaded from
    excerpts/          the code around each finding, as it was disassembled or read
    logs/              what tools printed

    statement.json     in-toto statement over bundle.json (`validator.verdict.attest`); signed with a key:
                       statement.dsse.json, by an identity: statement.sigstore.json
    reviews/0001.json  what people decided about it (`validator.verdict.review`)

Bundles of version 1 say no kinds and hold neither excerpts nor logs; they are read as what they would be today.

The id is the sha256 over all entries but `environment.json`, so two runs over the same input share it. Statements and
reviews are made from the manifest's digest: they lie beside it and are checked against it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from validator.errors import Problem, ValidatorError
from validator.verdict.follows import does_not_follow

__all__ = [
    "ENVELOPE",
    "ENVIRONMENT",
    "KEYLESS",
    "MANIFEST",
    "RESULT",
    "REVIEWS",
    "SCHEMA",
    "STATEMENT",
    "Bundle",
    "BundleError",
    "NoBundle",
    "check_target",
    "digest",
    "dump",
    "kind_of",
    "load_bundle",
    "load_json",
    "object_name",
    "put",
    "verify_bundle",
    "write_bundle",
]

SCHEMA = "validator/bundle/2"
MANIFEST = "bundle.json"
RESULT = "result.json"
ENVIRONMENT = "environment.json"
STATEMENT = "statement.json"
ENVELOPE = "statement.dsse.json"
KEYLESS = "statement.sigstore.json"
REVIEWS = "reviews"


class BundleError(ValidatorError):
    """The folder cannot be written, or is no bundle."""


class NoBundle(BundleError):
    """There is no bundle in the folder, or one of a version that this program does not know."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle as it lies on disk; nothing in it has been believed yet."""

    folder: Path
    manifest: dict[str, Any]
    """As today's version writes it, whichever version wrote it."""


def digest(data: bytes) -> str:
    """`sha256:…` of content, as evidence names its inputs."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def object_name(data: bytes) -> str:
    """Where content lies inside a bundle."""
    digits = hashlib.sha256(data).hexdigest()
    return f"objects/{digits[:2]}/{digits[2:]}"


def dump(document: Mapping[str, Any]) -> bytes:
    """JSON as it stands in a bundle: indented, ASCII, keys in the order given."""
    return (json.dumps(document, indent=2, ensure_ascii=True) + "\n").encode()


def check_target(target: Path) -> None:
    """Refuse, before any work is done, a folder that cannot become a bundle."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise BundleError(Problem("is not a folder", str(target), "name a folder that does not exist yet"))
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise BundleError(
            Problem(
                "holds other files and no bundle", str(target), "name a new folder, or an earlier bundle to replace"
            )
        )
    parent = target.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not os.access(parent, os.W_OK | os.X_OK) or not parent.is_dir():
        raise BundleError(Problem("cannot be written to", str(parent), "choose another folder for the bundle"))


def write_bundle(
    target: Path,
    files: Mapping[str, bytes],
    verdict: str,
    beside: Callable[[bytes], Mapping[str, bytes]] = lambda _: {},
) -> str:
    """Write all files and their manifest, or nothing: the folder appears by one rename. Returns the bundle's id.

    `beside`: content of the manifest → files that are made from it and that it cannot list.
    """
    check_target(target)
    entries = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "kind": kind_of(name)}
        for name, data in sorted(files.items())
    }
    identity = _identity(entries)
    manifest = {"schema": SCHEMA, "id": identity, "verdict": verdict, "files": entries}
    parent = target.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent))
    except OSError as error:
        raise _unwritable(error, target) from None
    try:
        staging.chmod(0o755)
        listing = dump(manifest)
        for name, data in (*files.items(), (MANIFEST, listing), *beside(listing).items()):
            path = staging / _inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        _swap(staging, target.absolute())
    except OSError as error:
        raise _unwritable(error, target) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return identity


def _unwritable(error: OSError, target: Path) -> BundleError:
    return BundleError(Problem(f"cannot be written ({error.strerror})", str(target), "choose another folder"))


def _identity(entries: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"{e['sha256']} {e['bytes']} {name}\n" for name, e in sorted(entries.items()) if name != ENVIRONMENT]
    return digest("".join(lines).encode())


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\x00" in name:
        raise BundleError(Problem("is not a name inside the bundle", name))
    return path


def _swap(staging: Path, target: Path) -> None:
    if not target.exists():
        staging.rename(target)
        return
    old = staging.with_name(staging.name + ".old")
    target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def kind_of(name: str) -> str:
    """What a file of a bundle is for."""
    if name == RESULT:
        return "result"
    if name == ENVIRONMENT:
        return "environment"
    return _KINDS.get(name.partition("/")[0], "summary")


_KINDS = {"objects": "input", "counterexamples": "counterexample", "excerpts": "excerpt", "logs": "log"}


def _from_1(manifest: dict[str, Any]) -> dict[str, Any]:
    files = manifest["files"]
    known = {n: {**e, "kind": kind_of(n)} if isinstance(e, dict) else e for n, e in files.items()}
    return {**manifest, "schema": "validator/bundle/2", "files": known}


_MIGRATIONS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"validator/bundle/1": _from_1}
"""Schema → what makes the next version of it."""


def load_bundle(folder: Path) -> Bundle:
    """Read the bundle's manifest; raises `BundleError` when it cannot be one, `NoBundle` when there is none."""
    if not (folder / MANIFEST).exists():
        raise NoBundle(Problem("is no bundle", str(folder), "name a folder that `--bundle` wrote"))
    manifest = load_json(folder / MANIFEST)
    known = (SCHEMA, *_MIGRATIONS)
    if manifest.get("schema") not in known:
        newer = re.fullmatch(r"validator/bundle/\d{1,6}", str(manifest.get("schema")))
        problem = Problem(
            f"has no manifest of schema {' or '.join(known)}",
            str(folder / MANIFEST),
            "a newer validator may have written it" if newer else "",
        )
        raise NoBundle(problem) if newer else BundleError(problem)
    if not isinstance(manifest.get("files"), dict):
        raise BundleError(Problem("lists no files", str(folder / MANIFEST)))
    while manifest["schema"] != SCHEMA:
        manifest = _MIGRATIONS[manifest["schema"]](manifest)
    return Bundle(folder, manifest)


def verify_bundle(folder: Path) -> tuple[Problem, ...]:
    """What was touched: files, digests, the id, the verdict against its obligations. Empty: nothing."""
    bundle = load_bundle(folder)
    problems = _verify_files(bundle)
    entries = bundle.manifest["files"]
    try:
        identity = _identity(entries)
    except (TypeError, KeyError, AttributeError):
        return (*problems, Problem("has malformed entries", MANIFEST))
    if identity != bundle.manifest.get("id"):
        problems.append(Problem("the id is not that of the listed files", MANIFEST))
    problems.extend(_verify_verdict(bundle))
    return tuple(problems)


def _verify_files(bundle: Bundle) -> list[Problem]:
    listed = bundle.manifest["files"]
    found = {
        p.relative_to(bundle.folder).as_posix(): p for p in bundle.folder.rglob("*") if p.is_symlink() or not p.is_dir()
    }
    extra = sorted(name for name in set(found) - set(listed) if not _beside(name, found[name]))
    problems = [Problem("is not listed in the bundle's manifest", name) for name in extra]
    for name, entry in sorted(listed.items()):
        path = found.get(name)
        if path is None or path.is_symlink() or not path.is_file():
            problems.append(Problem("is missing", name))
        elif not isinstance(entry, dict) or _digest(path) != entry.get("sha256"):
            problems.append(Problem("was changed since the bundle was written", name))
        elif entry.get("kind") != kind_of(name):
            problems.append(Problem("is said to be of another kind than it is", name))
    return problems


def _beside(name: str, path: Path) -> bool:
    """Whether a file may be there without being listed."""
    review = re.fullmatch(rf"{REVIEWS}/\d{{4}}\.json", name)
    return not path.is_symlink() and (name in (MANIFEST, STATEMENT, ENVELOPE, KEYLESS) or review is not None)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _verify_verdict(bundle: Bundle) -> list[Problem]:
    try:
        result = load_json(bundle.folder / RESULT)
        said = [Problem(text, RESULT) for text in does_not_follow(result)]
        if bundle.manifest["verdict"] != result["verdict"]:
            said.append(Problem("does not state the verdict of the result", MANIFEST))
    except BundleError as error:
        return [Problem(p.what, RESULT) for p in error.problems]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [Problem(f"cannot be read as a result ({type(error).__name__})", RESULT)]
    return said


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no key stands twice: readers do not agree on which of them counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def load_json(path: Path) -> dict[str, Any]:
    """A JSON object of a bundle; raises `BundleError` when it is none."""
    if path.exists() and not path.is_file():
        raise BundleError(Problem("is no regular file", str(path)))
    try:
        value = json.loads(path.read_bytes(), object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(Problem(f"cannot be read ({type(error).__name__})", str(path))) from None
    if not isinstance(value, dict):
        raise BundleError(Problem("is no JSON object", str(path)))
    return value


def put(path: Path, data: bytes) -> None:
    """Write one file beside a bundle's manifest, whole or not at all."""
    try:
        path.parent.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(handle, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise _unwritable(error, path) from None
