"""What files hold, kept by the id of their content: a library is opened once, whatever changes beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from validator.isolation.kernels.files import contents_of
from validator.isolation.kernels.model import Contents, Kernel
from validator.isolation.kernels.shipped import Reader
from validator.own_source import own_source
from validator.stage import Store

__all__ = ["reader"]


def reader(store: Store | None) -> Reader:
    """Reads files, and keeps what it read where there is a place to. What could not be opened is not kept."""

    def read(path: str, content: str, load: Callable[[], bytes]) -> Contents:
        if store is None:
            return contents_of(path, load())
        key = f"isolation/kernels/{own_source()}/{content}/{path.rsplit('.', 1)[-1]}"
        found = _decoded(store.get(key))
        if found is None:
            found = contents_of(path, load())
            if not found.unread:
                store.put(key, json.dumps([list(map(asdict, found.kernels)), found.host and dict(found.host)]).encode())
        return found

    return read


def _decoded(data: bytes | None) -> Contents | None:
    """None where there is nothing, or nothing that reads."""
    try:
        kernels, host = json.loads(data or b"")
        return Contents(tuple(Kernel(**fields) for fields in kernels), host=None if host is None else dict(host))
    except (ValueError, TypeError):
        return None
