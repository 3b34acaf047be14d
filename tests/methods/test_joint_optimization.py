"""Joint optimisation of a net and its labels: METHODS.md 6."""

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

import selfadapt
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput
from selfadapt.methods.joint_optimization import balance

RELABEL = "joint_optimization:Relabel"


def by_the_book(z: np.ndarray, targets: np.ndarray, a: float, b: float) -> float:
    """L_c + a·L_p + b·L_e over one batch."""
    p, log_p = reference.softmax(z), reference.log_softmax(z)
    classification = -(targets * log_p).sum(axis=1).mean()
    prior = -np.log(p.mean(axis=0)).mean()
    entropy = -(p * log_p).sum(axis=1).mean()
    return float(classification + a * prior + b * entropy)


def slope(function: Callable[[np.ndarray], float], z: np.ndarray) -> np.ndarray:
    """The gradient, by differences."""
    found, step = np.zeros_like(z), 1e-5
    for place in np.ndindex(*z.shape):
        nudge = np.zeros_like(z)
        nudge[place] = step
        found[place] = (function(z + nudge) - function(z - nudge)) / (2 * step)
    return found


def test_golden_values() -> None:
    def value(**knobs: float) -> float:
        return reduced(build(RELABEL, **knobs)(batch(reference.Z), 0)).item()

    plain = value(prior=0.0, entropy=0.0)
    assert plain == pytest.approx(0.75126446, abs=1e-6)
    assert value(prior=1.2, entropy=0.8) == pytest.approx(2.69469123, abs=1e-6)
    assert value(prior=1.0, entropy=0.0) - plain == pytest.approx(1.21985912, abs=1e-6)
    assert value(prior=0.0, entropy=1.0) - plain == pytest.approx(0.59949477, abs=1e-6)


def test_loss_and_gradient() -> None:
    z, y = random_case(n=12)
    z, rows = z / 2, np.arange(12)
    targets = np.random.default_rng(1).dirichlet(np.ones(5), 12)
    method = build(RELABEL, y, 5, prior=0.7, entropy=0.3)
    method.targets.copy_(torch.tensor(targets))
    logits = torch.tensor(z, requires_grad=True)
    loss = reduced(method(batch(logits, rows, y), 0))
    loss.backward()
    assert loss.item() == pytest.approx(by_the_book(z, targets, 0.7, 0.3), abs=1e-6)
    assert logits.grad is not None
    expected = slope(lambda moved: by_the_book(moved, targets, 0.7, 0.3), z)
    np.testing.assert_allclose(logits.grad, expected, atol=1e-7)


def test_the_prior_does_not_pull_at_balanced_predictions() -> None:
    z = np.stack([np.roll([2.0, 1.0, 0.0], turn) for turn in range(3)])
    logits = torch.tensor(z, requires_grad=True)
    probs = logits.softmax(dim=1)
    balance(probs, probs.detach().mean(dim=0)).mean().backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad, 0, atol=1e-12)


def test_the_prior_of_a_batch_in_parts() -> None:
    """Two processes' gradients add up to that of the whole batch, which no part knows by itself."""
    z, _ = random_case(n=12)
    logits = torch.tensor(z, requires_grad=True)
    probs = logits.softmax(dim=1)
    mean = probs.detach().mean(dim=0)
    (sum(balance(part, mean).sum() for part in probs.split([5, 7])) / 12).backward()
    whole = torch.tensor(z, requires_grad=True)
    (-whole.softmax(dim=1).mean(dim=0).log().mean()).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad, whole.grad, atol=1e-12)


def test_a_class_that_is_never_predicted_does_no_harm() -> None:
    logits = torch.tensor([[300.0, 0.0, 0.0]] * 2, requires_grad=True)
    loss = reduced(build(RELABEL)(batch(logits), 0))
    loss.backward()
    assert torch.isfinite(loss)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


N, CLASSES = 20, 4


def relabelled(epochs: int, begin: int, average: int = 10, seen: int = N) -> tuple[Any, list]:
    """A method that has been through so many epochs, and its targets and what was said in each."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, N)
    method = build(RELABEL, labels, CLASSES, begin=begin, average=average)
    method.epochs = 200
    feed = Feed(InMemory(torch.zeros(N, 1)), np.arange(N))
    story = []
    for epoch in range(epochs):
        z = random.normal(size=(N, CLASSES)) * 2
        for rows in np.split(random.permutation(seen), [7]):
            method(batch(z[rows], rows, labels), epoch)
        method.end_epoch(epoch, feed)
        story.append((method.targets.clone().numpy(), reference.softmax(z)))
    return method, story


def test_labels_move_for_the_first_time_at_the_end_of_epoch_begin() -> None:
    method, story = relabelled(epochs=72, begin=70)
    assert method.facts() == {"begin": 70}
    given = story[0][0]
    assert sorted(given.sum(axis=1)) == [1] * N
    assert [bool((targets == given).all()) for targets, _ in story] == [True] * 69 + [False] * 3
    for epoch in (69, 70, 71):
        expected = np.mean([said for _, said in story[epoch - 9 : epoch + 1]], axis=0)
        np.testing.assert_allclose(story[epoch][0], expected, atol=1e-6)


def test_begin_is_a_share_of_the_run_as_well() -> None:
    method = build(RELABEL)
    method.epochs = 200
    assert method.facts() == {"begin": 70}
    method.epochs = 20
    assert method.facts() == {"begin": 7}


@pytest.mark.parametrize("average", [1, 3, 10])
def test_the_mean_is_over_the_epochs_there_were(average: int) -> None:
    _, story = relabelled(epochs=5, begin=2, average=average)
    for epoch in range(1, 5):
        first = max(0, epoch + 1 - average)
        expected = np.mean([said for _, said in story[first : epoch + 1]], axis=0)
        np.testing.assert_allclose(story[epoch][0], expected, atol=1e-6)


def test_who_is_never_seen_keeps_the_label_given() -> None:
    method, story = relabelled(epochs=4, begin=1, seen=15)
    given = build(RELABEL, np.random.default_rng(0).integers(0, CLASSES, N), CLASSES).targets
    np.testing.assert_array_equal(method.targets[15:], given[15:])
    assert (story[-1][0][:15] != given[:15].numpy()).all()


def test_the_last_stage_learns_what_it_was_handed() -> None:
    z, y = random_case()
    targets = np.random.default_rng(1).dirichlet(np.ones(5), 40)
    method, rows = build("joint_optimization", y, 5), np.arange(40)
    plain = method(batch(z, rows, y), 0).values
    np.testing.assert_allclose(plain, reference.cross_entropies(z, reference.one_hot(y, 5)))
    method.take_over({"targets": torch.tensor(targets)})
    values = method(batch(z[::-1].copy(), rows[::-1].copy(), y), 0).values
    np.testing.assert_allclose(
        values, reference.cross_entropies(z, targets)[::-1], rtol=1e-5, atol=1e-6
    )
    method.end_epoch(0, Feed(InMemory(torch.zeros(40, 1)), rows))
    np.testing.assert_allclose(method.beliefs(), targets, atol=1e-7)


SETTINGS = {
    "train.epochs": 3,
    "train.batch": 30,
    "train.lr": 0.2,
    "corruption.name": "uniform",
    "train.schedule": "milestones",
    "train.milestones": [1, 2],
}


def fit(out: Path, **knobs: Any) -> Any:
    settings = SETTINGS | {f"method.{name}": value for name, value in knobs.items()}
    known: dict[str, Any] = {"method": "joint_optimization", "net": "mlp", "settings": settings}
    return selfadapt.fit(blobs(), out=out, **known)


def test_a_run_and_its_stage(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", relabel_lr=0.08)
    stage = selfadapt.open_run(tmp_path / "run" / "stages" / "relabel")
    assert [line["lr"] for line in stage.log] == [0.08] * 5, "5 epochs to 3, as 200 to 120"
    assert [line["lr"] for line in run.log] == pytest.approx([0.2, 0.02, 0.002])
    assert [line["labels_changed"] > 0 for line in stage.log] == [False] + [True] * 4
    handed = stage.method().targets
    assert torch.equal(run.method().targets, handed)
    assert torch.equal(run.method().beliefs(), handed)
    classes = [run.classes[place] for place in handed.argmax(dim=1).tolist()]
    corrected = run.labels["corrected"].to_pylist()
    assert [str(label) for label in corrected] == [str(name) for name in classes]


@pytest.mark.parametrize(("asked", "epochs"), [(4, 4), (2.0, 6), (0.1, 1)])
def test_how_long_the_first_stage_is(asked: int | float, epochs: int, tmp_path: Path) -> None:
    run = fit(tmp_path / "run", relabel_epochs=asked)
    assert [stage["epochs"] for stage in run.result["stages"]] == [epochs]
    stage = selfadapt.open_run(tmp_path / "run" / "stages" / "relabel")
    assert {line["lr"] for line in stage.log} == {0.2}, "of the run, if none is asked for"


def test_a_stage_in_which_no_label_would_move(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"method\.begin=7 lies after the last of the 6 epochs"):
        fit(tmp_path / "run", relabel_epochs=6, begin=7)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"begin": 1.5}, r"method\.begin is a number of epochs"),
        ({"prior": -0.1}, r"method\.prior and method\.entropy are weights"),
        ({"entropy": -0.1}, r"method\.prior and method\.entropy are weights"),
        ({"average": 0}, r"method\.average must be at least 1"),
    ],
)
@pytest.mark.parametrize("name", ["joint_optimization", RELABEL])
def test_knobs_outside(name: str, knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        build(name, **knobs)


@pytest.mark.parametrize("epochs", [0, -3, 0.0])
def test_no_epochs(epochs: int | float) -> None:
    with pytest.raises(BadInput, match=r"method\.relabel_epochs is a number of epochs"):
        build("joint_optimization", relabel_epochs=epochs)


def test_it_recovers_labels(tmp_path: Path) -> None:
    settings = {
        "train.epochs": 6,
        "train.batch": 30,
        "train.lr": 0.05,
        "corruption.name": "uniform",
        "corruption.rate": 0.5,
    }
    known: dict[str, Any] = {"method": "joint_optimization", "net": "mlp", "settings": settings}
    run = selfadapt.fit(blobs(400), out=tmp_path / "run", **known)
    assert run.result["labels_right"] > 1 - run.result["error_rate"] + 0.1
