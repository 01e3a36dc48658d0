"""Where compiled files come from: what was examined and not built here is a gap, whoever says what it was made from."""

from __future__ import annotations

from collections.abc import Iterable

from validator.verdict.model import Evidence

__all__ = ["not_built_here"]

_NAMED = 3


def not_built_here(evidence: Iterable[Evidence]) -> tuple[str, ...]:
    """One sentence over all compiled files that were examined and that no build of this run made; empty without any.

    A build says what it made in its evidence's `details["outputs"]`, path → digest. Digests decide, not paths.
    """
    told = list(evidence)
    built = {digest for e in told for digest in _outputs(e)}
    examined = {
        path: digest
        for e in told
        if e.kind == "ordering-audit"
        for path, digest in e.inputs.items()
        if digest not in built
    }
    if not examined:
        return ()
    names = sorted({path.rpartition("/")[2] for path in examined})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED])
    return (f"that the compiled code comes from the sources of this change: nothing here built {listed}{more}",)


def _outputs(evidence: Evidence) -> list[str]:
    outputs = evidence.details.get("outputs")
    return [d for d in outputs.values() if isinstance(d, str)] if isinstance(outputs, dict) else []
