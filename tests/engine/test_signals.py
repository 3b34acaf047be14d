"""What is collected while training, against sums and counts taken one visit at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt.engine.signals import Signals


class Slow:
    """A history of every sample, looked through afterwards."""

    def __init__(self, labels: np.ndarray, classes: int) -> None:
        self.labels, self.classes = labels, classes
        self.history: list[list[np.ndarray]] = [[] for _ in labels]

    def record(self, rows: np.ndarray, z: np.ndarray) -> None:
        for row, logits in zip(rows, z, strict=True):
            self.history[row].append(np.asarray(logits, np.float64))

    def margin(self, row: int, z: np.ndarray) -> float:
        label = self.labels[row]
        return float(z[label] - max(v for j, v in enumerate(z) if j != label))

    def averages(self) -> dict[str, np.ndarray]:
        n = len(self.labels)
        probs, margins = np.zeros((n, self.classes)), np.zeros(n)
        visits, forgotten = np.zeros(n, int), np.zeros(n, int)
        for row, seen in enumerate(self.history):
            visits[row] = len(seen)
            if seen:
                probs[row] = np.mean([reference.softmax(z) for z in seen], axis=0)
                margins[row] = np.mean([self.margin(row, z) for z in seen])
            right = [self.margin(row, z) > 0 for z in seen]
            forgotten[row] = sum(a and not b for a, b in itertools.pairwise(right))
        return {
            "mean_probs": probs,
            "mean_margin": margins,
            "visits": visits,
            "forgotten": forgotten,
        }


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 25), st.integers(2, 5), st.integers(0, 1000))
def test_signals_against_the_slow_version(n: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    signals, slow = Signals(torch.tensor(labels), classes), Slow(labels, classes)
    for _ in range(30):
        rows = rng.permutation(n)[: rng.integers(1, n + 1)]
        z = (2 * rng.normal(size=(len(rows), classes))).astype(np.float32)
        signals.record(torch.tensor(rows), torch.tensor(z))
        slow.record(rows, z)
    fast = signals.averages()
    for name, expected in slow.averages().items():
        assert fast[name].numpy() == pytest.approx(expected, abs=1e-5), name


def test_forgotten_counts_each_fall_from_right_to_wrong() -> None:
    signals, rows = Signals(torch.tensor([0, 0, 0]), 2), torch.arange(3)
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    first = [right, wrong, right, right, wrong]
    second = [wrong, wrong, wrong, right, right]
    for both in zip(first, second, strict=True):
        signals.record(rows[:2], torch.tensor(both))
    assert signals.averages()["forgotten"].tolist() == [2, 0, 0]
    assert signals.averages()["visits"].tolist() == [5, 5, 0]
    assert signals.averages()["mean_margin"].tolist() == pytest.approx([0.2, -0.2, 0])
    assert signals.averages()["mean_probs"][2].tolist() == [0, 0]


def test_a_tie_is_not_right() -> None:
    signals = Signals(torch.tensor([0]), 3)
    for logits in ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]):
        signals.record(torch.tensor([0]), torch.tensor([logits]))
    assert signals.averages()["forgotten"].tolist() == [1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_summed_in_fp32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    labels, logits = torch.randint(0, 4, (10,)), torch.randn(10, 4).to(dtype)
    half, full = Signals(labels, 4), Signals(labels, 4)
    half.record(torch.arange(10), logits)
    full.record(torch.arange(10), logits.float())
    for name, expected in full.averages().items():
        assert torch.equal(half.averages()[name], expected)


def test_state_dict_round_trip() -> None:
    labels = torch.tensor([0, 1])
    one, other = Signals(labels, 2), Signals(labels, 2)
    one.record(torch.arange(2), torch.tensor([[1.0, 0], [0, 1]]))
    other.load_state_dict(one.state_dict())
    for signals in (one, other):
        signals.record(torch.arange(2), torch.tensor([[0.0, 1], [0, 1]]))
    for name, expected in one.averages().items():
        assert torch.equal(other.averages()[name], expected)
    assert one.averages()["forgotten"].tolist() == [1, 0]


def test_signals_are_kept_below_two_gigabytes() -> None:
    assert Signals.fit_in_memory(50_000, 10)
    assert not Signals.fit_in_memory(1_281_167, 1000)
