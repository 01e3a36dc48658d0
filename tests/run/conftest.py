"""Changes small enough to be judged whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.repository import Node

__all__ = ["nodes"]


def nodes(texts: dict[str, str]) -> dict[bytes, Node]:
    """A tree of text files."""
    return {path.encode(): Node(text.encode()) for path, text in texts.items()}


@pytest.fixture
def manifest() -> Callable[..., str]:
    """`manifest(more, paths)`: a manifest that is valid today."""
    created = datetime.now(UTC).date() - timedelta(days=1)

    def text(more: str, paths: str) -> str:
        return f"""\
schema = "validator/manifest/1"
id = "kda"
title = "Totals"
owners = ["@ann"]
created = {created}
expires = {created + timedelta(days=60)}
summary = "Totals."
isolation = {{ paths = {paths} }}
switch = {{ kind = "env", name = "FAST", value = "1", default = "0" }}
scope = {{ models = ["m"], architectures = ["sm_100a"], dtypes = ["float32"], batch = {{ min = 1, max = 8 }} }}
{more}"""

    return text
