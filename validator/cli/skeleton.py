"""The files `validator init` starts a project with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path

from validator.errors import Problem, ValidatorError
from validator.resources import resource

__all__ = ["InitError", "starting_files", "write_new"]

POLICY = "policies/fast-track.toml"

MANIFEST = """\
schema = "validator/manifest/1"

id = "{id}"                        # the file's name without .toml
title = "TODO: what it is, in one line"
owners = ["@TODO"]                 # who answers for it after the merge
created = {created}
expires = {expires}                # the day the path is removed or promoted
summary = "TODO: what it does, for whom, and why it is worth a path of its own"

[isolation]
paths = ["fastpath/{package}/**"]  # files that belong to this change alone
entry_points = []                  # "module:function", where the rest of the program reaches it
shared = []                        # other files it means to touch (the switch, the dispatch)

[switch]                           # with the default value the change must not be reachable
kind = "env"                       # env, flag, config or build
name = "TODO_ENABLE_{switch}"
value = "1"
default = "0"

[scope]                            # whatever is not listed is outside
models = ["TODO"]
architectures = ["sm_100a"]
dtypes = ["bfloat16"]
batch = {{ min = 1, max = 1 }}
parallelism = ["none"]

# [[artifacts]]                    # compiled files; the ordering audit reads them
# path = "fastpath/{package}/kernel.sm_100a.ptx"

# [[kernels]]                      # `validator audit --init-contract FILE` writes these tables for you
# match = "my_kernel*"             # glob over the mangled or the demangled name
# launch = {{ pdl = true }}
# [[kernels.args]]                 # one per kernel parameter, in order; `validator explain roles`
# name = "x"
# role = "activation"
"""


class InitError(ValidatorError):
    """The files cannot be written there."""


def starting_files(id_: str, today: date) -> dict[str, str]:
    """Path → content of the policy that ships and a manifest to edit. Raises `InitError` on a bad id."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,79}", id_):
        raise InitError(
            Problem(f"{id_!r} is not an id", fix="use up to 80 lower-case letters, digits, '.', '_' and '-'")
        )
    manifest = MANIFEST.format(
        id=id_,
        created=today.isoformat(),
        expires=(today + timedelta(days=90)).isoformat(),
        switch=re.sub(r"[^A-Z0-9]", "_", id_.upper()),
        package=re.sub(r"[^a-z0-9]", "_", id_),  # a name that Python can import
    )
    return {POLICY: resource(POLICY).read_text("utf-8"), f"rfcs/{id_}.toml": manifest}


def write_new(root: Path, files: Mapping[str, str]) -> Iterator[tuple[Path, bool]]:
    """Write what is not there yet; yields each path and whether it was written."""
    if not root.is_dir():
        raise InitError(Problem("no such folder", str(root), "name an existing one with --repo"))
    for name, text in files.items():
        path = root / name
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True)
        except OSError as error:
            raise InitError(Problem(f"the folder cannot be made ({error.strerror})", str(path.parent))) from None
        try:
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
        except FileExistsError:
            yield path, False
        except OSError as error:
            raise InitError(Problem(f"cannot be written ({error.strerror})", str(path))) from None
        else:
            yield path, True
