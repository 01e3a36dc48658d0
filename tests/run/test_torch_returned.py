"""What a callable on tensors returns: `return out` beside filling it is the argument itself, not another result."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from validator.run.adapters.torch import _among, _unless_given  # noqa: E402


def test_only_the_very_tensor_that_was_given_is_it() -> None:
    x, out = torch.zeros(4, 6), torch.zeros(4, 6)
    given = [x, 3, out]
    assert _among(out, given) == 2
    assert _among(out.view(4, 6), given) == 2
    for other in (out[:2], out.t(), out.view(torch.int32), out.clone(), 3, None):
        assert _among(other, given) == -1
    assert _among(torch.empty(0), [torch.empty(0)]) == -1, "nothing lies nowhere"


def test_an_argument_keeps_what_stands_in_it() -> None:
    """A graph's own results are poisoned before it is replayed; what is changed in place is read by it."""
    x, own = torch.ones(3), torch.ones(3)
    for item in (x, own):
        _unless_given([x], item, lambda tensor: tensor.fill_(7.0))
    assert x.tolist() == [1.0] * 3
    assert own.tolist() == [7.0] * 3
