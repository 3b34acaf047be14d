"""Losses: the golden vectors, the closed-form gradient, and fp32 whatever the logits are."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from selfadapt import losses

Z = torch.tensor(reference.Z)
Y = torch.tensor(reference.Y)


def test_golden_cross_entropy() -> None:
    assert losses.cross_entropy(Z, Y).mean().item() == pytest.approx(0.75126446, abs=1e-6)
    assert losses.cross_entropy(Z, Y, 0.1).mean().item() == pytest.approx(0.85126446, abs=1e-6)


def test_the_reference_itself_gives_the_golden_values() -> None:
    p = [[0.66524096, 0.24472847, 0.09003057], [0.04527850, 0.04527850, 0.90944300]]
    assert reference.softmax(reference.Z) == pytest.approx(np.array(p), abs=1e-8)
    plain = reference.cross_entropies(reference.Z, reference.one_hot(reference.Y, 3))
    smooth = reference.cross_entropies(reference.Z, reference.smoothed(reference.Y, 3, 0.1))
    assert plain.mean() == pytest.approx(0.75126446, abs=1e-8)
    assert smooth.mean() == pytest.approx(0.85126446, abs=1e-8)


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.5])
def test_smoothing_is_the_reference_and_torchs_own(eps: float) -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(32, 7)) * 3, rng.integers(0, 7, 32)
    targets = reference.smoothed(y, 7, eps)
    assert targets.sum(axis=1) == pytest.approx(np.ones(32))
    ours = losses.cross_entropy(torch.tensor(z), torch.tensor(y), eps)
    assert ours.numpy() == pytest.approx(reference.cross_entropies(z, targets), abs=1e-12)
    soft = losses.soft_cross_entropy(torch.tensor(z), torch.tensor(targets))
    assert soft.numpy() == pytest.approx(ours.numpy(), abs=1e-12)
    whole = F.cross_entropy(torch.tensor(z), torch.tensor(y), label_smoothing=eps)
    assert ours.mean().item() == pytest.approx(whole.item(), abs=1e-12)


def test_losses_are_one_value_a_sample() -> None:
    z, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    targets = torch.softmax(torch.randn(5, 3), dim=1)
    values, weights = losses.self_adaptive(z, targets)
    shapes = [losses.cross_entropy(z, y), losses.soft_cross_entropy(z, targets), values, weights]
    assert {tuple(t.shape) for t in shapes} == {(5,)}


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(2, 12), st.integers(0, 10_000), st.booleans())
def test_gradient_has_the_closed_form(batch: int, classes: int, seed: int, reweight: bool) -> None:
    """∂loss/∂z_b = w_b / Σw · (p_b - t_b)"""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(batch, classes)) * 4
    t = reference.softmax(rng.normal(size=(batch, classes)) * 4)
    logits = torch.tensor(z, requires_grad=True)
    values, weights = losses.self_adaptive(logits, torch.tensor(t), reweight=reweight)
    loss = (weights * values).sum() / weights.sum()
    loss.backward()
    expected, expected_weights, gradient = reference.sat_loss(z, t, reweight)
    assert loss.item() == pytest.approx(expected, abs=1e-10)
    assert weights.numpy() == pytest.approx(expected_weights, abs=1e-12)
    assert logits.grad is not None
    assert logits.grad.numpy() == pytest.approx(gradient, abs=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_frozen_targets_are_cross_entropy_to_the_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    y = torch.randint(0, 10, (200,))
    soft_logits = (6 * torch.randn(200, 10)).to(dtype).requires_grad_()
    hard_logits = soft_logits.detach().clone().requires_grad_()
    values, weights = losses.self_adaptive(soft_logits, F.one_hot(y, 10).float())
    plain = losses.cross_entropy(hard_logits, y)
    assert torch.equal(weights, torch.ones_like(values))
    assert torch.equal(values, plain)
    ((weights * values).sum() / weights.sum()).backward()
    (plain.sum() / 200).backward()
    assert soft_logits.grad is not None
    assert hard_logits.grad is not None
    assert torch.equal(soft_logits.grad, hard_logits.grad)


def test_nothing_flows_through_targets_or_weights() -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    targets = torch.softmax(torch.randn(4, 3), dim=1).requires_grad_()
    values, weights = losses.self_adaptive(logits, targets)
    assert not weights.requires_grad
    (weights * values).sum().backward()
    assert targets.grad is None
    assert logits.grad is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_computed_in_fp32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(64, 10) * 20).to(dtype)
    y = torch.randint(0, 10, (64,))
    targets = torch.softmax(torch.randn(64, 10), dim=1)
    values, weights = losses.self_adaptive(logits, targets)
    for ours, theirs in [
        (losses.cross_entropy(logits, y), losses.cross_entropy(logits.float(), y)),
        (values, losses.soft_cross_entropy(logits.float(), targets)),
        (weights, targets.amax(dim=1)),
    ]:
        assert ours.dtype == torch.float32
        assert torch.equal(ours, theirs)


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    values, weights = losses.self_adaptive(logits, torch.tensor([[0.0, 1.0, 0.0]]))
    assert values.item() == pytest.approx(2e4)
    (values * weights).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
