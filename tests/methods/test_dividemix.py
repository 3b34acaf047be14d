"""DivideMix: METHODS.md 17."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
import torch
from common import batch, reduced
from torch import nn

from selfadapt import methods
from selfadapt.batch import Batch
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput
from selfadapt.methods.dividemix import DivideMix, clean_probability

N, C = 24, 5


class Part(nn.Module):
    """The first or the second five of ten inputs, as logits."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.at = slice(C * number, C * number + C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, self.at]


def built(labels: np.ndarray, **knobs: Any) -> DivideMix:
    numbers = iter((0, 1))
    method = methods.build(
        "dividemix", lambda _: Part(next(numbers)), torch.tensor(labels), C, knobs
    )
    assert isinstance(method, DivideMix)
    method.epochs = 40
    return method.train()


def case(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What either view shows to both nets, labels, and how clean each net finds them."""
    random = np.random.default_rng(seed)
    x, other = random.normal(size=(2, N, 2 * C)) * 2
    return x, other, random.integers(0, C, N), random.random((2, N))


def of_both_views(x: np.ndarray, other: np.ndarray, y: np.ndarray) -> Batch:
    plain = batch(x, np.arange(N), y)
    return Batch(plain.rows, plain.x, plain.y, (torch.as_tensor(other),))


def numpy_targets(
    net: int, x: np.ndarray, other: np.ndarray, y: np.ndarray, w: np.ndarray, temperature: float
) -> np.ndarray:
    """w: how likely the other net finds each label clean."""
    part = [slice(0, C), slice(C, 2 * C)]
    own = [reference.softmax(view[:, part[net]]) for view in (x, other)]
    theirs = [reference.softmax(view[:, part[1 - net]]) for view in (x, other)]
    refined = w[:, None] * reference.one_hot(y, C) + (1 - w[:, None]) * np.mean(own, axis=0)
    guessed = np.mean([*own, *theirs], axis=0)
    sharp = np.where(w[:, None] > 0.5, refined, guessed) ** (1 / temperature)
    return sharp / sharp.sum(axis=1, keepdims=True)


def numpy_loss(
    z: np.ndarray, targets: np.ndarray, trusted: np.ndarray, weight: float, classes: int = C
) -> float:
    """Of logits on mixed inputs, as the authors sum it up."""
    loss = 0.0
    if trusted.any():
        loss += reference.cross_entropies(z[trusted], targets[trusted]).mean()
    p = reference.softmax(z)
    if not trusted.all():
        loss += weight * ((p - targets)[~trusted] ** 2).mean()
    prior = np.full(classes, 1 / classes)
    return loss + float((prior * np.log(prior / p.mean(axis=0))).sum())


def drawn(beta: float, seed: int) -> tuple[float, np.ndarray]:
    """What the method draws after this seed: λ', then the order."""
    torch.manual_seed(seed)
    share = float(torch.distributions.Beta(beta, beta).sample())
    return max(share, 1 - share), torch.randperm(2 * N).numpy()


def expected_loss(
    net: int, x: np.ndarray, other: np.ndarray, y: np.ndarray, w: np.ndarray, **knobs: float
) -> float:
    share, order = drawn(knobs.get("beta", 4.0), 7)
    both = np.concatenate([x, other])[:, C * net : C * net + C]
    targets = np.tile(numpy_targets(net, x, other, y, w, knobs.get("temperature", 0.5)), (2, 1))
    return numpy_loss(
        share * both + (1 - share) * both[order],
        share * targets + (1 - share) * targets[order],
        np.tile(w > 0.5, 2),
        knobs["weight"],
    )


@pytest.mark.parametrize("net", [0, 1])
@pytest.mark.parametrize("knobs", [{}, {"temperature": 1.0, "beta": 0.75}])
def test_the_equation(net: int, knobs: dict[str, float]) -> None:
    """The first net's steps come first; the other net says which labels are clean."""
    x, other, y, clean = case()
    method = built(y, warmup=10, lambda_u=50.0, **knobs)
    method.clean.copy_(torch.tensor(clean))
    method.todo = (4, 8)
    method.seen.fill_(3 if net == 0 else 4 + 2)
    since = 18 + (3 / 4 if net == 0 else 2 / 8) - 10
    torch.manual_seed(7)
    out = method(of_both_views(x, other, y), 18)
    weight = 50 * since / 16
    expected = expected_loss(net, x, other, y, clean[1 - net], weight=weight, **knobs)
    assert reduced(out).item() == pytest.approx(expected, rel=1e-6)
    assert torch.equal(out.logits, torch.tensor(x[:, C * net : C * net + C]))
    assert out.weights.tolist() == [1] * N


def test_only_the_net_whose_turn_it_is_learns_and_never_through_a_target() -> None:
    x, other, y, clean = case(1)
    method = built(y, warmup=0)
    method.clean.copy_(torch.tensor(clean))
    logits = torch.tensor(np.stack([x, other]), requires_grad=True)
    torch.manual_seed(7)
    reduced(method(of_both_views(logits[0], logits[1], y), 20)).backward()
    assert logits.grad is not None
    found = logits.grad.numpy()
    assert (found[..., C:] == 0).all()
    share, order = drawn(4.0, 7)
    targets = np.tile(numpy_targets(0, x, other, y, clean[1], 0.5), (2, 1))
    targets = share * targets + (1 - share) * targets[order]

    def loss_of(views: np.ndarray) -> float:
        both = views.reshape(2 * N, 2 * C)[:, :C]
        mixed = share * both + (1 - share) * both[order]
        return numpy_loss(mixed, targets, np.tile(clean[1] > 0.5, 2), 25.0)

    for place in [(0, 3, 1), (1, 5, 4), (0, 17, 0), (1, 20, 2)]:
        step = np.zeros((2, N, 2 * C))
        step[place] = 1e-5
        up, down = (loss_of(np.stack([x, other]) + sign * step) for sign in (1, -1))
        assert found[place] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("clean", [0.2, 0.9])
def test_without_labelled_or_without_unlabelled_samples(clean: float) -> None:
    x, other, y, _ = case(2)
    method = built(y, warmup=0)
    method.clean.fill_(clean)
    logits = torch.tensor(x, requires_grad=True)
    torch.manual_seed(7)
    out = method(of_both_views(logits, other, y), 20)
    expected = expected_loss(0, x, other, y, np.full(N, clean), weight=25.0)
    assert reduced(out).item() == pytest.approx(expected, rel=1e-6)
    reduced(out).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_a_class_that_nobody_predicts_gives_numbers() -> None:
    x, other, y, clean = case(3)
    x[:, 0], other[:, 0] = -2000, -2000
    method = built(y, warmup=0)
    method.clean.copy_(torch.tensor(clean))
    logits = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    reduced(method(of_both_views(logits, other.astype(np.float32), y), 20)).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("net", [0, 1])
@pytest.mark.parametrize("penalise", [False, True])
def test_the_warm_up(net: int, penalise: bool) -> None:
    x, other, y, _ = case()
    method = built(y, warmup=3, penalise_confidence=penalise)
    method.todo = (2, 2)
    method.seen.fill_(2 * net)
    out = method(of_both_views(x, other, y), 2)
    z = x[:, C * net : C * net + C]
    expected = reference.cross_entropies(z, reference.one_hot(y, C))
    if penalise:
        expected = expected + (reference.softmax(z) * reference.log_softmax(z)).sum(axis=1)
    np.testing.assert_allclose(out.values, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("epoch", "step", "expected"),
    [(10, 0, 0.0), (10, 2, 12.5 / 16), (18, 0, 12.5), (26, 0, 25.0), (39, 3, 25.0)],
)
def test_the_weight_of_unlabelled_samples_rises(epoch: int, step: int, expected: float) -> None:
    method = built(np.zeros(4, int), warmup=10)
    method.todo = (4, 8)
    method.seen.fill_(step)
    assert method.weight(0, epoch) == pytest.approx(expected)
    method.seen.fill_(4 + 2 * step)
    assert method.weight(1, epoch) == pytest.approx(expected)
    assert built(np.zeros(4, int), ramp=0).weight(0, 10) == 25


def fed(rows: int = 100, size: int = 20) -> Feed:
    return Feed(InMemory(torch.zeros(rows + 10, 2 * C)), np.arange(rows), seed=3, batch=size)


def test_half_of_a_step_is_labelled_as_the_other_net_sees_it() -> None:
    method, feed = built(np.zeros(110, int), warmup=0), fed()
    method.clean.fill_(0.1)
    method.clean[0, :70], method.clean[1, 40:100] = 0.9, 0.6
    steps = method.batches(5, feed)
    assert method.todo == (6, 7)
    assert len(steps) == 13
    for net, labelled in ((0, set(range(40, 100))), (1, set(range(70)))):
        mine = steps[:6] if net == 0 else steps[6:]
        assert [len(rows) for rows in mine] == [20] * len(mine)
        first = np.concatenate([rows[:10] for rows in mine]).tolist()
        assert sorted(first) == sorted(labelled)
        rest = np.concatenate([rows[10:] for rows in mine])
        assert set(rest) == set(range(100)) - labelled
        counts = np.bincount(rest)[sorted(set(rest))]
        assert counts.max() - counts.min() <= 1, "all of them once before one comes again"
    again = method.batches(5, feed)
    assert all(map(np.array_equal, steps, again))
    assert not all(map(np.array_equal, steps, method.batches(6, feed)))


@pytest.mark.parametrize("clean", [0.1, 0.9])
def test_samples_of_one_kind_only_are_all_taken(clean: float) -> None:
    method, feed = built(np.zeros(110, int), warmup=0), fed()
    method.clean.fill_(clean)
    steps = method.batches(3, feed)
    assert method.todo == (5, 5)
    for mine in (steps[:5], steps[5:]):
        assert sorted(np.concatenate(mine)) == list(range(100))


def test_in_the_warm_up_each_net_takes_all_samples_in_an_order_of_its_own() -> None:
    method, feed = built(np.zeros(110, int), warmup=4), fed()
    method.clean[:, :80] = 0.1
    steps = method.batches(3, feed)
    assert method.todo == (5, 5)
    first, second = np.concatenate(steps[:5]), np.concatenate(steps[5:])
    assert sorted(first) == sorted(second) == list(range(100))
    assert not np.array_equal(first, second)
    assert len(method.batches(4, feed)) == 2 + 2


def numpy_clean_probability(values: np.ndarray) -> np.ndarray:
    """Expectation and maximisation, at most ten times, from the best cut into two."""
    v = (values - values.min()) / (values.max() - values.min())
    cuts = np.sort(v)[:-1]
    spread = [((v[v <= c].var() * (v <= c).sum()) + v[v > c].var() * (v > c).sum()) for c in cuts]
    low = v <= cuts[np.argmin(spread)]

    def fitted(resp: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = resp.sum(axis=0) + 10 * np.finfo(float).eps
        mean = (resp * v[:, None]).sum(axis=0) / n
        return n / n.sum(), mean, (resp * (v[:, None] - mean) ** 2).sum(axis=0) / n + 5e-4

    def expected(share: np.ndarray, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, float]:
        log = np.log(share) - (np.log(2 * np.pi * var) + (v[:, None] - mean) ** 2 / var) / 2
        total = np.logaddexp(log[:, 0], log[:, 1])
        return np.exp(log - total[:, None]), total.mean()

    before, found = -np.inf, fitted(np.stack([low, ~low], axis=1) * 1.0)
    for _ in range(10):
        resp, level = expected(*found)
        found = fitted(resp)
        if abs(level - before) < 1e-2:
            break
        before = level
    return expected(*found)[0][:, found[1].argmin()]


@pytest.mark.parametrize("seed", range(4))
def test_a_mixture_of_two_normal_distributions(seed: int) -> None:
    random = np.random.default_rng(seed)
    small, large = random.gamma(1.0, 0.3, 140), 3 + random.normal(size=60)
    values = np.concatenate([small, large])
    found = clean_probability(torch.tensor(values)).numpy()
    np.testing.assert_allclose(found, numpy_clean_probability(values), atol=1e-6)
    assert (found[:140] > 0.5).mean() > 0.9
    assert (found[140:] > 0.5).mean() < 0.1


def test_the_same_losses_give_the_same_bits() -> None:
    values = torch.tensor(np.random.default_rng(0).gamma(1.0, 1.0, 5000)).float()
    first = clean_probability(values)
    assert torch.equal(first, clean_probability(values))
    assert first.dtype == torch.float32


@pytest.mark.parametrize("values", [[0.7, 0.7, 0.7], [2.0], [0.0, 0.0]])
def test_where_all_losses_are_alike_every_label_is_trusted(values: list[float]) -> None:
    assert clean_probability(torch.tensor(values)).tolist() == [1.0] * len(values)


def test_two_losses() -> None:
    assert clean_probability(torch.tensor([0.0, 5.0])).round().tolist() == [1.0, 0.0]


def test_each_net_looks_at_all_samples_as_they_are() -> None:
    random = np.random.default_rng(5)
    x, y = random.normal(size=(60, 2 * C)) * 3, random.integers(0, C, 60)
    method = built(y, warmup=2)
    seen = []
    method.second.register_forward_hook(lambda net, _i, _o: seen.append(net.training))
    feed = Feed(InMemory(torch.tensor(x).float()), np.arange(50), batch=20)
    method.seen.fill_(9)
    method.start_epoch(1, feed)
    assert (method.clean == 1).all()
    assert int(method.seen) == 0
    method.start_epoch(2, feed)
    assert seen == [False]
    assert method.training
    assert method.second.training
    given = reference.one_hot(y[:50], C)
    for net in (0, 1):
        z = x.astype(np.float32)[:50, C * net : C * net + C]
        values = torch.tensor(reference.cross_entropies(z, given)).float()
        np.testing.assert_allclose(method.clean[net, :50], clean_probability(values), atol=1e-4)
    assert (method.clean[:, 50:] == 1).all()


def test_while_one_net_learns_the_other_guesses_in_evaluation_mode() -> None:
    x, other, y, clean = case()
    method = built(y, warmup=0)
    method.clean.copy_(torch.tensor(clean))
    seen: list[tuple[int, bool, int]] = []
    for number, net in enumerate((method.net, method.second)):
        net.register_forward_hook(
            lambda net, x, _o, number=number: seen.append((number, net.training, len(x[0])))
        )
    method(of_both_views(x, other, y), 20)
    doubted = int((clean[1] <= 0.5).sum())
    assert seen == [
        (0, True, N),
        (0, True, N),
        (1, False, doubted),
        (1, False, doubted),
        (0, True, 2 * N),
    ]
    assert method.second.training


def test_the_sum_of_both_nets_logits_predicts() -> None:
    x, _, y, _ = case()
    found = built(y).predict(torch.tensor(x)).numpy()
    expected = reference.softmax((x[:, :C] + x[:, C:]) / 2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found.argmax(axis=1) == (x[:, :C] + x[:, C:]).argmax(axis=1)).all()


def test_the_warm_up_can_be_a_share_of_the_run() -> None:
    assert built(np.zeros(3, int), warmup=0.25).facts() == {"warmup": 10}


@pytest.mark.parametrize(
    "knobs",
    [
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"temperature": 0.0},
        {"temperature": 1.5},
        {"beta": 0.0},
        {"lambda_u": -1.0},
        {"ramp": -1},
        {"warmup": 1.5},
        {"warmup": -1},
    ],
)
def test_knobs_outside(knobs: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=rf"method\.{next(iter(knobs))}"):
        built(np.zeros(3, int), **knobs)
