"""The whole ordering audit over PTX text that the reader accepts: a verdict with reasons, whatever the program."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets import ptx
from tests.fuzz.targets.common import told
from validator.errors import ValidatorError
from validator.ordering.artifacts import audit_artifacts

MODULES = ("validator.ordering.audit", "validator.ordering.rules", "validator.ordering.provenance",
           "validator.ordering.dataflow", "validator.ordering.threads", "validator.ordering.memory",
           "validator.ordering.barriers")  # fmt: skip


def seeds() -> Iterator[bytes]:
    return ptx.seeds()


def one(data: bytes) -> None:
    try:
        audit = audit_artifacts([("fuzz.ptx", data)], ())
    except ValidatorError as error:
        told(error, where=False)
        return
    for finding in audit.findings:
        assert finding.message
        assert finding.id
