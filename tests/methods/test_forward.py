"""Forward correction, and how its matrix is estimated: METHODS.md 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced
from support import blobs

import selfadapt
from selfadapt.errors import BadInput
from selfadapt.methods import Validation
from selfadapt.methods.forward import transition

T = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])


def with_matrix(chances: np.ndarray, labels: Any = reference.Y) -> Any:
    method = build("forward", labels, len(chances))
    method.take_over({"transition": torch.tensor(chances)})
    return method


def stochastic(classes: int, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).random((classes, classes)) + 2 * np.eye(classes)
    return found / found.sum(axis=1, keepdims=True)


def test_golden_value() -> None:
    assert reduced(with_matrix(T)(batch(reference.Z), 0)).item() == pytest.approx(
        0.85236165, abs=1e-6
    )


def test_without_a_stage_it_is_cross_entropy() -> None:
    z, y = random_case()
    values = build("forward", y, 5)(batch(z / 4, np.arange(40), y), 0).values
    expected = reference.cross_entropies(z / 4, reference.one_hot(y, 5))
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_loss_and_gradient() -> None:
    """∂L/∂z_k = p_k·(1 - T_ky / q_y), q = Tᵀp."""
    z, y = random_case()
    chances, rows = stochastic(5), np.arange(40)
    logits = torch.tensor(z / 4, requires_grad=True)
    out = with_matrix(chances, y)(batch(logits, rows, y), 0)
    out.values.sum().backward()
    p = reference.softmax(z / 4)
    q = (p @ chances)[rows, y]
    np.testing.assert_allclose(out.values.detach(), -np.log(q), rtol=1e-6)
    assert logits.grad is not None
    expected = p * (1 - chances[:, y].T / q[:, None])
    np.testing.assert_allclose(logits.grad, expected, atol=1e-7)


def test_held_out_labels_are_noisy_too() -> None:
    """So they are compared with what is carried through the noise."""
    z, y = random_case()
    p, chances = reference.softmax(z / 4), stochastic(5)
    found = with_matrix(chances, y).validation_loss(torch.tensor(p), torch.tensor(y))
    np.testing.assert_allclose(found, -np.log((p @ chances)[np.arange(40), y]), rtol=1e-6)
    plain = build("erm", y, 5).validation_loss(torch.tensor(p), torch.tensor(y))
    np.testing.assert_allclose(plain, reference.cross_entropies(z / 4, reference.one_hot(y, 5)))


def test_predictions_are_held_off_zero_and_one() -> None:
    logits = torch.tensor([[500.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    values = build("forward", [1], 3)(batch(logits, [0], [1]), 0).values
    assert values.item() == pytest.approx(-np.log(1e-7))
    values.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    never = with_matrix(np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]]), [1])
    assert torch.isfinite(never(batch(np.zeros((1, 3)), [0], [1]), 0).values).all()


def planted(n: int = 1000, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of a perfect net on noisy labels: Tᵀπ for class probabilities π, of which a few
    for each class are certain; and more certain ones, which the net learned by heart."""
    random, chances = np.random.default_rng(seed), stochastic(classes)
    truth = random.dirichlet(np.ones(classes), n)
    certain = np.repeat(np.arange(classes), n // 50)
    truth[: len(certain)] = np.eye(classes)[certain]
    return truth @ chances, chances


def test_planted_anchors_are_found() -> None:
    probs, chances = planted()
    np.testing.assert_allclose(transition(probs, None), chances, atol=1e-12)
    by_heart = np.eye(4)[np.repeat(np.arange(4), 40)] * 0.996 + 0.001
    mixed = np.concatenate([by_heart, probs])
    np.testing.assert_allclose(transition(mixed, 0.97), chances, atol=1e-12)
    assert np.abs(transition(mixed, None) - chances).max() > 0.1, "these mislead without a rule"


def test_the_percentile_is_the_next_higher_value() -> None:
    """Of 0, …, 99 the 97th percentile is 97: 97, 98 and 99 are struck out and 96 is the anchor."""
    probs = np.stack([np.arange(100.0), np.arange(100.0)[::-1]], axis=1) / 99
    expected = np.array([[96, 3], [3, 96]]) / 99
    np.testing.assert_allclose(transition(probs, 0.97), expected)
    np.testing.assert_allclose(transition(probs, None), np.eye(2))


def by_the_book(probs: np.ndarray, percent: float | None) -> np.ndarray:
    rows = []
    for column in probs.T:
        allowed = np.ones(len(column), bool)
        if percent is not None:
            place = int(np.ceil(percent / 100 * (len(column) - 1)))
            allowed = column < np.sort(column)[place]
        rows.append(probs[max(np.flatnonzero(allowed), key=lambda n: column[n])])
    return np.stack(rows) / np.stack(rows).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("percent", [None, 97.0, 60.0])
@pytest.mark.parametrize("n", [40, 97, 101])
def test_the_estimate_by_the_book(n: int, percent: float | None) -> None:
    z, _ = random_case(n, n, 5)
    probs = reference.softmax(z)
    before = probs.copy()
    found = transition(probs, None if percent is None else percent / 100)
    np.testing.assert_allclose(found, by_the_book(probs, percent))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (probs == before).all()


def test_the_authors_mistake_by_name() -> None:
    """The first two samples are struck out for class 0; the second is the anchor of the others."""
    probs = np.array(
        [[0.5, 0.45, 0.05], [0.4, 0.3, 0.3], [0.3, 0.2, 0.5], [0.2, 0.5, 0.3], [0.1, 0.15, 0.75]]
    )
    np.testing.assert_allclose(transition(probs, 0.6), probs[[2, 1, 1]])
    mistaken = transition(probs, 0.6, in_place=True)
    np.testing.assert_allclose(mistaken, [[0.3, 0.2, 0.5], [0, 0.5, 0.5], [0, 0.5, 0.5]])


@pytest.mark.parametrize("name", ["forward", "forward:Estimate"])
def test_the_net_of_lowest_validation_loss_predicts(name: str) -> None:
    """Not that of highest accuracy; and only once training is over."""
    method = build_with_net(name)
    for epoch, (accuracy, loss) in enumerate([(0.9, 1.5), (0.5, 0.5), (0.7, 0.5)]):
        method.net.weight.data.fill_(epoch)
        assert not method.validated(epoch, Validation(accuracy, loss))
        assert (method.net.weight == epoch).all()
    method.net.weight.data.fill_(3)
    assert method.validated(3, Validation(0.8, 0.7))
    assert (method.net.weight == 1).all()
    assert method.validated(3, Validation(0.5, 0.5)), "told again after an interruption"
    assert (method.net.weight == 1).all()


def build_with_net(name: str = "forward", **knobs: Any) -> Any:
    method = selfadapt.methods.build(
        name, lambda outputs: torch.nn.Linear(2, outputs), torch.tensor([0, 1, 2]), 3, knobs
    )
    method.epochs = 4
    return method


def test_the_net_of_the_last_epoch_predicts_if_asked() -> None:
    method = build_with_net(best=False)
    assert not method.needs_validation
    assert not method.validated(3, Validation(0.5, 0.5))
    assert build_with_net().needs_validation


@pytest.mark.parametrize("percentile", [0.0, 1.1, -1.0])
@pytest.mark.parametrize("name", ["forward", "forward:Estimate"])
def test_percentile_outside(name: str, percentile: float) -> None:
    with pytest.raises(BadInput, match=r"method\.percentile must lie in \(0, 1\]"):
        build(name, percentile=percentile)


SETTINGS = {
    "train.epochs": 4,
    "train.batch": 30,
    "train.precision": "fp32",
    "corruption.name": "next_class",
    "data.validation": 0.2,
}


def fit(out: Path, **more: Any) -> Any:
    settings = {**SETTINGS, **{f"method.{name}": value for name, value in more.items()}}
    return selfadapt.fit(blobs(300), out=out, method="forward", net="mlp", settings=settings)


def test_a_run_applies_what_its_stage_estimated(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", percentile=0.9)
    stage = selfadapt.open_run(tmp_path / "run" / "stages" / "estimate")
    trained = np.array(stage.labels["part"].to_pylist()) == "train"
    assert 0 < trained.sum() < 300
    x = selfadapt.load(blobs(300)).inputs.values.numpy()
    probs = stage.predict_proba(x[trained])
    expected = by_the_book(probs.astype(np.float64), 90.0)
    np.testing.assert_allclose(run.method().transition, expected, atol=1e-6)
    kept = [line["validation_accuracy"] for line in stage.log]
    given = np.array(stage.labels["given"].to_pylist())
    guess = stage.predict(x)
    assert (guess == given)[~trained].mean() == pytest.approx(kept[-1]), "of the net that is kept"
    assert run.result["had_true_labels"] is False


def test_the_true_matrix_is_counted_and_it_is_said(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", matrix="true")
    given, true = (np.array(run.labels[name].to_pylist()) for name in ("given", "true"))
    counts = np.zeros((3, 3))
    np.add.at(counts, (true, given), 1)
    np.testing.assert_allclose(
        run.method().transition, counts / counts.sum(axis=1, keepdims=True), atol=1e-7
    )
    assert run.result["had_true_labels"] is True
    assert run.result["stages"] == []


def test_a_class_that_nobody_has_stays_what_it_is() -> None:
    method = build("forward", [0, 1, 1], 3, matrix="true")
    method.take_true_labels(torch.tensor([0, 0, 1]))
    np.testing.assert_allclose(method.transition, [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]])


def test_a_matrix_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "matrix.csv"
    np.savetxt(path, T, delimiter=",")
    run = fit(tmp_path / "run", matrix=str(path), best=False)
    assert run.result["stages"] == []
    path.unlink()
    again = selfadapt.open_run(tmp_path / "run").method()
    np.testing.assert_allclose(again.transition, T, atol=1e-7)


def test_a_matrix_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no file 'estimatd'"):
        fit(tmp_path / "run", matrix="estimatd")
    assert not (tmp_path / "run").exists()


def test_without_held_out_labels(tmp_path: Path) -> None:
    """Nothing is chosen with best=false, but an estimate chooses its net."""
    settings = {**SETTINGS, "data.validation": 0.0, "method.best": False}
    known: dict[str, Any] = {"method": "forward", "net": "mlp"}
    with pytest.raises(BadInput, match="forward:Estimate chooses by accuracy"):
        selfadapt.fit(blobs(), out=tmp_path / "a", settings=settings, **known)
    settings["method.matrix"] = "true"
    assert selfadapt.fit(blobs(), out=tmp_path / "b", settings=settings, **known).result


def test_it_sees_through_noise(tmp_path: Path) -> None:
    """Labels of a class that mostly became the next one: cross entropy learns the wrong class."""
    x, y = blobs(600, seed=3)
    chances = np.array([[0.35, 0.65, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.savetxt(tmp_path / "noise.csv", chances, delimiter=",")
    settings = {
        **SETTINGS,
        "train.epochs": 20,
        "train.lr": 0.05,
        "corruption.name": "matrix",
        "corruption.path": str(tmp_path / "noise.csv"),
    }
    right = {}
    for name in ("erm", "forward"):
        run = selfadapt.fit((x, y), out=tmp_path / name, method=name, net="mlp", settings=settings)
        right[name] = (run.predict(x) == y).mean()
    assert right["erm"] < 0.75
    assert right["forward"] > right["erm"] + 0.1
