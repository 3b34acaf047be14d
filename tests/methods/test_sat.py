"""SAT against the paper's algorithm 1, written again in tests/reference.py."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import reference
import torch
from common import batch, no_net, reduced
from torch import nn
from torch.nn import functional as F

from selfadapt import methods
from selfadapt.batch import Batch
from selfadapt.errors import BadInput
from selfadapt.methods.sat import SAT


def sat(labels=reference.Y, classes: int = 3, **knobs) -> SAT:
    return SAT(no_net, torch.as_tensor(np.asarray(labels)), classes, **knobs)


def test_golden_values() -> None:
    method, rows = sat(start=0), [0, 1]
    logits = torch.tensor(reference.Z, requires_grad=True)
    out = method(batch(logits, rows), 0)
    reduced(out).backward()
    assert reduced(out).item() == pytest.approx(0.71477970, abs=1e-6)
    assert out.weights.tolist() == pytest.approx([0.92447285, 0.99094430], abs=1e-6)
    gradient = [[0.28896968, -0.32807747, 0.03910779], [0.02108242, 0.02108242, -0.04216484]]
    assert logits.grad is not None
    assert logits.grad.numpy() == pytest.approx(np.array(gradient), abs=1e-6)
    table = [[0.06652410, 0.92447285, 0.00900306], [0.00452785, 0.00452785, 0.99094430]]
    assert method.beliefs().numpy() == pytest.approx(np.array(table), abs=1e-6)
    second = reduced(method(batch(reference.Z, rows), 1))
    assert second.item() == pytest.approx(0.68288466, abs=1e-6)


def test_without_weights() -> None:
    out = sat(start=0, reweight=False)(batch(reference.Z, [0, 1]), 0)
    assert out.weights.tolist() == [1, 1]
    assert reduced(out).item() == pytest.approx(0.73608749, abs=1e-6)


def test_warm_up_is_cross_entropy_and_moves_nothing() -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, 5, (40,))
    method = sat(labels, 5, start=3)
    before = copy.deepcopy(method.state_dict())
    for epoch in range(3):
        rows, logits = torch.randperm(40)[:16], 3 * torch.randn(16, 5)
        out = method(batch(logits, rows, labels), epoch)
        expected = F.cross_entropy(logits, labels[rows], reduction="none")
        assert torch.equal(out.values, expected)
        assert torch.equal(out.weights, torch.ones(16))
        assert all(torch.equal(before[name], now) for name, now in method.state_dict().items())
    method(batch(logits, rows, labels), 3)
    assert not torch.equal(before["targets.table"], method.targets.table)


@pytest.mark.parametrize(
    ("start", "epochs", "first"),
    [
        (60, 200, 60),
        (0.3, 200, 60),
        (0, 200, 0),
        (0.0, 200, 0),
        (1.0, 200, 200),
        (1, 200, 1),
        (300, 200, 300),
        (0.3, 10, 3),
        (0.25, 8, 2),
    ],
)
def test_start_as_epochs_and_as_a_share(start: float, epochs: int, first: int) -> None:
    method = sat(start=start)
    method.epochs = epochs
    assert method.first_move() == first
    assert method.facts() == {"start": first}
    for epoch in range(max(0, first - 1), first + 1):
        method(batch(reference.Z, [0, 1]), epoch)
        assert (method.targets.moved_in == epoch).all() == (epoch >= first)


def test_the_papers_values_are_the_defaults() -> None:
    method = methods.build("sat", no_net, torch.tensor([0, 1]), 2, {})
    assert isinstance(method, SAT)
    assert (method.first_move(), method.targets.momentum, method.reweight) == (60, 0.9, True)
    assert method.epochs == 200


@pytest.mark.parametrize("start", [-1, -0.1, 1.5, 60.0, float("nan"), float("inf")])
def test_start_that_cannot_be(start: float) -> None:
    with pytest.raises(BadInput, match=r"method\.start"):
        sat(start=start)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_momentum_outside(momentum: float) -> None:
    with pytest.raises(BadInput, match="momentum"):
        sat(momentum=momentum)


def test_knobs_are_checked_by_name_and_type() -> None:
    labels = torch.tensor([0, 1])
    with pytest.raises(BadInput, match="Did you mean 'momentum'"):
        methods.build("sat", no_net, labels, 2, {"momentun": 0.9})
    with pytest.raises(BadInput, match=r"method\.reweight must be true or false"):
        methods.build("sat", no_net, labels, 2, {"reweight": 1})
    built = methods.build("sat", no_net, labels, 2, {"start": 7, "momentum": 0})
    assert isinstance(built, SAT)
    assert built.first_move() == 7


def test_a_run_against_float64() -> None:
    """A linear net trained by SGD, with the paper's schedule in small: every loss, and the beliefs
    and weights at the end, as the equations give them in float64."""
    rng = np.random.default_rng(0)
    n, classes, width, start, lr = 64, 4, 6, 2, 0.5
    x = rng.normal(size=(n, width)).astype(np.float32)
    labels = rng.integers(0, classes, n)
    w = rng.normal(size=(classes, width)).astype(np.float32)

    def make_net(num_outputs: int) -> nn.Module:
        net = nn.Linear(width, num_outputs, bias=False)
        net.weight.data = torch.tensor(w)
        return net

    method = SAT(make_net, torch.tensor(labels), classes, start=start, momentum=0.8)
    optimizer = torch.optim.SGD(method.param_groups(), lr=lr)
    weight, table = w.astype(np.float64), reference.one_hot(labels, classes)
    moved_in = np.full(n, -1)
    for epoch in range(8):
        for rows in np.array_split(rng.permutation(n), 5):
            optimizer.zero_grad()
            here = torch.tensor(rows)
            out = method(Batch(here, torch.tensor(x[rows]), torch.tensor(labels[rows])), epoch)
            loss = reduced(out)
            loss.backward()
            optimizer.step()
            z = x[rows].astype(np.float64) @ weight.T
            if epoch >= start:
                reference.sat_move(table, moved_in, rows, z, epoch, 0.8)
            expected, _, gradient = reference.sat_loss(z, table[rows])
            weight -= lr * gradient.T @ x[rows]
            assert loss.item() == pytest.approx(expected, abs=1e-5)
    assert np.abs(method.beliefs().numpy() - table).max() < 1e-5
    assert np.abs(method.net.weight.detach().numpy() - weight).max() < 1e-5


def test_without_moving_average_in_both_readings() -> None:
    """t = α·e_y + (1-α)·p at each step anew, or t = e_y; in neither is anything remembered."""
    rows, p = [0, 1], reference.softmax(reference.Z)
    given = reference.one_hot(reference.Y, 3)
    for average, target in (("forgotten", 0.9 * given + 0.1 * p), ("frozen", given)):
        method = sat(start=0, average=average)
        expected, weights, _ = reference.sat_loss(reference.Z, target)
        for epoch in range(3):
            out = method(batch(reference.Z, rows), epoch)
            assert reduced(out).item() == pytest.approx(expected, abs=1e-6)
            assert out.weights.tolist() == pytest.approx(weights.tolist(), abs=1e-6)
        assert torch.equal(method.beliefs(), torch.tensor(given, dtype=torch.float32))
