"""Symmetric cross entropy: METHODS.md 7."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced

from selfadapt.errors import BadInput


@pytest.mark.parametrize(("a", "b", "expected"), [(0.1, 1, 3.97031078), (6, 0.1, 4.89710520)])
def test_golden_values(a: float, b: float, expected: float) -> None:
    out = build("sce", a=float(a), b=float(b))(batch(reference.Z), 0)
    assert reduced(out).item() == pytest.approx(expected, abs=1e-6)


def test_the_two_terms_by_themselves() -> None:
    """b = 0 is cross entropy; the reverse term is -A·(1 - p_y), A = ln 1e-4."""
    z, y = random_case()
    rows = np.arange(len(y))
    p_y = reference.softmax(z)[rows, y]
    plain = build("sce", y, 5, a=1.0, b=0.0)(batch(z, rows, y), 0).values
    np.testing.assert_allclose(plain, np.minimum(-np.log(p_y), -math.log(1e-7)), atol=1e-6)
    reverse = build("sce", y, 5, a=0.0, b=1.0)(batch(z, rows, y), 0).values
    np.testing.assert_allclose(reverse, -math.log(1e-4) * (1 - p_y), atol=1e-5)


def test_both_terms_teach() -> None:
    """The prediction in the reverse term has a gradient too."""
    z, y = random_case()
    z = z / 4  # far from where the first term is clipped
    x = torch.tensor(z, requires_grad=True)
    build("sce", y, 5, a=0.3, b=0.7)(batch(x, np.arange(40), y), 0).values.sum().backward()
    e = reference.one_hot(y, 5)
    reverse = reference.reverse_gradient(z, np.log(np.maximum(e, 1e-4)))
    expected = 0.3 * (reference.softmax(z) - e) + 0.7 * reverse
    np.testing.assert_allclose(x.grad, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_numbers(dtype: torch.dtype) -> None:
    z = torch.tensor([[60.0, -60, 0], [-60, 60, 0]], dtype=dtype, requires_grad=True)
    out = build("sce", [1, 1])(batch(z, labels=[1, 1]), 0)
    reduced(out).backward()
    assert z.grad is not None
    assert torch.isfinite(out.values).all()
    assert torch.isfinite(z.grad).all()


def test_weights_that_are_none() -> None:
    with pytest.raises(BadInput, match="not both 0"):
        build("sce", a=0.0, b=0.0)
