"""Parallelism: what `tp8` leaves of a model's sizes on one device.

A scope names ways to spread a model over devices. A kernel that runs under one of them sees a part of the model: an
eighth of its heads under `tp8`, a quarter of its experts under `ep4`. A contract says which dimensions are divided
(`split`) and gives its `production` shapes undivided; `spread` makes of them the shapes that each way brings about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from validator.manifest.contract import KernelContract

__all__ = ["degrees", "left_whole", "spread"]

_WAY = re.compile(r"(?:(?:^|[-_+,x/ ])?(?:tp|ep|pp|dp|cp|sp)\d{1,5})+")
_DEGREE = re.compile(r"(tp|ep|pp|dp|cp|sp)(\d+)")
_BETWEEN_COPIES = frozenset({"pp", "dp"})
"""Divide layers and requests: a kernel's sizes stay as they are unless a contract says otherwise."""


def degrees(way: str) -> dict[str, int] | None:
    """Kind → devices, of `tp8`, `tp4-ep2`, `none`; None: not one that is known."""
    if way == "none":
        return {}
    if not _WAY.fullmatch(way):
        return None
    found = [(kind, int(number)) for kind, number in _DEGREE.findall(way)]
    return dict(found) if len({kind for kind, _ in found}) == len(found) and all(n for _, n in found) else None


def spread(contract: KernelContract, scope: Sequence[str]) -> tuple[KernelContract, tuple[str, ...]]:
    """The contract with the production shapes of every way, and what is wrong with those shapes.

    Args:
        scope: the ways that the manifest declares; the contract's own `parallelism` narrows them.
    """
    ways = tuple(way for way in scope if not contract.parallelism or way in contract.parallelism)
    found: dict[tuple[tuple[str, int], ...], list[str]] = {}
    wrong = [
        f"`parallelism` names {way!r}, which the scope does not" for way in contract.parallelism if way not in ways
    ]
    if not contract.split:
        return contract.model_copy(update={"parallelism": ways}), tuple(wrong)
    for index, shape in enumerate(contract.production):
        for way in ways:
            part = _part(contract.split, shape, degrees(way))
            if part is None:
                continue
            broken = [c.text for c in contract.constraints if not c.holds(part)]
            if broken:
                sizes = ", ".join(f"{name} = {part[name]}" for name in contract.split)
                wrong.append(f"production[{index}] under {way}: {sizes} breaks {', '.join(f'`{b}`' for b in broken)}")
            found.setdefault(tuple(part.items()), []).append(way)
    shapes = {"production": tuple(map(dict, found)), "production_of": tuple(", ".join(w) for w in found.values())}
    return contract.model_copy(update={"parallelism": ways, **shapes}), tuple(wrong)


def _part(
    split: Mapping[str, Sequence[str]], shape: Mapping[str, int], devices: Mapping[str, int] | None
) -> dict[str, int] | None:
    """What one device sees of a shape; None: it cannot be divided so, and does not occur."""
    if devices is None:
        return None
    part = dict(shape)
    for name, kinds in split.items():
        over = math.prod(devices.get(kind, 1) for kind in kinds)
        if shape[name] % over and over % max(1, shape[name]):
            return None
        part[name] = max(shape[name] // over, min(1, shape[name]))  # fewer heads than devices: each has a copy of one
    return part


def left_whole(contract: KernelContract) -> Iterator[str]:
    """What of the parallelism in scope the contract's shapes do not show, each a sentence."""
    kinds = {kind for names in contract.split.values() for kind in names}
    for way in contract.parallelism:
        devices = degrees(way)
        if devices is None:
            yield f"{way}: it is not known what it divides: no shapes were made of it"
            continue
        unsaid = sorted(k for k, n in devices.items() if n > 1 and k not in kinds | _BETWEEN_COPIES)
        if unsaid:
            yield f"{way}: the contract does not say what {', '.join(unsaid)} divides (`split`): shapes are as written"
        elif contract.split and not any(way in of.split(", ") for of in contract.production_of):
            yield f"{way}: no production shape can be divided so: none was run"
