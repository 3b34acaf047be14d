"""Ordinary training and label smoothing against the equation."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from torch import nn
from torch.nn import functional as F

from selfadapt import methods
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.erm import ERM


def loss_of(z, y, classes: int, **knobs) -> StepLoss:
    y = torch.as_tensor(np.asarray(y))
    method = ERM(lambda _: nn.Identity(), y, classes, **knobs)
    return method(Batch(torch.arange(len(y)), torch.as_tensor(z), y), 0)


@pytest.mark.parametrize(("smoothing", "golden"), [(0.0, 0.75126446), (0.1, 0.85126446)])
def test_golden_values(smoothing: float, golden: float) -> None:
    out = loss_of(reference.Z, reference.Y, 3, smoothing=smoothing)
    assert out.values.mean().item() == pytest.approx(golden, abs=1e-6)
    assert out.weights.tolist() == [1, 1]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_values_and_gradient_are_the_reference(smoothing: float) -> None:
    rng = np.random.default_rng(0)
    z, y = 3 * rng.normal(size=(16, 5)), rng.integers(0, 5, 16)
    logits = torch.tensor(z, requires_grad=True)
    out = loss_of(logits, y, 5, smoothing=smoothing)
    targets = reference.smoothed(y, 5, smoothing)
    expected = reference.cross_entropies(z, targets)
    assert out.values.detach().numpy() == pytest.approx(expected, abs=1e-12)
    out.values.mean().backward()
    gradient = reference.gradient(z, targets, np.ones(16))
    assert logits.grad is not None
    assert logits.grad.numpy() == pytest.approx(gradient, abs=1e-12)


def test_without_smoothing_it_is_torchs_cross_entropy() -> None:
    torch.manual_seed(0)
    z, y = torch.randn(8, 4), torch.randint(0, 4, (8,))
    assert torch.equal(loss_of(z, y, 4).values, F.cross_entropy(z, y, reduction="none"))


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_smoothing_outside(smoothing: float) -> None:
    with pytest.raises(BadInput, match=r"method\.smoothing must lie in \[0, 1\)"):
        loss_of(reference.Z, reference.Y, 3, smoothing=smoothing)


def test_it_believes_nothing() -> None:
    method = methods.build("erm", lambda _: nn.Identity(), torch.tensor([0, 1]), 2, {})
    assert method.beliefs() is None
