"""Special registers that follow from the shape of the launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.lanes import Array

if TYPE_CHECKING:
    from validator.emulate.machine import Shape

__all__ = ["special_row"]

_AXES = "xyz"
MULTIPROCESSORS = 132


def special_row(name: str, shape: Shape) -> Array:
    """One value a thread: uint64 for 64-bit registers, uint32 otherwise. Raises `KeyError` for a name not known."""
    word, _, axis = name.partition(".")
    total = shape.ctas * shape.per_cta
    thread = np.arange(total) % shape.per_cta
    cta = np.arange(total) // shape.per_cta
    if axis == "w":
        return np.zeros(total, np.uint32)
    at = _AXES.index(axis) if axis else 0
    values = _of_thread(word, at, thread, shape)
    if values is None:
        values = _of_cta(word, at, cta, shape)
    if values is None:
        raise KeyError(name)
    wide = word in ("gridid",)
    return np.broadcast_to(np.asarray(values), (total,)).astype(np.uint64 if wide else np.uint32)


def _of_thread(word: str, at: int, thread: Array, shape: Shape) -> Array | int | None:
    lane = thread % 32
    x, y, _ = shape.block
    if word == "tid":
        return (thread % x, thread // x % y, thread // (x * y))[at]
    if word == "laneid":
        return lane
    if word == "warpid":
        return thread // 32
    if word.startswith("lanemask"):
        one = np.uint64(1) << lane.astype(np.uint64)
        full = np.uint64(0xFFFFFFFF)
        masks = {"eq": one, "lt": one - np.uint64(1), "le": one * np.uint64(2) - np.uint64(1)}
        masks |= {"ge": full & ~masks["lt"], "gt": full & ~masks["le"]}
        return masks[word.removeprefix("lanemask_")]
    return None


def _of_cta(word: str, at: int, cta: Array, shape: Shape) -> Array | int | None:
    grid, cluster = shape.grid, shape.cluster
    coordinates = (cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1]))
    inside = tuple(c % size for c, size in zip(coordinates, cluster, strict=True))
    clusters = tuple(-(-g // c) for g, c in zip(grid, cluster, strict=True))
    simple = {
        "ntid": shape.block[at],
        "nctaid": grid[at],
        "ctaid": coordinates[at],
        "clusterid": coordinates[at] // cluster[at],
        "nclusterid": clusters[at],
        "cluster_ctaid": inside[at],
        "cluster_nctaid": cluster[at],
        "cluster_ctarank": inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2]),
        "cluster_nctarank": cluster[0] * cluster[1] * cluster[2],
        "is_explicit_cluster": int(cluster != (1, 1, 1)),
        "nwarpid": shape.per_cta // 32,
        "smid": cta % MULTIPROCESSORS,
        "nsmid": MULTIPROCESSORS,
        "gridid": 1,
        "dynamic_smem_size": shape.shared,
        "total_smem_size": shape.shared,
        "aggr_smem_size": shape.shared,
    }
    return simple.get(word, 0 if word.startswith("envreg") else None)
