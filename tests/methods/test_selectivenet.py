"""SelectiveNet: METHODS.md 12.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
import torch
from torch import nn

from selfadapt import head, methods, selective
from selfadapt.batch import Batch
from selfadapt.errors import BadInput
from selfadapt.methods.selectivenet import selective_risk

G = torch.tensor([0.9, 0.4], dtype=torch.float64)


@pytest.mark.parametrize(("divide", "expected"), [(True, 1.23748398), (False, 1.06183587)])
def test_golden_values(divide: bool, expected: float) -> None:
    values = torch.tensor(reference.cross_entropies(reference.Z, reference.one_hot(reference.Y, 3)))
    risk = selective_risk(values, G, coverage=0.8, penalty=32.0, divide=divide)
    assert (0.5 * risk + 0.5 * values).mean().item() == pytest.approx(expected, abs=1e-6)


def test_who_answers_everything_has_cross_entropy() -> None:
    values = torch.tensor([0.3, 2.0])
    found = selective_risk(values, torch.ones(2), coverage=0.8, penalty=32.0)
    assert torch.equal(found, values)


def test_no_penalty_for_answering_more() -> None:
    found = selective_risk(torch.zeros(2), torch.tensor([0.9, 0.8]), coverage=0.8, penalty=32.0)
    assert found.tolist() == [0, 0]
    less = selective_risk(torch.zeros(2), torch.tensor([0.5, 0.5]), coverage=0.8, penalty=32.0)
    assert less.mean().item() == pytest.approx(32 * 0.3**2)


def made(**knobs: object) -> Any:
    torch.manual_seed(0)

    def make_net(num_outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, num_outputs))

    return methods.build("selectivenet", make_net, torch.tensor([0, 1, 2, 0]), 3, dict(knobs))


def test_three_heads_on_the_same_features() -> None:
    """The whole loss once more, from the weights of the heads."""
    method = made(coverage=0.7, penalty=10.0, mix=0.25).double().eval()
    x, y = torch.randn(4, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        outputs, features = head.with_features(method.net, x)
        out = method(Batch(torch.arange(4), x, y), 0)
        g = 1 - method.abstain(x).numpy()
        helped = method.helper(features).numpy()  # type: ignore[operator]
    np.testing.assert_allclose(method.net[2](features).detach(), outputs.detach())  # type: ignore[index]
    hard = reference.one_hot(y, 3)
    risks = reference.cross_entropies(outputs.numpy(), hard)
    selective = (risks * g).mean() / g.mean() + 10 * max(0, 0.7 - g.mean()) ** 2
    expected = 0.25 * selective + 0.75 * reference.cross_entropies(helped, hard).mean()
    assert out.values.mean().item() == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be() -> None:
    with pytest.raises(BadInput, match=r"method.coverage must lie in \(0, 1\]"):
        made(coverage=0.0)
    with pytest.raises(BadInput, match="has no linear layer"):
        methods.build("selectivenet", lambda n: nn.Conv2d(3, n, 1), torch.tensor([0, 1]), 2, {})


def overlapping(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes that no net can tell apart near zero."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, samples)
    x = random.normal(size=(samples, 2)) + np.outer(2 * y - 1, [1.0, 0.0])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def test_it_learns_to_leave_out_what_is_hard() -> None:
    x, y = overlapping(1000, 0)
    torch.manual_seed(0)

    def make_net(num_outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, num_outputs))

    method = methods.build("selectivenet", make_net, y, 2, {"coverage": 0.7})
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(20):
        for rows in torch.randperm(1000).split(100):
            optimizer.zero_grad()
            method(Batch(rows, x[rows], y[rows]), epoch).values.mean().backward()
            optimizer.step()
    method.eval()
    x, y = overlapping(2000, 1)
    with torch.no_grad():
        right = (method.predict(x).argmax(dim=1) == y).numpy()
        doubt = method.abstain(x).numpy()
    assert selective.aurc(doubt, right) < 0.6 * (1 - right.mean())
    assert np.corrcoef(np.abs(x[:, 0].numpy()), doubt)[0, 1] < -0.7
    assert (1 - doubt).mean() > 0.65, "no fewer than it was to answer"
