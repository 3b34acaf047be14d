"""Generalised cross entropy and its truncation: METHODS.md 5."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced
from torch import nn

from selfadapt import methods
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput
from selfadapt.methods import Validation


def test_golden_choice() -> None:
    """p_y is 0.24 of the first sample and 0.91 of the second."""
    likely = reference.softmax(reference.Z)[[0, 1], reference.Y]
    method, feed, _ = truncated(reference.softmax(reference.Z).tolist(), reference.Y.tolist())
    method.validated(0, Validation(0.5, 1.0))
    method.start_epoch(3, feed)
    assert (likely > 0.5).tolist() == method.keep.bool().tolist() == [False, True]


def test_golden_value() -> None:
    out = build("gce", q=0.7)(batch(reference.Z), 0)
    assert reduced(out).item() == pytest.approx(0.49354888, abs=1e-6)


def test_its_two_ends() -> None:
    z, y = random_case()
    rows = np.arange(len(y))
    p_y = reference.softmax(z)[rows, y]
    linear = build("gce", y, 5, q=1.0)(batch(z, rows, y), 0).values
    np.testing.assert_allclose(linear, 1 - p_y, atol=1e-6)
    near = build("gce", y, 5, q=1e-4)(batch(z, rows, y), 0).values
    np.testing.assert_allclose(near, -np.log(p_y), rtol=1e-3)


def test_its_gradient_is_that_of_cross_entropy_times_p_to_the_q() -> None:
    z, y = random_case()
    logits, rows = torch.tensor(z, requires_grad=True), np.arange(len(y))
    build("gce", y, 5, q=0.7)(batch(logits, rows, y), 0).values.sum().backward()
    p = reference.softmax(z)
    expected = p[rows, y][:, None] ** 0.7 * (p - reference.one_hot(y, 5))
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad, expected, atol=1e-8)


@pytest.mark.parametrize("q", [0.0, -1.0, 1.1])
def test_q_outside(q: float) -> None:
    with pytest.raises(BadInput, match=r"method\.q must lie in \(0, 1\]"):
        build("gce", q=q)


class Table(nn.Module):
    """A net that gives sample number x the logits of its row."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits[x[:, 0].long()]


def truncated(probs: list[list[float]], labels: list[int], **knobs: object) -> tuple:
    logits = torch.tensor(probs).log()
    settings = {"k": 0.5, "prune": 4, "every": 2, **knobs}
    method = methods.build(
        "truncated_gce", lambda _: Table(logits), torch.tensor(labels), logits.shape[1], settings
    )
    method.epochs = 20
    x = torch.arange(len(labels), dtype=torch.float32)[:, None]
    return method, Feed(InMemory(x), np.arange(len(labels)), batch=2), x


PROBS = [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6], [0.9, 0.1]]


def test_what_is_pruned_and_when() -> None:
    """v = 1 where p_y > k, strictly; at epochs 4, 6, 8, … counted from 1; never before a best."""
    method, feed, _ = truncated(PROBS, [0, 0, 0, 1])
    method.start_epoch(3, feed)
    assert method.keep.all(), "nothing was validated yet"
    method.validated(0, Validation(0.5, 1.0))
    for epoch in (0, 1, 2, 4, 6):
        method.start_epoch(epoch, feed)
        assert method.keep.all(), epoch
    method.start_epoch(3, feed)
    assert method.keep.tolist() == [True, False, False, False]


def test_the_best_net_prunes_and_samples_come_back() -> None:
    method, feed, _ = truncated(PROBS, [0, 0, 0, 1])
    method.validated(0, Validation(0.6, 1.0))
    with torch.no_grad():
        method.net.logits.copy_(method.net.logits.flip(1))
    method.validated(1, Validation(0.5, 1.0))  # worse: the first stays the best
    method.validated(2, Validation(0.6, 1.0))  # as good: the first of equals stays
    method.start_epoch(3, feed)
    assert method.keep.tolist() == [True, False, False, False]
    method.validated(4, Validation(0.7, 1.0))
    method.start_epoch(5, feed)
    assert method.keep.tolist() == [False, False, True, True]


def test_the_loss_of_those_that_stay() -> None:
    """v·(L_q(p_y) - L_q(k)), L_q(.5) = 0.54918256 at q = .7; the mean is over all of the batch."""
    method, feed, x = truncated(PROBS, [0, 0, 0, 1])
    method.validated(0, Validation(0.6, 1.0))
    method.start_epoch(3, feed)
    out = method(batch(x, np.arange(4), [0, 0, 0, 1]), 3)
    assert out.values.tolist() == pytest.approx(
        [(1 - 0.6**0.7) / 0.7 - 0.54918256, 0, 0, 0], abs=1e-6
    )
    assert out.weights.tolist() == [1, 1, 1, 1]


def test_a_point_of_a_run() -> None:
    method, _, _ = truncated(PROBS, [0, 0, 0, 1], prune=0.5)
    assert method.facts() == {"prune": 10}
    with pytest.raises(BadInput, match=r"method\.prune is a number of epochs"):
        truncated(PROBS, [0, 0, 0, 1], prune=1.5)
