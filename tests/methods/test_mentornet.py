"""MentorNet, its predefined curriculum and the one learnt from clean labels: METHODS.md 10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case
from support import blobs
from torch import nn

import selfadapt
from selfadapt import methods
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput
from selfadapt.methods._mentor import Mentor, rate, taught


def at_hundredth(number: int, **knobs: Any):
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
    method.salt += 1
    assert not torch.equal(masks[0], method._stay(rows, rows, 3)), "another seed leaves out others"


def test_the_loss_divides_by_all_samples() -> None:
    z, y = random_case()
    method = at_hundredth(50, decay=0.0, percentile=0.5)
    out = method(batch(z, np.arange(40), y), 3)
    values = reference.cross_entropies(z, reference.one_hot(y, 5))
    stay = method._stay(torch.arange(40), torch.arange(40), 3).numpy()
    expected = values * (values <= np.percentile(values, 50)) * stay
    np.testing.assert_allclose(out.values, expected, atol=1e-6)
    assert out.weights.tolist() == [1] * 40


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def numpy_mentor(mentor: Mentor, values: np.ndarray, above: np.ndarray) -> np.ndarray:
    """One step of an LSTM from nothing, c = sigmoid(i)·tanh(j), both ways; then two layers."""
    w = {name: value.double().numpy() for name, value in mentor.state_dict().items()}
    x = np.stack([values, above], axis=1)
    gate = sigmoid(x @ w["gate.weight"].T + w["gate.bias"])
    c = gate * np.tanh(x @ w["value.weight"].T + w["value.bias"])
    always = np.tile(np.concatenate([w["label"][0], w["epochs"][18]]), (len(x), 1))
    features = np.concatenate([always, c], axis=1)
    hidden = np.tanh(features @ w["hidden.weight"].T + w["hidden.bias"])
    return (hidden @ w["last.weight"].T + w["last.bias"])[:, 0]


def test_the_mentor() -> None:
    torch.manual_seed(0)
    mentor, random = Mentor(), np.random.default_rng(0)
    values, above = random.gamma(1.0, 2.0, 30), random.normal(size=30)
    found = mentor(torch.tensor(values), torch.tensor(above)).detach()
    np.testing.assert_allclose(found, numpy_mentor(mentor, values, above), atol=1e-5)
    weights = sum(value.numel() for value in mentor.parameters())
    assert weights == 2 * 2 + 2 * 6 + 20 * 9 + 20 + 20 + 1


def test_its_rate_falls_by_a_tenth_every_thousand_steps() -> None:
    assert [rate(step) for step in (0, 999, 1000, 29_999)] == pytest.approx(
        [0.1, 0.1, 0.09, 0.1 * 0.9**29]
    )


def planted(n: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses, and which labels are right: a small loss says so, but for one sample in fifty."""
    random = np.random.default_rng(1)
    right = random.random(n) < 0.6
    values = np.where(right, random.random(n) * 0.8, 1.2 + 2 * random.random(n))
    return torch.tensor(values).float(), torch.tensor(right ^ (random.random(n) < 0.02))


def test_the_mentor_learns_which_labels_are_right() -> None:
    torch.manual_seed(0)
    values, right = planted()
    before = Mentor()
    kept = {name: value.clone() for name, value in before.state_dict().items()}
    after = taught(before, values, values - values.median(), right, 300)
    assert all(torch.equal(kept[name], value) for name, value in before.state_dict().items())
    assert torch.equal(after.epochs, before.epochs), "the vector of the epoch is never trained"
    weights = after(values, values - values.median()).sigmoid()
    assert weights[values < 0.8].min() > 0.7
    assert weights[values > 1.2].max() < 0.3


@pytest.mark.parametrize("samples", [1, 5, 32, 40])
def test_a_mentor_of_few_samples(samples: int) -> None:
    values, right = planted(samples)
    mentor = taught(Mentor(), values, values, right, 10)
    assert all(torch.isfinite(value).all() for value in mentor.parameters())


class Table(nn.Module):
    """A net that gives sample number x the logits of its row."""

    def __init__(self, logits: np.ndarray) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits).float())
        self.asked: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.asked += x[:, 0].long().tolist()
        return self.logits[x[:, 0].long()]


def driven(true: np.ndarray, **knobs: Any) -> tuple[Any, Feed, np.ndarray, np.ndarray]:
    z, y = random_case(n=60)
    settings = {"curriculum": "data_driven", "mentor_steps": 20, **knobs}
    torch.manual_seed(0)
    method = methods.build("mentornet", lambda _: Table(z), torch.tensor(y), 5, settings)
    method.epochs, method.steps = 10, 5
    method.take_true_labels(torch.tensor(true))
    x = torch.arange(60, dtype=torch.float32)[:, None]
    return method, Feed(InMemory(x), np.arange(50), batch=10), z, y


def begin(method: Any, epoch: int, feed: Feed) -> list[int]:
    """As the engine does. Which rows the net was asked for."""
    method.net.asked.clear()
    method.seen.fill_(5 * epoch)
    torch.manual_seed(epoch)
    method.start_epoch(epoch, feed)
    return list(method.net.asked)


def test_the_mentor_is_taught_once_at_the_end_of_the_burn_in() -> None:
    method, feed, _, _ = driven(np.zeros(60, int))
    assert method.facts() == {"mentor": 2}
    before = method.mentor.last.weight.clone()
    for epoch in (0, 1):
        assert begin(method, epoch, feed) == []
        assert not method.learnt
    assert sorted(begin(method, 2, feed)) == list(range(50)), "no more than there are"
    assert method.learnt
    learnt = method.mentor.last.weight.clone()
    assert not torch.equal(learnt, before)
    assert begin(method, 3, feed) == []
    assert torch.equal(method.mentor.last.weight, learnt)


def test_no_more_labels_are_looked_at_than_was_asked_for() -> None:
    _, y = random_case(n=60)
    method, feed, _, _ = driven(y, clean=13)
    asked = begin(method, 2, feed)
    assert len(set(asked)) == len(asked) == 13
    other = (y + 1) % 5
    other[asked] = y[asked]
    again, feed, _, _ = driven(other, clean=13)
    begin(again, 2, feed)
    for name, value in method.mentor.state_dict().items():
        assert torch.equal(value, again.mentor.state_dict()[name]), "by the others' true labels"
    other[asked] = (y[asked] + 1) % 5
    last, feed, _, _ = driven(other, clean=13)
    begin(last, 2, feed)
    assert not torch.equal(method.mentor.last.weight, last.mentor.last.weight)


def test_samples_weigh_what_the_mentor_says() -> None:
    method, feed, z, y = driven(np.zeros(60, int), decay=0.0, percentile=0.6)
    rows, x = np.arange(60), torch.arange(60, dtype=torch.float32)[:, None]
    values = reference.cross_entropies(z, reference.one_hot(y, 5))
    begin(method, 1, feed)
    stay = method._stay(torch.arange(60), torch.arange(60), 1).numpy()
    np.testing.assert_allclose(
        method(batch(x, rows, y), 1).values.detach(), values * stay, rtol=1e-4
    )
    begin(method, 2, feed)
    stay = method._stay(torch.arange(60), torch.arange(60), 2).numpy()
    out = method(batch(x, rows, y), 2)
    above = values - np.percentile(values, 60)
    weights = sigmoid(numpy_mentor(method.mentor, values, above)) * stay
    np.testing.assert_allclose(out.values.detach(), weights * values, rtol=1e-4, atol=1e-6)
    out.values.sum().backward()
    expected = weights[:, None] * (reference.softmax(z) - reference.one_hot(y, 5))
    np.testing.assert_allclose(method.net.logits.grad, expected, atol=1e-5)
    assert all(p.grad is None for p in method.mentor.parameters())
    trained = [p for group in method.param_groups() for p in group["params"]]
    assert [p is method.net.logits for p in trained] == [True]


def test_only_the_data_driven_curriculum_is_told_true_labels(tmp_path: Path) -> None:
    settings = {"train.epochs": 6, "corruption.name": "uniform", "corruption.rate": 0.4}
    driven = {"method.curriculum": "data_driven", "method.mentor_steps": 50, "method.clean": 60}
    runs = {
        name: selfadapt.fit(
            blobs(), out=tmp_path / name, method="mentornet", net="mlp", settings=settings | knobs
        )
        for name, knobs in {"predefined": {}, "driven": driven}.items()
    }
    assert {name: run.result["had_true_labels"] for name, run in runs.items()} == {
        "predefined": False,
        "driven": True,
    }
    assert bool(runs["driven"].method().learnt)
    assert runs["predefined"].method().mentor is None
    settings = {"train.epochs": 2, "method.curriculum": "data_driven"}
    with pytest.raises(BadInput, match="none are known here"):
        selfadapt.fit(blobs(), out=tmp_path / "c", method="mentornet", net="mlp", settings=settings)


@pytest.mark.parametrize(
    "knobs",
    [{"percentile": 0.0}, {"percentile": 1.1}, {"decay": 1.0}, {"clean": 0}, {"mentor_steps": 0}],
)
def test_knobs_outside(knobs: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=rf"method\.{next(iter(knobs))}"):
        build("mentornet", **knobs)
    with pytest.raises(BadInput, match="predefined, data_driven"):
        build("mentornet", curriculum="taught")
