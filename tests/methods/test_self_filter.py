"""SELF, filtering by ensembles of predictions: METHODS.md 9."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from common import build, random_case
from support import blobs
from torch import nn

import selfadapt
from selfadapt import methods
from selfadapt.batch import Batch
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput
from selfadapt.methods import Method, Stage, Validation
from selfadapt.methods.self_filter import SelfFilter


def pair(z: Any, other: Any, y: np.ndarray) -> Batch:
    """All samples, what the net sees of them, and what its teacher does."""
    rows = torch.arange(len(y))
    return Batch(rows, torch.as_tensor(z), torch.as_tensor(y), (torch.as_tensor(other),))


def numpy_values(
    z: np.ndarray, other: np.ndarray, y: np.ndarray, labelled: np.ndarray, weight: float
) -> np.ndarray:
    given = labelled * reference.cross_entropies(z, reference.one_hot(y, z.shape[1]))
    apart = ((reference.softmax(z) - reference.softmax(other)) ** 2).sum(axis=1) / z.shape[1]
    return given + weight * apart


def half_filtered() -> tuple[Method, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    z, y = random_case()
    other = np.random.default_rng(1).normal(size=z.shape)
    method = build("self_filter", y, 5, consistency=30.0, ramp=4)
    labelled = np.arange(40) % 2 == 0
    method.labelled.copy_(torch.tensor(labelled))
    return method, z, other, y, labelled


@pytest.mark.parametrize("epoch", [0, 1, 4, 9])
def test_the_equation(epoch: int) -> None:
    method, z, other, y, labelled = half_filtered()
    weight = 30 * math.exp(-5 * (1 - min(epoch, 4) / 4) ** 2)
    out = method(pair(z, other, y), epoch)
    np.testing.assert_allclose(
        out.values, numpy_values(z, other, y, labelled, weight), rtol=1e-6, atol=1e-9
    )
    assert out.weights.tolist() == [1] * 40
    assert torch.equal(out.logits, torch.tensor(z))


def test_a_filtered_sample_learns_from_the_teacher_and_not_from_its_label() -> None:
    method, z, other, y, labelled = half_filtered()
    logits, views = torch.tensor(z, requires_grad=True), torch.tensor(other, requires_grad=True)
    method(pair(logits, views, y), 9).values.sum().backward()
    p, q = reference.softmax(z), reference.softmax(other)
    inner = (p * (p - q)).sum(axis=1, keepdims=True)
    from_teacher = 30 * 2 / 5 * p * ((p - q) - inner)
    from_label = p - reference.one_hot(y, 5)
    assert logits.grad is not None
    expected = from_teacher + labelled[:, None] * from_label
    np.testing.assert_allclose(logits.grad, expected, atol=1e-8)
    assert (np.abs(logits.grad.numpy()[~labelled]).max(axis=1) > 1e-6).all()
    assert views.grad is None, "no gradient reaches the teacher"


def test_the_weight_need_not_rise() -> None:
    assert build("self_filter", ramp=0).weight(0) == 100


def test_the_teacher_follows_the_net() -> None:
    """d_eff = min(1 - 1/(s+1), d): 1/2, 2/3, 3/4, then d."""
    torch.manual_seed(0)
    method = methods.build(
        "self_filter", lambda n: nn.Linear(4, n), torch.tensor([0, 1]), 2, {"decay": 0.75}
    )
    ours = [p.detach().double().numpy() for p in method.teacher.parameters()]
    for keep in (1 / 2, 2 / 3, 3 / 4, 3 / 4, 3 / 4):
        with torch.no_grad():
            for p in method.net.parameters():
                p.add_(torch.randn_like(p))
        method.after_step()
        nets = [p.detach().double().numpy() for p in method.net.parameters()]
        ours = [keep * t + (1 - keep) * p for t, p in zip(ours, nets, strict=True)]
        for expected, found in zip(ours, method.teacher.parameters(), strict=True):
            np.testing.assert_allclose(found.detach(), expected, atol=1e-6)
            assert not found.requires_grad


class Table(nn.Module):
    """A net that gives sample number x the logits of its row."""

    def __init__(self, logits: np.ndarray) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits[x[:, 0].long()]


def of_table(logits: np.ndarray, y: np.ndarray, rows: np.ndarray, **knobs: Any) -> tuple:
    method = methods.build("self_filter", lambda _: Table(logits), torch.tensor(y), 3, knobs)
    method.epochs = 6
    x = torch.arange(len(y), dtype=torch.float32)[:, None]
    return method, Feed(InMemory(x), rows, batch=4)


def say(method: Method, logits: np.ndarray) -> None:
    with torch.no_grad():
        method.teacher.logits.copy_(torch.tensor(logits))


def test_predictions_are_averaged_over_epochs_of_the_teacher() -> None:
    random = np.random.default_rng(3)
    y, rows = random.integers(0, 3, 12), np.array([0, 2, 3, 5, 8, 9, 11])
    method, feed = of_table(np.zeros((12, 3)), y, rows, momentum=0.8)
    z̄ = np.zeros((12, 3))
    for epoch in range(5):
        logits = random.normal(size=(12, 3))
        say(method, logits)
        method.train()
        method.end_epoch(epoch, feed)
        assert method.teacher.training, "as it was"
        z̄[rows] = 0.8 * z̄[rows] + 0.2 * reference.softmax(logits)[rows]
        np.testing.assert_allclose(method.ensemble, z̄, atol=1e-6)
    expected = reference.one_hot(y, 3)
    expected[rows] = z̄[rows] / z̄[rows].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(method.beliefs(), expected, atol=1e-6)


def after_rounds(*predictions: list[int]) -> list[list[bool]]:
    """Which labels teach after each round whose teacher predicts this of six samples of class 0."""
    y, found = np.zeros(6, int), []
    handed: dict[str, torch.Tensor] = {}
    for number, classes in enumerate(predictions):
        method, feed = of_table(np.zeros((6, 3)), y, np.arange(6))
        if handed:
            method.take_over(handed)
            found.append(method.labelled.tolist())
        say(method, 5 * reference.one_hot(classes, 3))
        method.end_epoch(0, feed)
        method.validated(0, Validation(0.1 * (number + 1), 1.0))
        handed = method.hand_over(feed)
    method, _ = of_table(np.zeros((6, 3)), y, np.arange(6))
    method.take_over(handed)
    assert int(method.round) == len(predictions)
    return [*found, method.labelled.tolist()]


def test_labels_are_filtered_anew_from_all_of_them_after_each_round() -> None:
    first, second = after_rounds([0, 0, 1, 2, 0, 1], [0, 1, 0, 2, 0, 1])
    assert first == [True, True, False, False, True, False]
    assert second == [True, False, True, False, True, False], "a label can come back"


def test_the_filter_is_that_of_the_best_epoch_of_all_rounds() -> None:
    y = np.zeros(4, int)
    method, feed = of_table(np.zeros((4, 3)), y, np.arange(4), momentum=0.0)
    for epoch, (accuracy, classes) in enumerate(
        [(0.5, [1, 1, 1, 1]), (0.7, [0, 1, 0, 1]), (0.7, [0, 0, 0, 0]), (0.6, [2, 2, 2, 2])]
    ):
        say(method, 5 * reference.one_hot(classes, 3))
        method.end_epoch(epoch, feed)
        assert method.validated(epoch, Validation(accuracy, 1.0)) is False
    handed = method.hand_over(feed)
    after, _ = of_table(np.zeros((4, 3)), y, np.arange(4), momentum=0.0)
    after.take_over(handed)
    assert after.labelled.tolist() == [True, False, True, False]
    say(after, 5 * reference.one_hot([0, 0, 0, 0], 3))
    after.end_epoch(0, feed)
    after.validated(0, Validation(0.69, 1.0))
    again, _ = of_table(np.zeros((4, 3)), y, np.arange(4))
    again.take_over(after.hand_over(feed))
    assert again.labelled.tolist() == [True, False, True, False], "worse than the round before"


def test_at_the_end_the_best_teacher_predicts() -> None:
    y, best = np.zeros(4, int), np.random.default_rng(0).normal(size=(4, 3))
    method, feed = of_table(best, y, np.arange(4), momentum=0.0)
    method.end_epoch(0, feed)
    method.validated(0, Validation(0.7, 1.0))
    beliefs = method.beliefs()
    say(method, -best)
    method.end_epoch(5, feed)
    x = feed.plain(np.arange(4))
    np.testing.assert_allclose(method.predict(x).detach(), reference.softmax(-best), atol=1e-6)
    assert method.validated(5, Validation(0.6, 1.0)) is True
    for _ in range(2):
        np.testing.assert_allclose(method.predict(x).detach(), reference.softmax(best), atol=1e-6)
        assert torch.equal(method.beliefs(), beliefs)
        assert method.validated(5, Validation(0.7, 1.0)) is True, "told again after a restart"


def test_each_round_takes_samples_in_another_order() -> None:
    method, feed = of_table(np.zeros((30, 3)), np.zeros(30, int), np.arange(30))
    orders = []
    for number in range(3):
        method.round.fill_(number)
        orders.append(np.concatenate(method.batches(2, feed)).tolist())
    assert all(sorted(order) == list(range(30)) for order in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    method.round.fill_(0)
    assert all(map(np.array_equal, method.batches(2, feed), feed.batches(2)))


def stages_for(rounds: int, *accuracies: float) -> tuple[list[Stage], str | None]:
    """The stages that are asked for when their best teachers are that good."""
    todo, asked = SelfFilter.stages({"rounds": rounds, "ramp": 3}, {}), []
    results = iter(accuracies)
    try:
        asked.append(next(todo))
        while True:
            good = next(results)
            misleading = {"accuracy": 1 - good, "accuracy_best_validation": 1 - good}
            asked.append(todo.send({"best_validation_accuracy": good, **misleading}))
    except StopIteration as stop:
        return asked, stop.value


@pytest.mark.parametrize(
    ("rounds", "accuracies", "expected"),
    [
        (1, [], 0),
        (2, [0.5], 1),
        (4, [0.5, 0.6, 0.7], 3),
        (5, [0.5, 0.6, 0.6], 3),
        (5, [0.5, 0.4], 2),
    ],
)
def test_rounds_go_on_while_they_are_better_on_noisy_validation(
    rounds: int, accuracies: list[float], expected: int
) -> None:
    asked, after = stages_for(rounds, *accuracies)
    assert [stage.name for stage in asked] == [f"round-{i}" for i in range(expected)]
    assert after == (f"round-{expected - 1}" if expected else None)
    for stage in asked:
        assert stage.method == "self_filter"
        assert stage.knobs == {"rounds": 1, "ramp": 3}
        assert stage.train == {}


SETTINGS = {
    "train.epochs": 4,
    "train.batch": 30,
    "train.lr": 0.1,
    "train.precision": "fp32",
    "data.validation": 0.2,
    "corruption.name": "uniform",
    "corruption.rate": 0.4,
    "method.ramp": 2,
    "method.decay": 0.8,
    "net.width": 16,
}


def test_a_run_has_the_best_teacher_of_all_rounds(tmp_path: Path) -> None:
    run = selfadapt.fit(
        blobs(), out=tmp_path / "run", method="self_filter", net="mlp", settings=SETTINGS
    )
    rounds = [selfadapt.open_run(tmp_path / "run" / "stages" / "round-0"), run]
    if (tmp_path / "run" / "stages" / "round-1").exists():
        rounds.insert(1, selfadapt.open_run(tmp_path / "run" / "stages" / "round-1"))
    best = 0.0
    for number, one in enumerate(rounds):
        assert int(one.method().round) == number
        best = max(best, *(line["validation_accuracy"] for line in one.log))
        assert one.log[-1]["validation_accuracy"] == one.result["best_validation_accuracy"] == best
    assert 0 < run.method().labelled.float().mean() < 1
    assert run.result["had_true_labels"] is False


@pytest.mark.parametrize(
    "knobs",
    [
        {"rounds": 0},
        {"ramp": -1},
        {"consistency": -1.0},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"decay": 1.0},
    ],
)
def test_knobs_outside(knobs: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=rf"method\.{next(iter(knobs))}"):
        build("self_filter", **knobs)
