"""MentorNet's predefined curriculum: METHODS.md 10."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case

from selfadapt.errors import BadInput


def at_hundredth(number: int, **knobs: float):
    """Half-way through that hundredth of a run of 1,000 steps."""
    method = build("mentornet", np.zeros(40, int), 5, **knobs)
    method.epochs, method.steps = 100, 10
    method.seen.fill_(10 * number + 5)
    return method


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, [1, 1, 1, 1]),
        (18, [1, 1, 1, 1]),
        (19, [1, 1, 0, 0]),
        (89, [1, 1, 0, 0]),
        (90, [1, 1, 0.75, 0]),
        (99, [1, 1, 0.75, 0]),
    ],
)
def test_the_curriculum(number: int, expected: list[float]) -> None:
    """All; those at or below the running level; 1 - (l - m), at most 1."""
    method = at_hundredth(number, decay=0.0, percentile=0.5)
    values = torch.tensor([0.5, 1.0, 1.25, 3.0])
    assert method.hundredth() == number
    found = method.curriculum(values, torch.tensor([1.0, 1.0, 1.0]))
    assert found.tolist() == pytest.approx(expected)


def test_the_running_level_starts_from_zero() -> None:
    method = at_hundredth(50, decay=0.9, percentile=0.75)
    level = 0.0
    for seed in range(4):
        values = torch.tensor(np.random.default_rng(seed).random(9)).float()
        method.curriculum(values, values)
        level = 0.9 * level + 0.1 * np.percentile(values.numpy(), 75)
        assert method.level.item() == pytest.approx(level, abs=1e-6)


@pytest.mark.parametrize(("number", "stay"), [(5, 20), (16, 20), (17, 38), (60, 38)])
def test_exactly_so_many_stay(number: int, stay: int) -> None:
    """Half in the first 17 hundredths, then int(40·0.95); which ones changes with the epoch."""
    method, rows = at_hundredth(number), torch.arange(40)
    masks = [method._stay(rows, rows, epoch) for epoch in (3, 4)]
    assert [int(mask.sum()) for mask in masks] == [stay, stay]
    assert not torch.equal(*masks)
    assert torch.equal(masks[0][:10], method._stay(rows[:10], rows, 3)), "alike on each process"


def test_the_loss_divides_by_all_samples() -> None:
    z, y = random_case()
    method = at_hundredth(50, decay=0.0, percentile=0.5)
    out = method(batch(z, np.arange(40), y), 3)
    values = reference.cross_entropies(z, reference.one_hot(y, 5))
    stay = method._stay(torch.arange(40), torch.arange(40), 3).numpy()
    expected = values * (values <= np.percentile(values, 50)) * stay
    np.testing.assert_allclose(out.values, expected, atol=1e-6)
    assert out.weights.tolist() == [1] * 40


@pytest.mark.parametrize("knobs", [{"percentile": 0.0}, {"percentile": 1.1}, {"decay": 1.0}])
def test_knobs_outside(knobs: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=r"method\.percentile must lie in"):
        build("mentornet", **knobs)
