"""Sparse over-parametrisation: METHODS.md 17."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case

from selfadapt.errors import BadInput


def numpy_loss(z: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    e, p = reference.one_hot(y, z.shape[1]), reference.softmax(z)
    plus, minus = np.clip(u**2 * e, 0, 1), np.clip(v**2 * (1 - e), 0, 1)
    explained = np.maximum(p + plus - minus, 1e-4)
    explained = np.clip(explained / explained.sum(axis=1, keepdims=True), 1e-4, 1)
    guess = reference.one_hot(p.argmax(axis=1), z.shape[1])
    return -np.log((e * explained).sum(axis=1)) + ((guess + plus - minus - e) ** 2).sum(axis=1)


def with_parameters(seed: int = 0, n: int = 12) -> tuple:
    z, y = random_case(seed, n)
    method = build("sop", y, 5)
    random = np.random.default_rng(seed)
    u, v = random.normal(size=(n, 1)), random.normal(size=(n, 5))
    with torch.no_grad():
        method.u.copy_(torch.tensor(u))
        method.v.copy_(torch.tensor(v))
    return method, z, y, u, v


def test_the_equation() -> None:
    method, z, y, u, v = with_parameters()
    out = method(batch(z, np.arange(12), y), 0)
    np.testing.assert_allclose(out.values.detach(), numpy_loss(z, y, u, v), atol=1e-5)


def test_at_first_it_is_cross_entropy_and_the_error_of_the_guess() -> None:
    torch.manual_seed(0)
    z, y = random_case(3, 12)
    out = build("sop", y, 5)(batch(z / 2, np.arange(12), y), 0).values.detach().numpy()
    p = np.clip(reference.softmax(z / 2), 1e-4, 1)
    wrong = z.argmax(axis=1) != y
    np.testing.assert_allclose(out, -np.log(p[np.arange(12), y]) + 2 * wrong, atol=1e-2)


def test_v_learns_from_the_error_alone() -> None:
    """In the first term v has no gradient: d|g + U - V - e|² / dv = -4·v·(g + U - V - e)."""
    method, z, y, u, v = with_parameters(1)
    method(batch(z, np.arange(12), y), 0).values.sum().backward()
    e = reference.one_hot(y, 5)
    guess = reference.one_hot(z.argmax(axis=1), 5)
    plus, minus = np.clip(u**2 * e, 0, 1), np.clip(v**2 * (1 - e), 0, 1)
    inside = (v**2 < 1) & (e == 0)
    expected = np.where(inside, -4 * v * (guess + plus - minus - e), 0)
    np.testing.assert_allclose(method.v.grad, expected, atol=1e-5)


def test_u_learns_from_both_terms() -> None:
    method, z, y, u, v = with_parameters(2)
    u = np.clip(u, -0.9, 0.9)  # where U is not held at 1
    with torch.no_grad():
        method.u.copy_(torch.tensor(u))
    method(batch(z, np.arange(12), y), 0).values.sum().backward()
    step = 1e-6
    more, less = numpy_loss(z, y, u + step, v), numpy_loss(z, y, u - step, v)
    np.testing.assert_allclose(method.u.grad[:, 0], (more - less) / (2 * step), atol=1e-3)


def test_u_and_v_begin_as_next_to_nothing_but_not_as_nothing() -> None:
    """From 0 neither would ever move."""
    torch.manual_seed(0)
    method = build("sop", np.arange(300) % 3)
    for values in (method.u, method.v):
        assert values.std().item() == pytest.approx(1e-8, rel=0.2)


def test_their_rates_are_their_own() -> None:
    groups = build("sop", lr_u=0.1, lr_v=100.0).param_groups()
    assert [group.get("lr_fixed") for group in groups] == [None, 0.1, 100.0]
    for group in groups[1:]:
        assert group["momentum"] == group["weight_decay"] == 0
    with pytest.raises(BadInput, match="at least 0"):
        build("sop", lr_u=-1.0)
