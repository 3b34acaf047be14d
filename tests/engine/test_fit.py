"""The loop itself: what a step computes, what is measured, what happens when the loss explodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import blobs
from torch import Tensor, nn

from selfadapt import nets
from selfadapt.batch import Batch, StepLoss
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import InMemory, Rows
from selfadapt.engine.checkpoint import latest_checkpoint
from selfadapt.engine.evaluate import accuracy, probabilities
from selfadapt.engine.fit import Outcome, fit
from selfadapt.engine.machine import this_machine
from selfadapt.engine.plan import Plan
from selfadapt.engine.step import cut, train_step
from selfadapt.engine.stop import Stop
from selfadapt.engine.work import Parts, Progress, Work
from selfadapt.errors import NonFiniteLoss
from selfadapt.methods import Method, build
from selfadapt.rundir import RunDir

SAMPLES = 95  # four steps of 25, 25, 25 and 20


def small_net(width: int = 12) -> Callable[[int], nn.Module]:
    torch.manual_seed(7)
    return nets.maker("mlp", (6,), options={"width": width})


def sat(**settings: Any) -> Method:
    labels = torch.from_numpy(blobs(SAMPLES)[1])
    return build("sat", small_net(), labels, 3, {"start": 1, "momentum": 0.7, **settings})


def parts(batch: int = 25, held: int = 0) -> Parts:
    x, y = blobs(SAMPLES)
    inputs = InMemory(torch.from_numpy(x))
    rows = np.arange(SAMPLES)
    truth = np.where(rows % 10 == 0, (y + 1) % 3, y)
    feed = Feed(inputs, rows[held:], seed=3, batch=batch)
    return Parts(feed, y, range(SAMPLES), rows[:held], truth, Feed(inputs, rows[::2]), y[::2])


def run_fit(
    folder: Path, method: Method, *, data: Parts | None = None, **settings: Any
) -> tuple[Outcome, RunDir]:
    plan = Plan(**{"epochs": 3, "batch": 25, "lr": 0.2, **settings})
    run = RunDir(folder)
    run.create()
    return fit(method, data or parts(), plan, run, this_machine("fp32"), seed=3), run


class Spy(Method):
    """Ordinary training that writes down what the engine asks of it."""

    def __init__(self, make_net: Callable[[int], nn.Module], labels: Tensor) -> None:
        super().__init__(make_net, labels, 3)
        self.calls: list[str] = []
        self.rates: list[float] = []
        self.seen: list[Rows] = []
        self.sizes: list[int] = []
        self.slow = nn.Linear(3, 3)
        self.alone = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        self.calls.append(f"loss {epoch}")
        self.sizes.append(len(batch.rows))
        logits = self.slow(self.net(batch.x))
        values = nn.functional.cross_entropy(logits, batch.y, reduction="none") + self.alone
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def batches(self, epoch: int, feed: Any) -> list[Rows]:
        self.seen = feed.batches(epoch)[:2]
        return self.seen

    def start_epoch(self, epoch: int, feed: Any) -> None:
        assert self.training
        self.calls.append(f"start {epoch} of {self.epochs}, {self.steps} steps")

    def end_epoch(self, epoch: int, feed: Any) -> None:
        self.calls.append(f"end {epoch}")

    def after_step(self) -> None:
        self.calls.append("after")

    def param_groups(self) -> list[dict[str, Any]]:
        slow = {"params": list(self.slow.parameters()), "lr_scale": 0.0}
        alone = {"params": [self.alone], "lr_fixed": 0.5, "momentum": 0.0, "weight_decay": 0.0}
        return [{"params": list(self.net.parameters())}, slow, alone]


@pytest.fixture
def spy() -> Spy:
    return Spy(small_net(), torch.from_numpy(blobs(SAMPLES)[1]))


def test_what_the_engine_asks_of_a_method(spy: Spy, tmp_path: Path) -> None:
    before = spy.slow.weight.clone(), next(spy.net.parameters()).clone()
    run_fit(tmp_path, spy, epochs=2, weight_decay=0.1)
    steps = ["loss {0}", "after", "loss {0}", "after"]
    epoch = ["start {0} of 2, 2 steps", *steps, "end {0}"]
    assert spy.calls == [call.format(number) for number in range(2) for call in epoch]
    torch.testing.assert_close(spy.slow.weight, before[0], rtol=0, atol=0)  # its lr_scale is 0
    assert spy.alone.item() == pytest.approx(-0.5 * 4), "its rate is fixed, its gradient is 1"
    assert not torch.equal(next(spy.net.parameters()), before[1])


def test_a_step_in_parts(spy: Spy, tmp_path: Path) -> None:
    run_fit(tmp_path, spy, epochs=1, accumulate=4)
    assert [call for call in spy.calls if "loss" in call or "after" in call] == [
        *(["loss 0"] * 4 + ["after"]) * 2
    ]
    assert spy.sizes == [7, 6, 6, 6] * 2


@pytest.mark.parametrize("rows", [1, 3, 7, 16])
@pytest.mark.parametrize("accumulate", [1, 4, 16])
def test_parts_are_never_empty(rows: int, accumulate: int) -> None:
    split = cut(np.arange(rows), accumulate)
    assert min(map(len, split)) > 0
    assert len(split) == min(rows, accumulate)
    np.testing.assert_array_equal(np.concatenate(split), np.arange(rows))


def work_on(method: Method, folder: Path, data: Parts, **settings: Any) -> Work:
    plan = Plan(lr=0.1, momentum=0.0, weight_decay=0.0, **settings)
    labels = torch.from_numpy(data.labels)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1)
    return Work(
        method=method.train(),
        wrapped=method,
        optimizer=optimizer,
        signals=None,
        parts=data,
        labels=labels,
        true_labels=None,
        plan=plan,
        run=RunDir(folder),
        machine=this_machine("fp32"),
        seed=3,
        show=lambda _: None,
        stop=Stop(),
    )


def gradient(method: Method) -> Tensor:
    return torch.cat([p.grad.flatten() for p in method.parameters() if p.grad is not None])


def one_step(folder: Path, beliefs: Tensor, accumulate: int) -> tuple[Tensor, Tensor, Progress]:
    """One step of SAT after its start, from beliefs of very different weight."""
    method, data = sat(start=0, momentum=0.9), parts()
    method.targets.table.copy_(beliefs)
    work, progress = work_on(method, folder, data), Progress()
    rows = cut(np.arange(37), accumulate)
    train_step(work, progress, rows, iter(data.train.augmented(rows, 0)), due=False)
    return gradient(method), method.beliefs(), progress


@pytest.fixture
def uneven_beliefs() -> Tensor:
    torch.manual_seed(0)
    return (torch.randn(SAMPLES, 3) * torch.linspace(0, 9, SAMPLES)[:, None]).softmax(dim=1)


@pytest.mark.parametrize("accumulate", [2, 4, 37])
def test_accumulation_is_one_weighted_mean(
    accumulate: int, uneven_beliefs: Tensor, tmp_path: Path
) -> None:
    whole, beliefs, progress = one_step(tmp_path, uneven_beliefs, 1)
    in_parts, same_beliefs, same = one_step(tmp_path, uneven_beliefs, accumulate)
    torch.testing.assert_close(in_parts, whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(same_beliefs, beliefs, rtol=0, atol=1e-6)
    assert same.total == pytest.approx(progress.total, rel=1e-6)
    assert same.weight == pytest.approx(progress.weight, rel=1e-6)


def test_a_step_is_the_papers_equation(uneven_beliefs: Tensor, tmp_path: Path) -> None:
    """Once more in float64; the mean of the parts' means would be something else."""
    found, beliefs, _ = one_step(tmp_path, uneven_beliefs, 4)
    method = sat().double()
    x = torch.from_numpy(blobs(SAMPLES)[0][:37]).double()
    logits = method.net(x)
    moved = 0.9 * uneven_beliefs[:37].double() + 0.1 * logits.detach().softmax(dim=1)
    torch.testing.assert_close(beliefs[:37].double(), moved, rtol=0, atol=1e-6)
    weights = moved.amax(dim=1)
    terms = -weights * (moved * logits.log_softmax(dim=1)).sum(dim=1)
    (terms.sum() / weights.sum()).backward(retain_graph=True)
    expected = gradient(method)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
    method.zero_grad()
    split = [torch.from_numpy(part) for part in cut(np.arange(37), 4)]
    (sum(terms[part].sum() / weights[part].sum() for part in split) / 4).backward()
    assert (gradient(method) - expected).norm() > 0.01 * expected.norm()


def test_clipping_bounds_the_gradient_of_the_whole_step(tmp_path: Path) -> None:
    method, data = sat(), parts()
    work = work_on(method, tmp_path, data, clip=1e-3)
    rows = cut(np.arange(30), 3)
    train_step(work, Progress(), rows, iter(data.train.augmented(rows, 0)), due=False)
    assert float(gradient(method).norm()) == pytest.approx(1e-3, rel=1e-3)


def test_the_log_and_the_signals(tmp_path: Path) -> None:
    """The figures of each epoch, recomputed from what the net said at each step."""
    method, data, said = sat(start=9), parts(held=20), []
    forward = method.loss

    def listen(batch: Batch, epoch: int) -> StepLoss:
        out = forward(batch, epoch)
        assert out.logits is not None
        said.append((epoch, batch.rows.numpy(), out.logits.double().numpy(), out.values.detach()))
        return out

    method.loss = listen  # type: ignore[method-assign]
    outcome, run = run_fit(tmp_path, method, data=data)
    truth = data.true_labels
    assert truth is not None
    for epoch, line in enumerate(run.log()):
        rows = np.concatenate([rows for e, rows, *_ in said if e == epoch])
        guess = np.concatenate([z.argmax(axis=1) for e, _, z, _ in said if e == epoch])
        values = torch.cat([v for e, *_, v in said if e == epoch])
        assert sorted(rows) == list(range(20, SAMPLES))
        assert line["epoch"] == epoch
        assert line["loss"] == pytest.approx(float(values.mean()), rel=1e-5)
        assert line["train_accuracy"] == pytest.approx((guess == data.labels[rows]).mean())
        assert line["train_true_accuracy"] == pytest.approx((guess == truth[rows]).mean())
        assert line["labels_changed"] == 0
        assert line["labels_right"] == pytest.approx((data.labels == truth)[20:].mean())
        assert line["seconds"] > 0
    sums, margins, visits = np.zeros((SAMPLES, 3)), np.zeros(SAMPLES), np.zeros(SAMPLES, int)
    forgotten, knew = np.zeros(SAMPLES, int), np.zeros(SAMPLES, bool)
    for _, rows, z, _ in said:
        for row, logits in zip(rows, z, strict=True):
            sums[row] += np.exp(logits) / np.exp(logits).sum()
            margin = logits[data.labels[row]] - np.delete(logits, data.labels[row]).max()
            margins[row] += margin
            visits[row] += 1
            forgotten[row] += knew[row] and margin <= 0
            knew[row] = margin > 0
    assert outcome.signals is not None
    found = {name: value.numpy() for name, value in outcome.signals.averages().items()}
    assert visits.tolist() == [0] * 20 + [3] * 75
    np.testing.assert_array_equal(found["visits"], visits)
    np.testing.assert_array_equal(found["forgotten"], forgotten)
    np.testing.assert_allclose(found["mean_probs"][20:], sums[20:] / 3, atol=1e-5)
    np.testing.assert_allclose(found["mean_margin"][20:], margins[20:] / 3, atol=1e-4)
    assert not found["mean_probs"][:20].any()


def test_measuring_leaves_no_trace(tmp_path: Path) -> None:
    """With or without a test part: the same weights."""
    data = parts()
    blind = Parts(data.train, data.labels, data.ids, data.validation, None, None, None)
    states = []
    for each in (data, blind):
        method = sat()
        _, run = run_fit(tmp_path / str(len(states)), method, data=each)
        states.append(method.state_dict())
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    assert run.log()[-1]["test_accuracy"] is None
    assert run.log()[-1]["labels_right"] is None


def test_predictions_come_in_the_order_asked() -> None:
    method, data = sat(), parts()
    rows = np.array([5, 3, 88, 3])
    found = probabilities(method, data.train, this_machine("fp32"), rows)
    direct = method.eval().predict(torch.from_numpy(blobs(SAMPLES)[0][rows])).detach()
    torch.testing.assert_close(found, direct)
    assert probabilities(method, data.train, this_machine("fp32"), rows[:0]).shape == (0, 3)


def test_accuracy_counts_what_could_be_read() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.2, 0.8], [math.nan, math.nan], [0.6, 0.4]])
    assert accuracy(probs, np.array([0, 1, 0, 1])) == pytest.approx(2 / 3)
    assert accuracy(probs[2:3], np.array([0])) is None


class Explodes(Method):
    """Its loss becomes infinite, or its gradient does, at one step."""

    def __init__(self, make_net: Callable[[int], nn.Module], labels: Tensor, how: str) -> None:
        super().__init__(make_net, labels, 3)
        self.how = how
        self.at = 7
        self.count = 0

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = nn.functional.cross_entropy(logits, batch.y, reduction="none")
        self.count += 1
        if self.count == self.at and self.how == "loss":
            values = values * torch.tensor([*[1.0] * (len(values) - 1), math.inf])
        elif self.count == self.at:
            logits.register_hook(lambda grad: grad * math.nan)
        return StepLoss(values, torch.ones_like(values), logits.detach())


@pytest.mark.parametrize(
    ("how", "at", "save_seconds", "told"),
    [
        ("loss", 7, 1e-4, r"loss became NaN or infinite in epoch 1, step 2 \(training rows"),
        ("loss", 1, 1e-4, r"epoch 0, step 0 .*Nothing had been saved yet"),
        ("loss", 7, 1000, r"Nothing had been saved yet"),
        ("gradient", 7, 1e-4, r"the weights net\.\S+ became NaN or infinite by epoch 1, step 3"),
        ("gradient", 7, 1000, r"loss became NaN or infinite in epoch 1, step 3 "),
        ("gradient", 8, 1000, r"weights net\.\S+ became NaN or infinite by epoch 1, step 4"),
        ("gradient", 16, 1000, r"the weights net\.\S+ became NaN or infinite by epoch 3, step 4"),
    ],
)
def test_an_exploding_loss_stops_and_keeps_the_last_good_state(
    how: str, at: int, save_seconds: float, told: str, tmp_path: Path
) -> None:
    method = Explodes(small_net(), torch.from_numpy(blobs(SAMPLES)[1]), how)
    method.at = at
    with pytest.raises(NonFiniteLoss, match=told) as caught:
        run_fit(tmp_path, method, epochs=4, save_seconds=save_seconds)
    assert "train.lr" in str(caught.value)
    kept = latest_checkpoint(RunDir(tmp_path).checkpoints)
    assert (kept is not None) == ("Nothing" not in str(caught.value) and at > 1)
    if kept is not None:
        assert "last good checkpoint is kept" in str(caught.value)
        assert all(bool(torch.isfinite(value).all()) for value in kept.tensors.values())
    if how == "loss":
        rows = parts().train.batches((at - 1) // 4)[(at - 1) % 4]
        assert f"(training rows {', '.join(map(str, rows[:8]))}, …)" in str(caught.value)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_settings_reach_the_optimiser(optimizer: str, tmp_path: Path) -> None:
    """Against torch's own optimiser, driven by hand."""
    spy = Spy(small_net(), torch.from_numpy(blobs(SAMPLES)[1]))
    spy.param_groups = lambda: [{"params": list(spy.parameters())}]  # type: ignore[method-assign]
    by_hand = nn.ModuleDict({"net": small_net()(3), "slow": nn.Linear(3, 3)})
    by_hand["slow"].load_state_dict(spy.slow.state_dict())
    by_hand["net"].load_state_dict(spy.net.state_dict())
    if optimizer == "sgd":
        other = torch.optim.SGD(by_hand.parameters(), lr=1, momentum=0.8, weight_decay=0.01)
    else:
        other = torch.optim.Adam(by_hand.parameters(), lr=1, weight_decay=0.01)
    x, y = (torch.from_numpy(array) for array in blobs(SAMPLES))
    for epoch in range(2):
        for rows in parts().train.batches(epoch)[:2]:
            here = torch.from_numpy(rows)
            other.zero_grad()
            logits = by_hand["slow"](by_hand["net"](x[here]))
            nn.functional.cross_entropy(logits, y[here]).backward()
            for group in other.param_groups:
                group["lr"] = 0.05 * (1 + math.cos(math.pi * epoch / 2)) / 2
            other.step()
    run_fit(tmp_path, spy, epochs=2, optimizer=optimizer, lr=0.05, momentum=0.8, weight_decay=0.01)
    torch.testing.assert_close(spy.net.state_dict(), by_hand["net"].state_dict())
    torch.testing.assert_close(spy.slow.state_dict(), by_hand["slow"].state_dict())


class Draws(Method):
    """Draws at every place where a method may."""

    def __init__(self) -> None:
        super().__init__(small_net(), torch.from_numpy(blobs(SAMPLES)[1]), 3)
        self.drawn: list[float] = []

    def draw(self) -> None:
        self.drawn.append(float(torch.rand(())))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        values = nn.functional.cross_entropy(self.net(batch.x), batch.y, reduction="none")
        return StepLoss(values, torch.ones_like(values))

    def start_epoch(self, epoch: int, feed: Any) -> None:
        self.draw()

    def end_epoch(self, epoch: int, feed: Any) -> None:
        self.draw()

    def batches(self, epoch: int, feed: Any) -> list[Rows]:
        self.draw()
        return list(feed.batches(epoch))


def test_what_a_method_draws_does_not_depend_on_what_was_drawn_before(tmp_path: Path) -> None:
    found = []
    for seed in (1, 2):
        method = Draws()
        torch.manual_seed(seed)
        run_fit(tmp_path / str(seed), method, epochs=2)
        found.append(method.drawn)
    assert found[0] == found[1]
    assert found[0][0] == found[0][2]  # the batches of epoch 0, asked for twice
    assert len(set(found[0])) == len(found[0]) - 1 == 6


def test_what_a_method_does_not_say_is_unknown(tmp_path: Path) -> None:
    """Without logits there is no accuracy, and there are no signals."""
    outcome, run = run_fit(tmp_path, Draws(), epochs=1)
    assert run.log()[0]["train_accuracy"] is None
    assert run.log()[0]["train_true_accuracy"] is None
    assert outcome.signals is not None
    assert not outcome.signals.visits.any()
