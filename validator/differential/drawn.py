"""Random cases: what hypothesis draws from a contract, from one seed alone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import hypothesis
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from validator.differential.cases import Case, is_drawn, layouts_of, variants_of
from validator.differential.numbers import derived
from validator.differential.padding import has_padding
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract

__all__ = ["drawn_cases"]


def drawn_cases(contract: KernelContract, space: Space, seed: int, count: int) -> list[Case]:
    """What hypothesis draws; nothing is run while it draws, so the list is known before the first call."""
    drawn: list[Case] = []
    if count <= 0:
        return drawn

    @hypothesis.seed(derived(seed, contract.match, "drawn"))
    @hypothesis.settings(
        max_examples=count,
        database=None,
        derandomize=False,  # hypothesis would turn it on by itself under CI, and the seed would not count
        deadline=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(_strategy(contract, space))
    def collect(case: Case) -> None:
        drawn.append(replace(case, origin=f"random case {len(drawn) + 1}", input_class="random"))

    with _DRAWING, _from_the_seed_alone(), _no_callbacks_left():
        collect()
    return drawn


_DRAWING = threading.Lock()
"""One kernel's cases are drawn at a time."""


@contextmanager
def _from_the_seed_alone() -> Iterator[None]:
    """hypothesis draws from constants too that it finds in whatever modules lie about, and keeps them in the working
    folder: on another machine they would be others. Here it finds none, and writes nothing.
    """
    provider, name = providers.HypothesisProvider, "_local_constants"
    if not hasattr(provider, name):  # a version that looks for none
        yield
        return
    with patch.object(provider, name, type(providers.GLOBAL_CONSTANTS)()):
        providers.CONSTANTS_CACHE.cache.clear()
        try:
            yield
        finally:
            providers.CONSTANTS_CACHE.cache.clear()


@contextmanager
def _no_callbacks_left() -> Iterator[None]:
    """hypothesis counts the time of garbage collections in a callback, and leaves it there. An interrupt that comes
    while one runs is dropped by Python: the run would go on.
    """
    before, enabled = list(gc.callbacks), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.callbacks[:] = before
        if enabled:
            gc.enable()


@st.composite
def _strategy(draw: Any, contract: KernelContract, space: Space) -> Case:
    """Any case within the contract; the simplest when shrunk."""
    case = Case(contract.match, tuple(draw(space.strategy()).items()), 0)
    dtypes: list[tuple[str, str]] = []
    variants: list[tuple[str, str]] = []
    layouts: list[tuple[str, str]] = []
    aliased: list[str] = []
    for name, (_, values) in contract.values.items():
        if values.choices:
            dtypes.append((name, str(draw(st.sampled_from(values.choices)))))
    case = replace(case, dtypes=tuple(dtypes))
    for name, (_, values) in contract.values.items():
        if is_drawn(values):
            names = variants_of(contract, case, name)
            # Mostly plain: a case with every argument at an extreme tells little about any of them.
            pick = draw(st.integers(0, 4 * max(len(names), 1) - 1))
            if pick < len(names):
                variants.append((name, names[-1 - pick]))
        if (few := layouts_of(values)) and draw(st.booleans()):
            layouts.append((name, str(draw(st.sampled_from(few)))))
        if getattr(values, "alias_of", None) and draw(st.booleans()):
            aliased.append(name)
    padding = has_padding(contract) and bool(draw(st.booleans()))
    return replace(case, padding=padding, variants=tuple(variants), layouts=tuple(layouts), aliased=tuple(aliased))
