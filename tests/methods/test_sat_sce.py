"""Self-adaptive training with symmetric cross entropy: METHODS.md 1.3."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced
from torch.nn import functional as F

from selfadapt.errors import BadInput


@pytest.mark.parametrize(("beta", "expected"), [(0.1, 0.84890790), (0.3, 1.11716429)])
def test_golden_values(beta: float, expected: float) -> None:
    out = build("sat_sce", start=0, beta=beta)(batch(reference.Z), 0)
    assert reduced(out).item() == pytest.approx(expected, abs=1e-6)


def test_some_steps_against_the_equation() -> None:
    random = np.random.default_rng(1)
    _, y = random_case()
    method = build("sat_sce", y, 5, start=0, momentum=0.7)
    table, moved = reference.one_hot(y, 5), np.full(len(y), -1)
    for epoch in range(12):
        z, rows = random.normal(size=(16, 5)) * 3, random.permutation(40)[:16]
        reference.sat_move(table, moved, rows, z, epoch, 0.7)
        t, p = table[rows], reference.softmax(z)
        forward = reference.cross_entropies(z, t)
        reverse = -(p * np.log(np.maximum(t, 1e-7))).sum(axis=1)
        expected = reference.weighted_mean(forward + 0.1 * reverse, t.max(axis=1))
        found = reduced(method(batch(z, rows, y), epoch)).item()
        assert found == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(method.beliefs(), table, atol=1e-5)


def test_both_terms_teach() -> None:
    """The prediction in the reverse term has a gradient too; targets and weights have none."""
    z, y = random_case()
    z, rows = z / 2, np.arange(40)
    x = torch.tensor(z, requires_grad=True)
    reduced(build("sat_sce", y, 5, start=0, beta=0.4)(batch(x, rows, y), 0)).backward()
    table = reference.one_hot(y, 5)
    reference.sat_move(table, np.full(40, -1), rows, z, 0, 0.9)
    weights = table.max(axis=1)
    reverse = reference.reverse_gradient(z, np.log(np.maximum(table, 1e-7)))
    share = (weights / weights.sum())[:, None]
    expected = reference.gradient(z, table, weights) + 0.4 * share * reverse
    np.testing.assert_allclose(x.grad, expected, atol=1e-6)


def test_before_start_it_is_cross_entropy() -> None:
    z, y = random_case()
    out = build("sat_sce", y, 5, start=3)(batch(z, np.arange(40), y), 2)
    expected = F.cross_entropy(torch.tensor(z), torch.tensor(y), reduction="none")
    assert torch.equal(out.values, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_probabilities_that_underflow_give_numbers(dtype: torch.dtype) -> None:
    """Just after the warm-up a target can be exactly 0 where the net is sure: 0·log 0."""
    z = torch.tensor([[500.0, -500, 0], [-500, 500, 0]]).to(dtype).requires_grad_()
    out = build("sat_sce", [1, 1], start=0)(batch(z, labels=[1, 1]), 0)
    reduced(out).backward()
    assert z.grad is not None
    assert torch.isfinite(out.values).all()
    assert torch.isfinite(z.grad).all()


def test_beta_below_zero() -> None:
    with pytest.raises(BadInput, match=r"method\.beta must be at least 0"):
        build("sat_sce", beta=-0.1)
