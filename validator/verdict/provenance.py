"""Compiled files: what was examined and not built here is a gap, and so is what a compiler has yet to make of it."""

from __future__ import annotations

from collections.abc import Iterable

from validator.verdict.model import Evidence

__all__ = ["not_built_here", "not_compiled"]

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


def not_compiled(evidence: Iterable[Evidence]) -> tuple[str, ...]:
    """One sentence over the kernels of which PTX was examined and no machine code for that architecture."""
    seen: dict[str, set[tuple[str, str]]] = {"ptx": set(), "sass": set()}
    for one in evidence:
        kernel, arch = (str(one.figures.get(key, "")) for key in ("kernel", "arch"))
        if one.kind == "ordering-audit" and one.figures.get("isa") in seen:
            seen[str(one.figures["isa"])].add((kernel, arch.rstrip("af")))
    left: dict[str, list[str]] = {}
    for kernel, arch in sorted(seen["ptx"] - seen["sass"]):
        left.setdefault(kernel, []).append(arch)
    if not left:
        return ()
    told = [f"{kernel} on {', '.join(archs)}" for kernel, archs in left.items()]
    more = f" and {len(told) - _NAMED} more kernels" if len(told) > _NAMED else ""
    return (
        f"what the compiler makes of the PTX of {'; '.join(told[:_NAMED])}{more}: no machine code of it was examined",
    )


def _outputs(evidence: Evidence) -> list[str]:
    outputs = evidence.details.get("outputs")
    return [d for d in outputs.values() if isinstance(d, str)] if isinstance(outputs, dict) else []
