"""The learning rates that recipes ask for, epoch by epoch, are those that were published."""

from __future__ import annotations

import pytest
import reference
from shipped import LABEL_NOISE, known, plan_of

from selfadapt.engine.schedule import learning_rate

GOLDEN = {0: 0.1, 59: 0.080021, 60: 0.079389, 100: 0.05, 199: 6e-6}


@pytest.mark.parametrize(
    "name", [*LABEL_NOISE, "accuracy-curves", "generalisation", "sensitivity", "sensitivity-more"]
)
def test_the_learning_rate_is_the_papers(name: str) -> None:
    """In every cell but those of a method's own schedule."""
    shared = [one for one in known(name, {}) if one.get("protocol") != "own"]
    for plan in {str(plan): plan for plan in map(plan_of, shared)}.values():
        assert (plan.epochs, plan.batch, plan.optimizer) == (200, 256, "sgd")
        assert (plan.momentum, plan.weight_decay) == (0.9, 5e-4)
        rates = [learning_rate(plan, epoch, 7, 196) for epoch in range(200)]
        assert rates == pytest.approx([reference.cosine(0.1, e, 200) for e in range(200)])
        for epoch, golden in GOLDEN.items():
            assert rates[epoch] == pytest.approx(golden, abs=5e-7)


@pytest.mark.parametrize("name", ["double-descent-width", "double-descent-epochs"])
def test_the_learning_rate_of_double_descent(name: str) -> None:
    for one in known(name, {}):
        plan = plan_of(one)
        assert (plan.epochs, plan.batch, plan.optimizer) == (4000, 128, "adam")
        assert (plan.weight_decay, one["corruption.rate"]) == (0.0, 0.1667)
        assert {learning_rate(plan, e, 0, 1) for e in range(4000)} == {1e-4}


def test_the_learning_rate_on_imagenet() -> None:
    for one in known("imagenet", {}):
        plan = plan_of(one)
        assert (plan.epochs, plan.batch, plan.weight_decay) == (95, 768, 5e-4)
        assert learning_rate(plan, 0, 0, 1669) == pytest.approx(0.0003)
        assert learning_rate(plan, 2, 0, 1669) == pytest.approx(0.0003 + 0.4 * 0.2997)
        for epoch in range(5, 95):
            golden = reference.cosine(0.3, epoch - 5, 90)
            assert learning_rate(plan, epoch, 3, 1669) == pytest.approx(golden)


def test_the_learning_rate_of_selective_classification() -> None:
    """METHODS.md 12.1: halved every 25 of 300 epochs."""
    for one in known("selective", {}):
        plan = plan_of(one)
        assert (plan.epochs, plan.batch, plan.optimizer) == (300, 128, "sgd")
        assert (plan.momentum, plan.weight_decay, one["net.name"]) == (0.9, 5e-4, "vgg16_bn")
        rates = [learning_rate(plan, epoch, 0, 1) for epoch in range(300)]
        assert rates == pytest.approx([0.1 * 0.5 ** (epoch // 25) for epoch in range(300)])
    for data, pretrain in {"cifar10": 100, "svhn": 50, "dogs-vs-cats": 50}.items():
        own = {"sat_selective": {}, "deep_gamblers": {"method.pretrain": pretrain}}
        for method, settings in own.items():
            for one in known("selective", {"method.name": method, "data.name": data}):
                names = {k for k in one if k.startswith("method.")} - {"method.name"}
                assert {k: one[k] for k in names} == settings, "others are the paper's defaults"


def falls(*parts: tuple[int, float]) -> list[float]:
    """(40, 0.1), (80, 0.01): 40 epochs of the first rate, then 80 of the second."""
    return [rate for count, rate in parts for _ in range(count)]


OWN: dict[tuple[str, str], list[float]] = {
    ("forward", "cifar10"): falls((41, 0.1), (40, 0.01), (39, 0.001)),
    ("forward", "cifar100"): falls((81, 0.1), (40, 0.01), (29, 0.001)),
    ("mixup", "cifar10"): falls((101, 0.1), (50, 0.01), (49, 0.001)),
    ("gce", "cifar10"): falls((40, 0.01), (40, 1e-3), (40, 1e-4)),
    ("gce", "cifar100"): falls((80, 0.01), (40, 1e-3), (30, 1e-4)),
    ("truncated_gce", "cifar10"): falls((40, 0.01), (40, 1e-3), (40, 1e-4)),
    ("truncated_gce", "cifar100"): falls((80, 0.01), (40, 1e-3), (30, 1e-4)),
    ("joint_optimization", "cifar10"): falls((40, 0.2), (40, 0.02), (40, 0.002)),
    ("sce", "cifar10"): falls((41, 0.01), (40, 1e-3), (39, 1e-4)),
    ("sce", "cifar100"): falls((81, 0.1), (40, 0.01), (29, 0.001)),
    ("dac", "cifar10"): falls((60, 0.1), (60, 0.02), (40, 0.004), (40, 0.0008)),
    ("self_filter", "cifar10"): [reference.cosine(0.05, e, 200) for e in range(200)],
    ("mentornet", "cifar10"): falls((50, 0.1), (14, 0.01), (13, 0.001), (23, 1e-4)),
    ("elr", "cifar10"): [0.001 + reference.cosine(0.019, e % 10, 10) for e in range(150)],
    ("elr", "cifar100"): falls((80, 0.02), (40, 2e-4), (30, 2e-6)),
    ("sop", "cifar10"): [0.0002 + reference.cosine(0.0198, e, 300) for e in range(300)],
    ("co_teaching", "cifar10"): [1e-3 * min(1, (200 - e) / 120) for e in range(200)],
    ("co_teaching", "cifar100"): [1e-3 * min(1, (200 - e) / 100) for e in range(200)],
    ("dividemix", "cifar10"): falls((150, 0.02), (150, 0.002)),
    ("selc", "cifar10"): falls((40, 0.02), (40, 0.002), (120, 2e-4)),
}


def test_every_own_schedule_is_tested() -> None:
    own = {one["method.name"] for one in known("cifar-noise", {"protocol": "own"})}
    assert own == {method for method, _ in OWN}


@pytest.mark.parametrize(("method", "data"), OWN)
def test_the_learning_rate_of_a_methods_authors(method: str, data: str) -> None:
    wanted = {"method.name": method, "data.name": data, "protocol": "own"}
    rates = OWN[method, data]
    for one in known("cifar-noise", wanted):
        plan = plan_of(one)
        assert plan.epochs == len(rates)
        assert [learning_rate(plan, e, 0, 1) for e in range(plan.epochs)] == pytest.approx(rates)
