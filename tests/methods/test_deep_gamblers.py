"""Deep gamblers: METHODS.md 12.4."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced
from torch.nn import functional as F

from selfadapt import losses
from selfadapt.errors import BadInput

Z = np.array([[2.0, 1.0, 0.0, 0.5], [0.0, 0.0, 3.0, -1.0]])


@pytest.mark.parametrize(("reward", "expected"), [(1.5, 0.65286772), (2.2, 0.70283331)])
def test_golden_values(reward: float, expected: float) -> None:
    found = reduced(build("deep_gamblers", reward=reward)(batch(Z), 0)).item()
    assert found == pytest.approx(expected, abs=1e-6)


def test_against_the_equation() -> None:
    z, y = random_case(classes=6)
    y = y % 5
    p = reference.softmax(z)
    expected = -np.log(p[np.arange(40), y] + p[:, 5] / 2.2)
    found = losses.gambler(torch.tensor(z), torch.tensor(y), 2.2)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_an_endless_reward_is_cross_entropy_over_all_outputs() -> None:
    z, y = random_case(classes=6)
    labels = torch.tensor(y % 5)
    found = losses.gambler(torch.tensor(z), labels, 1e30)
    expected = F.cross_entropy(torch.tensor(z), labels, reduction="none")
    assert torch.allclose(found, expected)


def best_bets(posterior: list[float], reward: float) -> torch.Tensor:
    """What descends to the least expected loss, classes and abstention."""
    z = torch.zeros(1, len(posterior) + 1, dtype=torch.float64, requires_grad=True)
    chances = torch.tensor(posterior, dtype=torch.float64)
    optimizer = torch.optim.LBFGS([z], lr=0.5, max_iter=2000, tolerance_change=1e-14)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        each = [losses.gambler(z, torch.tensor([k]), reward) for k in range(len(posterior))]
        loss = (torch.cat(each) * chances).sum() + 1e-9 * z.square().sum()
        loss.backward()
        return loss

    optimizer.step(step)
    return z.detach().softmax(dim=1)[0]


@pytest.mark.parametrize(("eta", "reward"), [(0.9, 1.5), (0.8, 1.8), (0.7, 1.6)])
def test_the_optimum_of_a_known_posterior(eta: float, reward: float) -> None:
    """Two classes: bet (ηo - 1)/(o - 1) on the likelier one and keep o(1 - η)/(o - 1)."""
    found = best_bets([eta, 1 - eta], reward)
    expected = [(eta * reward - 1) / (reward - 1), 0.0, reward * (1 - eta) / (reward - 1)]
    assert found.tolist() == pytest.approx(expected, abs=1e-3)


def test_what_is_too_unlikely_to_pay_is_not_bet_on() -> None:
    assert best_bets([0.6, 0.4], 1.5)[2] > 0.999
    assert best_bets([0.9, 0.1], 1.0)[2] > 0.99, "at even money it never pays"


def test_before_that_only_the_classes_learn() -> None:
    method = build("deep_gamblers", pretrain=0.5)
    method.epochs = 10
    x = torch.tensor(Z, requires_grad=True)
    reduced(method(batch(x), 4)).backward()
    assert x.grad is not None
    assert x.grad[:, 3].tolist() == [0, 0]
    assert reduced(method(batch(Z), 5)).item() == pytest.approx(0.70283331, abs=1e-6)


def test_rewards() -> None:
    assert build("deep_gamblers", reward=9.0).facts()["reward"] == 3, "at most the classes"
    with pytest.raises(BadInput, match="pays no more than not betting"):
        build("deep_gamblers", reward=1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    extreme = torch.tensor([[60000.0, -60000.0, 0.0, -60000.0]], dtype=dtype)
    assert torch.isfinite(losses.gambler(extreme, torch.tensor([1]), 2.2)).all()
