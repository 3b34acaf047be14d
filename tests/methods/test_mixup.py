"""Mixup: METHODS.md 4."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case

from selfadapt.errors import BadInput


def drawn(a: float, n: int, seed: int) -> tuple[float, np.ndarray]:
    """What the method draws after this seed: λ, then the order."""
    torch.manual_seed(seed)
    share = float(torch.distributions.Beta(a, a).sample())
    return share, torch.randperm(n).numpy()


@pytest.mark.parametrize("a", [0.2, 1.0, 8.0])
def test_the_equation(a: float) -> None:
    x, y = random_case()
    share, order = drawn(a, 40, 5)
    torch.manual_seed(5)
    out = build("mixup", y, 5, a=a)(batch(x, np.arange(40), y), 0)
    mixed = share * x + (1 - share) * x[order]
    soft = share * reference.one_hot(y, 5) + (1 - share) * reference.one_hot(y[order], 5)
    np.testing.assert_allclose(out.values, reference.cross_entropies(mixed, soft), atol=1e-6)
    assert out.logits is None, "there are none on the inputs as given"


def test_without_mixing_it_is_cross_entropy() -> None:
    x, y = random_case()
    out = build("mixup", y, 5, a=0.0)(batch(x, np.arange(40), y), 0)
    expected = reference.cross_entropies(x, reference.one_hot(y, 5))
    np.testing.assert_allclose(out.values, expected, atol=1e-6)


def test_shares_are_uniform_for_a_of_1() -> None:
    """Mean 1/2, variance 1/12, seen through a net that hands on x = 0 or 1."""
    method = build("mixup", [0, 0], 2, a=1.0)
    shares = []
    method.net.register_forward_hook(lambda _m, inputs, _y: shares.append(inputs[0]))
    x = torch.tensor([[0.0, 0], [1, 1]])
    torch.manual_seed(0)
    for _ in range(4000):
        method(batch(x, [0, 1], [0, 0]), 0)
    mixed = torch.stack(shares)[:, 1, 0].numpy()
    swapped = mixed[(mixed > 0) & (mixed < 1)]
    assert swapped.mean() == pytest.approx(0.5, abs=0.03)
    assert swapped.var() == pytest.approx(1 / 12, abs=0.01)
    assert (mixed == 1).mean() == pytest.approx(0.5, abs=0.05), "half of the orders swap nothing"


def test_a_below_zero() -> None:
    with pytest.raises(BadInput, match=r"method\.a must be at least 0"):
        build("mixup", a=-1.0)
