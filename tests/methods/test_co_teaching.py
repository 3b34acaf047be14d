"""Co-teaching: METHODS.md 17."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, reduced
from torch import nn

from selfadapt import methods
from selfadapt.errors import BadInput


class Part(nn.Module):
    """The first or the second five of ten inputs, as logits."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.at = slice(5 * number, 5 * number + 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, self.at]


def built(labels: np.ndarray, **knobs: object) -> methods.Method:
    numbers = iter((0, 1))
    return methods.build(
        "co_teaching", lambda _: Part(next(numbers)), torch.tensor(labels), 5, knobs
    )


@pytest.mark.parametrize(("epoch", "kept"), [(0, 20), (4, 16), (9, 12), (30, 12)])
def test_each_net_learns_from_what_the_other_finds_easy(epoch: int, kept: int) -> None:
    """R(e) = rate·min(e / 9, 1): of 20 samples 20, 16, 12 stay at rate 0.4."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(20, 10)) * 3, random.integers(0, 5, 20)
    losses = [reference.cross_entropies(z, reference.one_hot(y, 5)) for z in (x[:, :5], x[:, 5:])]
    easy = [np.argsort(values)[:kept] for values in losses]
    expected = losses[0][easy[1]].mean() + losses[1][easy[0]].mean()
    logits = torch.tensor(x, requires_grad=True)
    out = reduced(built(y, rate=0.4)(batch(logits, np.arange(20), y), epoch))
    assert out.item() == pytest.approx(expected, abs=1e-6)
    out.backward()
    assert logits.grad is not None
    for net, teacher in ((0, 1), (1, 0)):
        gradient = logits.grad[:, 5 * net : 5 * net + 5].abs().sum(dim=1).numpy()
        assert set(np.flatnonzero(gradient)) == set(easy[teacher])


def test_predictions_are_the_mean_of_both() -> None:
    x = np.random.default_rng(1).normal(size=(7, 10))
    found = built(np.zeros(7, int)).predict(torch.tensor(x)).numpy()
    expected = (reference.softmax(x[:, :5]) + reference.softmax(x[:, 5:])) / 2
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("knobs", [{"rate": 1.0}, {"rate": -0.1}, {"ramp": 0}])
def test_knobs_outside(knobs: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"method\.(rate|ramp)"):
        built(np.zeros(3, int), **knobs)
