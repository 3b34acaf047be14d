"""Self-adaptive training with an output that abstains: METHODS.md 12.3."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced
from torch.nn import functional as F

from selfadapt import losses

Z = np.array([[2.0, 1.0, 0.0, 0.5], [0.0, 0.0, 3.0, -1.0]])


def test_golden_values() -> None:
    method = build("sat_selective", momentum=0.9)
    assert reduced(method(batch(Z), 0)).item() == pytest.approx(0.86571777, abs=1e-6)
    beliefs = method.beliefs()
    assert beliefs is not None
    assert beliefs[[0, 1], reference.Y].tolist() == pytest.approx(
        [0.92447285, 0.99094430], abs=1e-6
    )
    with torch.no_grad():
        doubt = method.abstain(torch.tensor(Z))
    assert doubt.tolist() == pytest.approx([0.12925005, 0.01638412], abs=1e-6)


def test_some_steps_against_the_equation() -> None:
    random = np.random.default_rng(1)
    _, y = random_case()
    method = build("sat_selective", y, 5, momentum=0.7)
    table, moved = reference.one_hot(y, 5), np.full(len(y), -1)
    for epoch in range(12):
        z, rows = random.normal(size=(16, 6)) * 3, random.permutation(40)[:16]
        reference.sat_move(table, moved, rows, z[:, :5], epoch, 0.7)
        log_p, t = reference.log_softmax(z), table[rows, y[rows]]
        expected = -(t * log_p[np.arange(16), y[rows]] + (1 - t) * log_p[:, 5]).mean()
        assert reduced(method(batch(z, rows, y), epoch)).item() == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(method.beliefs(), table, atol=1e-5)


def test_the_gradient_of_the_abstention_output() -> None:
    """P_C - (1 - t_y), and none of it flows into the belief."""
    z, y = random_case(classes=6)
    y = y % 5
    x = torch.tensor(z, requires_grad=True)
    t = torch.rand(40, dtype=torch.float64)
    losses.adaptive_abstention(x, t, torch.tensor(y)).sum().backward()
    assert x.grad is not None
    expected = reference.softmax(z)[:, 5] - (1 - t.numpy())
    np.testing.assert_allclose(x.grad[:, 5], expected, atol=1e-9)


def test_what_is_fully_believed_is_cross_entropy_over_all_outputs() -> None:
    z, y = random_case(classes=6)
    labels = torch.tensor(y % 5)
    found = losses.adaptive_abstention(torch.tensor(z), torch.ones(40), labels)
    assert torch.allclose(found, F.cross_entropy(torch.tensor(z), labels, reduction="none"))


def test_before_that_only_the_classes_learn() -> None:
    method = build("sat_selective", preset="code")
    method.epochs = 10
    x = torch.tensor(Z, requires_grad=True)
    out = method(batch(x), 4)
    assert torch.equal(
        out.values, F.cross_entropy(x[:, :3], torch.tensor(reference.Y), reduction="none")
    )
    reduced(out).backward()
    assert x.grad is not None
    assert x.grad[:, 3].tolist() == [0, 0]
    beliefs = method.beliefs()
    assert beliefs is not None
    assert beliefs.tolist() == reference.one_hot(reference.Y, 3).tolist()
    method(batch(Z), 5)
    assert method.beliefs().tolist() != reference.one_hot(reference.Y, 3).tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("knobs", "start", "momentum"),
    [
        ({}, 0, 0.99),
        ({"preset": "code"}, 150, 0.9),
        ({"preset": "code", "pretrain": 60}, 60, 0.9),
        ({"momentum": 0.5}, 0, 0.5),
    ],
)
def test_presets(knobs: dict[str, object], start: int, momentum: float) -> None:
    method = build("sat_selective", **knobs)
    method.epochs = 300
    assert method.facts() == {"start": start, "momentum": momentum}


def test_it_predicts_among_the_classes() -> None:
    method = build("sat_selective")
    with torch.no_grad():
        found = method.predict(torch.tensor(Z))
    np.testing.assert_allclose(found, reference.softmax(Z[:, :3]), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    extreme = torch.tensor([[60000.0, -60000.0, 0.0, 0.0]], dtype=dtype)
    found = losses.adaptive_abstention(extreme, torch.tensor([0.3]), torch.tensor([1]))
    assert torch.isfinite(found).all()
    assert found.dtype == torch.float32
