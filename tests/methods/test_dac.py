"""The deep abstaining classifier, and what it cleans: METHODS.md 8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced
from support import blobs
from torch import nn

import selfadapt
from selfadapt import methods
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput
from selfadapt.methods import Validation
from selfadapt.methods.dac import kept

STAGE = "dac:Abstaining"
Z = np.array([[2.0, 1.0, 0.0, 0.5], [0.0, 0.0, 3.0, -1.0]])


def answered(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(1 - p_a)·H of each sample."""
    p_a = np.minimum(reference.softmax(z)[:, -1], 1 - 1e-7)
    hard = reference.cross_entropies(z[:, :-1], reference.one_hot(y, z.shape[1] - 1))
    return (1 - p_a) * hard


def by_the_book(z: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    p_a = np.minimum(reference.softmax(z)[:, -1], 1 - 1e-7)
    return answered(z, y) - alpha * np.log(1 - p_a)


def at_price(alpha: float, labels: Any = reference.Y, classes: int = 3) -> Any:
    """In its first epoch after the warm-up, with this price of abstaining."""
    method = build(STAGE, labels, classes, warmup=0)
    method.first_alpha.fill_(alpha)
    return method


def slope(function: Callable[[np.ndarray], float], z: np.ndarray) -> np.ndarray:
    """The gradient, by differences."""
    found, step = np.zeros_like(z), 1e-5
    for place in np.ndindex(*z.shape):
        nudge = np.zeros_like(z)
        nudge[place] = step
        found[place] = (function(z + nudge) - function(z - nudge)) / (2 * step)
    return found


def test_golden_values() -> None:
    method = at_price(0.01)
    assert reduced(method(batch(Z), 0)).item() == pytest.approx(0.66029488, abs=1e-6)
    assert method.average.item() == pytest.approx(0.65952028, abs=1e-6)
    with torch.no_grad():
        doubt = method.abstain(torch.tensor(Z))
    assert doubt.tolist() == pytest.approx([0.12925005, 0.01638412], abs=1e-6)


def test_golden_schedule() -> None:
    """200 epochs, 20 of them warm-up, b = 1.28 when they are over."""
    method = build(STAGE, warmup=20)
    method.epochs = 200
    method.average.fill_(1.28)
    assert method.alpha(20).item() == pytest.approx(0.02, abs=1e-6)
    method.average.fill_(5.0)  # no longer of any consequence
    assert method.alpha(21).item() == pytest.approx(0.02547486, abs=1e-6)
    assert method.alpha(199).item() == pytest.approx(1.0, abs=1e-6)


def test_the_price_falls_if_it_begins_above_its_end() -> None:
    method = build(STAGE, warmup=2, final=0.5)
    method.epochs = 12
    method.average.fill_(64.0)
    assert [method.alpha(e).item() for e in (2, 3, 11)] == pytest.approx([1, 1 - 0.5 / 9, 0.5])


def test_loss_and_gradient() -> None:
    z, y = random_case(n=12, classes=6)
    z, y = z / 2, y % 5
    logits = torch.tensor(z, requires_grad=True)
    out = at_price(0.3, y, 5)(batch(logits, np.arange(12), y), 0)
    np.testing.assert_allclose(out.values.detach(), by_the_book(z, y, 0.3), atol=1e-6)
    assert out.logits.shape == (12, 5)
    out.values.sum().backward()
    assert logits.grad is not None
    expected = slope(lambda moved: by_the_book(moved, y, 0.3).sum(), z)
    np.testing.assert_allclose(logits.grad, expected, atol=1e-6)


def test_who_never_abstains_has_cross_entropy() -> None:
    z, y = random_case(n=12, classes=5)
    sure = np.concatenate([z, np.full((12, 1), -1e4)], axis=1)
    values = at_price(0.3, y, 5)(batch(sure, np.arange(12), y), 0).values
    expected = reference.cross_entropies(z, reference.one_hot(y, 5))
    np.testing.assert_allclose(values, expected, atol=1e-9)


def test_who_always_abstains_has_a_finite_loss() -> None:
    for dtype in (torch.float32, torch.float16):
        logits = torch.tensor([[0.0, 0.0, 0.0, 6e4]] * 2, dtype=dtype, requires_grad=True)
        out = at_price(1.0)(batch(logits), 0)
        out.values.sum().backward()
        assert out.values.tolist() == pytest.approx([-np.log(1e-7)] * 2, rel=1e-5)
        assert logits.grad is not None
        assert torch.isfinite(logits.grad).all()


def test_the_warm_up_is_cross_entropy_over_all_outputs() -> None:
    method = build(STAGE, warmup=1)
    values = method(batch(Z), 0).values
    np.testing.assert_allclose(
        values, reference.cross_entropies(Z, reference.one_hot(reference.Y, 4)), rtol=1e-6
    )
    assert method.first_alpha < 0, "no price is fixed yet"
    method(batch(Z), 1)
    assert method.first_alpha > 0


def test_the_average_and_what_the_price_begins_with() -> None:
    """b <- μ·mean + (1 - μ)·b from the first batch on; of the first batch after the warm-up too,
    before α is made of it."""
    labels = np.random.default_rng(0).integers(0, 3, 40)
    method = build(STAGE, labels, warmup=2, mu=0.2, factor=8.0)
    method.epochs = 6
    b, alphas = None, {}
    for epoch in range(6):
        for step in range(3):
            z = random_case(10 * epoch + step, 40, 4)[0] / 3
            mean = answered(z, labels).mean()
            b = mean if b is None else 0.2 * mean + 0.8 * b
            values = method(batch(z, np.arange(40), labels), epoch).values
            assert method.average.item() == pytest.approx(b, rel=1e-5)
            if epoch < 2:
                continue
            alphas.setdefault(2, b / 8)
            alphas[epoch] = alphas[2] + (epoch - 2) * (1 - alphas[2]) / 3
            expected = by_the_book(z, labels, alphas[epoch])
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    assert alphas[5] == pytest.approx(1)


def test_predictions_are_among_the_classes() -> None:
    method = build(STAGE)
    with torch.no_grad():
        found = method.predict(torch.tensor(Z))
    np.testing.assert_allclose(found, reference.softmax(Z[:, :3]), atol=1e-6)


def test_what_each_rule_keeps() -> None:
    logits = torch.tensor(
        [[3.0, 1, 0, 2], [3, 1, 0, 4], [1, 3, 0, 2], [1, 3, 0, 4]]  # the last output abstains
    )
    given = torch.zeros(4, dtype=torch.int64)
    assert kept(logits, given, "nonabstaining_error").tolist() == [True, True, False, False]
    assert kept(logits, given, "abstained").tolist() == [True, False, True, False]


class Table(nn.Module):
    """A net that gives sample number x the logits of its row, and abstains from each third."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        logits = torch.eye(outputs)[torch.arange(9) % (outputs - 1)]
        logits[::3, -1] = 2
        self.logits = nn.Parameter(logits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits[x[:, 0].long()]


def stage(**knobs: Any) -> tuple[Any, Feed]:
    """Nine samples of classes 0, 1, 2, 0, …, all labelled 0; the first two are held out."""
    labels = torch.zeros(9, dtype=torch.int64)
    method = methods.build(STAGE, Table, labels, 3, {"warmup": 1, **knobs})
    method.epochs = 4
    x = torch.arange(9, dtype=torch.float32)[:, None]
    return method, Feed(InMemory(x), np.arange(2, 9))


def test_what_is_handed_over() -> None:
    for rule, rows in (("nonabstaining_error", [3, 6]), ("abstained", [2, 4, 5, 7, 8])):
        method, feed = stage(rule=rule)
        found = method.hand_over(feed)["kept"]
        assert found.nonzero()[:, 0].tolist() == rows


def test_nothing_is_left() -> None:
    method, feed = stage(rule="abstained")
    method.net.logits.data[:, -1] = 2
    with pytest.raises(BadInput, match="has dropped all 7 training samples"):
        method.hand_over(feed)


@pytest.mark.parametrize(("choose", "chosen"), [("noisy", 1), ("clean", 2)])
def test_the_best_epoch_after_the_warm_up_cleans(choose: str, chosen: int) -> None:
    """By noisy labels unless it may look at others; the first of equals."""
    method, _ = stage(choose=choose)
    assert method.needs_true_labels is (choose == "clean")
    seen = {"noisy": [(0.9, None), (0.6, None), (0.6, None), (0.5, None)]}
    seen["clean"] = [(0.9, 0.9), (0.6, 0.3), (0.5, 0.4), (0.7, 0.4)]
    for epoch, (noisy, true) in enumerate(seen[choose]):
        method.net.logits.data.fill_(epoch)
        assert method.validated(epoch, Validation(noisy, 1.0, true)) is (epoch == 3)
    assert (method.net.logits == chosen).all()


def test_the_last_stage_trains_on_what_is_left() -> None:
    labels = torch.zeros(9, dtype=torch.int64)
    method = methods.build("dac", Table, labels, 3, {})
    feed = Feed(InMemory(torch.zeros(9, 1)), np.arange(2, 9), batch=3)
    assert sorted(np.concatenate(method.batches(0, feed))) == [2, 3, 4, 5, 6, 7, 8]
    mask = torch.tensor([True, False, False, True, True, False, True, True, True])
    method.take_over({"kept": mask})
    assert method.facts() == {"kept": 6}
    for epoch in range(3):
        assert sorted(np.concatenate(method.batches(epoch, feed))) == [3, 4, 6, 7, 8]
    z, y = random_case(n=9, classes=3)
    values = build("dac", y)(batch(z, np.arange(9), y), 0).values
    np.testing.assert_allclose(values, reference.cross_entropies(z, reference.one_hot(y, 3)))


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"warmup": 1.5}, r"method\.warmup is a number of epochs"),
        ({"factor": 0.0}, r"method\.factor must be above 0"),
        ({"final": -1.0}, r"method\.final at least 0"),
        ({"mu": 0.0}, r"method\.mu in \(0, 1\]"),
        ({"rule": "abstain"}, r"Did you mean 'abstained'"),
    ],
)
@pytest.mark.parametrize("name", ["dac", STAGE])
def test_knobs_outside(name: str, knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        build(name, **knobs)


SETTINGS = {
    "train.epochs": 6,
    "train.batch": 30,
    "train.precision": "fp32",
    "corruption.name": "uniform",
    "data.validation": 0.2,
}


def fit(out: Path, **knobs: Any) -> Any:
    settings = SETTINGS | {f"method.{name}": value for name, value in knobs.items()}
    return selfadapt.fit(blobs(300), out=out, method="dac", net="mlp", settings=settings)


def test_a_run_and_its_stage(tmp_path: Path) -> None:
    run = fit(tmp_path / "run")
    first = selfadapt.open_run(tmp_path / "run" / "stages" / "abstaining")
    table = first.labels
    guess = first.predict(selfadapt.load(blobs(300)).inputs.values.numpy())
    given = np.array(table["given"].to_pylist())
    trained = np.array(table["part"].to_pylist()) == "train"
    expected = trained & (guess == given)
    assert 0 < expected.sum() < trained.sum()
    assert (run.method().kept.numpy() == expected).all()
    assert run.about["resolved"]["kept"] == expected.sum()
    assert run.result["had_true_labels"] is False
    true = np.array(table["true"].to_pylist())
    wrong = given != true
    assert wrong[expected].mean() < wrong[trained].mean() / 2, "it has cleaned"


def test_clean_labels_are_looked_at_only_by_name(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", choose="clean")
    assert run.result["had_true_labels"] is True


def test_a_warm_up_without_end(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"method\.warmup=6 leaves no epoch of 6"):
        fit(tmp_path / "run", warmup=6)
    assert not (tmp_path / "run").exists()
