"""The learning rate of every step, from the epoch and the step alone."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt.engine.plan import Plan
from selfadapt.engine.schedule import learning_rate
from selfadapt.errors import BadInput

Schedule = Literal["cosine", "restarts"]


@pytest.mark.parametrize(
    ("epoch", "golden"), [(0, 0.1), (59, 0.080021), (60, 0.079389), (100, 0.05), (199, 6e-6)]
)
@pytest.mark.parametrize("step", [0, 97, 195])
def test_the_papers_cosine_is_set_once_an_epoch(epoch: int, golden: float, step: int) -> None:
    rate = learning_rate(Plan(), epoch, step, 196)
    assert rate == pytest.approx(golden, abs=5e-7)
    assert rate == pytest.approx(reference.cosine(0.1, epoch, 200), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 49), st.integers(0, 9), st.floats(1e-4, 10))
def test_cosine_per_step(epoch: int, step: int, lr: float) -> None:
    plan = Plan(epochs=50, lr=lr, schedule="cosine_step")
    expected = reference.cosine(lr, epoch + step / 10, 50)
    assert learning_rate(plan, epoch, step, 10) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_milestones() -> None:
    """TRADES: times 0.1 at 75 and again at 90."""
    plan = Plan(epochs=100, lr=0.1, schedule="milestones", milestones=[75, 90])
    rates = [learning_rate(plan, epoch, 3, 10) for epoch in range(100)]
    assert rates[:75] == [0.1] * 75
    assert rates[75:90] == pytest.approx([0.01] * 15)
    assert rates[90:] == pytest.approx([0.001] * 10)
    halved = Plan(epochs=3, lr=1.0, schedule="milestones", milestones=[1, 2], gamma=0.5)
    assert [learning_rate(halved, epoch, 0, 1) for epoch in range(3)] == [1.0, 0.5, 0.25]


def test_linear() -> None:
    """Co-teaching: constant for 80 epochs of 200, then α·(200 - e) / (200 - 80)."""
    plan = Plan(epochs=200, lr=1e-3, optimizer="adam", schedule="linear", milestones=[80])
    rates = [learning_rate(plan, epoch, 3, 10) for epoch in range(200)]
    assert rates[:81] == [1e-3] * 81
    assert rates[80:] == pytest.approx([1e-3 * (200 - e) / 120 for e in range(80, 200)])
    assert rates[-1] > 0


def test_restarts() -> None:
    """ELR on CIFAR-10: a cosine of ten epochs, again and again; the last cycle may be shorter."""
    plan = Plan(epochs=34, lr=0.02, schedule="restarts", milestones=[10, 20, 30])
    rates = [learning_rate(plan, epoch, 3, 10) for epoch in range(34)]
    assert rates[:30] == pytest.approx([reference.cosine(0.02, e % 10, 10) for e in range(30)])
    assert rates[30:] == pytest.approx([reference.cosine(0.02, e, 4) for e in range(4)])


@pytest.mark.parametrize(("schedule", "end"), [("cosine", 50), ("restarts", 10)])
def test_a_cosine_that_does_not_fall_to_zero(schedule: Schedule, end: int) -> None:
    """ELR and SOP: from the rate to the least one."""
    cycles = [10, 20, 30, 40]
    plan = Plan(epochs=50, lr=0.02, lr_least=0.001, schedule=schedule, milestones=cycles)
    rates = [learning_rate(plan, epoch, 0, 1) for epoch in range(50)]
    golden = [0.001 + reference.cosine(0.019, epoch % end, end) for epoch in range(50)]
    assert rates == pytest.approx(golden)


def test_constant() -> None:
    plan = Plan(epochs=10, optimizer="adam", schedule="constant")
    assert {learning_rate(plan, e, s, 4) for e in range(10) for s in range(4)} == {1e-3}


@pytest.mark.parametrize("schedule", ["cosine", "cosine_step", "constant"])
def test_the_papers_imagenet_warm_up(schedule) -> None:
    """From .0003 to .3 in 5 epochs, step by step, then on without a jump."""
    plan = Plan(epochs=95, lr=0.3, warmup=5, schedule=schedule)
    rates = [learning_rate(plan, e, s, 10) for e in range(95) for s in range(10)]
    assert rates[0] == pytest.approx(0.0003)
    rises = [after - before for before, after in itertools.pairwise(rates[:51])]
    assert rises == pytest.approx([(0.3 - 0.0003) / 50] * 50)
    assert rates[50] == 0.3
    assert max(rates) == 0.3
    assert all(rate > 0 for rate in rates)


def test_cosine_after_a_warm_up_runs_over_the_epochs_that_are_left() -> None:
    plan = Plan(epochs=95, lr=0.3, warmup=5)
    for epoch in (5, 50, 94):
        expected = reference.cosine(0.3, epoch - 5, 90)
        assert learning_rate(plan, epoch, 7, 10) == pytest.approx(expected)


def test_a_fractional_warm_up_never_exceeds_the_rate() -> None:
    plan = Plan(epochs=4, lr=1.0, warmup=1.5)
    rates = [learning_rate(plan, e, s, 10) for e in range(4) for s in range(10)]
    assert rates[:16] == sorted(rates[:16])
    assert max(rates) <= 1.0


def test_milestones_after_a_warm_up() -> None:
    plan = Plan(epochs=9, lr=1.0, warmup=2, schedule="milestones", milestones=[4])
    rates = [learning_rate(plan, epoch, 0, 1) for epoch in range(6)]
    assert rates == pytest.approx([0.001, 0.5005, 1, 1, 0.1, 0.1])


def test_the_paper_is_the_default_plan() -> None:
    plan = Plan()
    assert (plan.epochs, plan.batch, plan.optimizer, plan.rate) == (200, 256, "sgd", 0.1)
    assert (plan.momentum, plan.weight_decay, plan.schedule) == (0.9, 5e-4, "cosine")
    assert Plan(optimizer="adam").rate == 1e-3
    assert Plan(optimizer="adam", lr=1e-4).rate == 1e-4


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *[("epochs", 0), ("batch", 0), ("workers", -1), ("save_seconds", -1.0)],
        *[("accumulate", value) for value in (0, 257)],
        *[("warmup", value) for value in (-1.0, math.inf, math.nan)],
        *[("weight_decay", value) for value in (-1e-4, math.nan)],
        *[("lr", value) for value in (0.0, -0.1, math.inf, math.nan)],
        *[("lr_least", value) for value in (-0.1, 0.2, math.nan)],
        *[("momentum", value) for value in (-0.1, 1.0, math.nan)],
        *[("gamma", value) for value in (0.0, -0.1, math.nan)],
        *[("clip", value) for value in (0.0, math.nan)],
    ],
)
def test_settings_that_cannot_be(setting: str, value: float) -> None:
    with pytest.raises(BadInput, match=rf"train\.{setting}\b"):
        Plan(**{setting: value})


@pytest.mark.parametrize("more", [{"optimizer": "adam"}, {"momentum": 0.0}])
def test_nesterov_is_a_kind_of_momentum(more: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"train\.nesterov needs train\.optimizer=sgd"):
        Plan(nesterov=True, **more)


@pytest.mark.parametrize("schedule", ["milestones", "restarts", "linear"])
def test_milestones_must_be_given(schedule) -> None:
    with pytest.raises(BadInput, match=rf"schedule={schedule} needs train\.milestones"):
        Plan(schedule=schedule)
