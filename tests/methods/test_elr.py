"""Early-learning regularisation: METHODS.md 17."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced

from selfadapt.errors import BadInput


def test_golden_value() -> None:
    out = build("elr", beta=0.7, strength=3.0)(batch(reference.Z), 0)
    assert reduced(out).item() == pytest.approx(0.07165826, abs=1e-6)


def numpy_loss(z: np.ndarray, y: np.ndarray, t: np.ndarray, strength: float) -> np.ndarray:
    p = np.clip(reference.softmax(z), 1e-4, 1 - 1e-4)
    forward = reference.cross_entropies(z, reference.one_hot(y, z.shape[1]))
    return forward + strength * np.log(1 - (t * p).sum(axis=1))


def test_some_epochs_against_the_equation() -> None:
    _, y = random_case()
    method, table = build("elr", y, 5, beta=0.9, strength=7.0), np.zeros((40, 5))
    random = np.random.default_rng(2)
    for epoch in range(10):
        z, rows = random.normal(size=(16, 5)) * 3, random.permutation(40)[:16]
        p = np.clip(reference.softmax(z), 1e-4, 1 - 1e-4)
        table[rows] = 0.9 * table[rows] + 0.1 * p / p.sum(axis=1, keepdims=True)
        expected = numpy_loss(z, y[rows], table[rows], 7.0)
        found = method(batch(z, rows, y), epoch)
        np.testing.assert_allclose(found.values, expected, atol=1e-5)
        assert found.weights.tolist() == [1] * 16
    seen = table.sum(axis=1) > 0
    expected = np.where(
        seen[:, None],
        table / np.maximum(table.sum(axis=1, keepdims=True), 1e-12),
        reference.one_hot(y, 5),
    )
    np.testing.assert_allclose(method.beliefs(), expected, atol=1e-5)


def test_its_gradient_by_differences() -> None:
    """Through p in both terms, and not through the target."""
    z, y = random_case(n=6)
    z = z / 4
    logits, rows = torch.tensor(z, requires_grad=True), np.arange(6)
    method = build("elr", y, 5)
    method(batch(logits, rows, y), 0).values.sum().backward()
    t = method.targets.read(torch.arange(6)).numpy()
    assert logits.grad is not None
    for i, j in np.ndindex(*z.shape):
        step = np.zeros_like(z)
        step[i, j] = 1e-6
        up, down = (numpy_loss(z + s * step, y, t, 3.0).sum() for s in (1, -1))
        assert logits.grad[i, j].item() == pytest.approx((up - down) / 2e-6, abs=1e-4)


@pytest.mark.parametrize("knobs", [{"strength": -1.0}, {"beta": 1.0}, {"beta": -0.1}])
def test_knobs_outside(knobs: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=rf"method\.{next(iter(knobs))} must"):
        build("elr", **knobs)
