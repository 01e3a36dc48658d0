"""Which contract means which kernel. Apart from the contracts themselves: who has none need not load them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract

__all__ = ["match_contract"]


def match_contract(contracts: tuple[KernelContract, ...], *names: str) -> KernelContract | None:
    """The first contract that means a kernel with any of these names."""
    return next((c for c in contracts if c.matches(*names)), None)
