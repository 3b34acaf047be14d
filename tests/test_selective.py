"""Coverage, risk, thresholds and bounds, against counting by hand and closed forms."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from selfadapt import selective
from selfadapt.errors import BadInput

SCORE = [0.1, 0.4, 0.2, 0.4, 0.9]
CORRECT = [True, True, False, False, False]
NAN = float("nan")
samples = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.inf, NAN]), st.booleans()),
    min_size=1,
    max_size=7,
)


def test_the_curve_has_a_point_for_each_threshold_that_matters() -> None:
    found = selective.risk_coverage(SCORE, CORRECT)
    assert found.threshold.tolist() == [0.1, 0.2, 0.4, 0.9]
    assert found.coverage.tolist() == [0.2, 0.4, 0.8, 1.0]
    assert found.risk.tolist() == [0, 1 / 2, 2 / 4, 3 / 5]


def by_hand(pairs: list[tuple[float, bool]]) -> list[float]:
    """Errors among the first 1, 2, … on average over every order of equal scores."""
    scores = [*sorted({s for s, _ in pairs if s == s}), NAN]
    groups = [[c for s, c in pairs if s == of or (s != s and of != of)] for of in scores]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    runs = [np.cumsum([not c for group in order for c in group]) for order in orders]
    return [float(x) for x in np.mean(runs, axis=0)]


@given(samples)
def test_areas_by_hand(pairs: list[tuple[float, bool]]) -> None:
    score, correct = ([p[i] for p in pairs] for i in (0, 1))
    n, errors = len(pairs), by_hand(pairs)
    for area, heights in {
        selective.aurc: [e / k for k, e in enumerate(errors, 1)],
        selective.augrc: [e / n for e in errors],
    }.items():
        steps = [(a + b) / 2 for a, b in itertools.pairwise(heights)] or heights
        assert area(score, correct) == pytest.approx(sum(steps) / len(steps))
    for count in range(1, n + 1):
        at = selective.risk_at_coverage(score, correct, count / n)
        assert at == pytest.approx(errors[count - 1] / count)


def test_a_score_that_says_nothing_gives_the_error_rate() -> None:
    assert selective.aurc([0.5] * 5, CORRECT) == pytest.approx(0.6)
    assert selective.aurc([NAN] * 5, CORRECT) == pytest.approx(0.6)
    assert selective.risk_at_coverage([0.5] * 5, CORRECT, 0.4) == pytest.approx(0.6)


def test_a_perfect_score_has_no_excess() -> None:
    assert selective.excess_aurc([0, 0, 1, 1, 1], CORRECT) == pytest.approx(0)
    assert selective.excess_aurc(SCORE, CORRECT) > 0


def test_one_sample() -> None:
    assert selective.aurc([0.3], [False]) == 1
    assert selective.augrc([0.3], [True]) == 0
    assert selective.risk_coverage([0.3], [False]).coverage.tolist() == [1]


def test_nothing_answered() -> None:
    assert math.isnan(selective.risk(SCORE, CORRECT, 0.05))
    assert selective.coverage(SCORE, 0.05) == 0
    assert math.isnan(selective.risk_at_coverage(SCORE, CORRECT, 0))
    assert len(selective.risk_coverage([NAN, NAN], [True, False]).risk) == 0


def test_what_is_not_a_number_is_never_answered() -> None:
    score = [0.1, NAN, 0.3, NAN]
    assert selective.answered(score, math.inf).tolist() == [True, False, True, False]
    assert selective.coverage(score, math.inf) == 0.5
    assert selective.threshold_for_coverage(score, 1) == 0.3, "all that can be"
    assert selective.threshold_for_coverage([NAN], 1) == -math.inf
    assert selective.risk_coverage(score, [1, 0, 0, 0]).coverage.tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    ("coverage", "threshold"),
    [(0, -math.inf), (0.01, 0.1), (0.2, 0.1), (0.21, 0.2), (0.5, 0.4), (0.8, 0.4), (1, 0.9)],
)
def test_the_least_threshold_that_answers_enough(coverage: float, threshold: float) -> None:
    assert selective.threshold_for_coverage(SCORE, coverage) == threshold


def test_coverage_on_new_samples() -> None:
    random = np.random.default_rng(0)
    for asked in (0.1, 0.5, 0.9, 0.99):
        found = selective.threshold_for_coverage(random.random(10_000), asked)
        assert abs(selective.coverage(random.random(100_000), found) - asked) < 0.02


@given(samples, st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_no_threshold_costs_less(pairs: list[tuple[float, bool]], price: float) -> None:
    score, correct = (np.array([p[i] for p in pairs]) for i in (0, 1))

    def cost(threshold: float) -> float:
        taken = score <= threshold
        return float((taken & ~correct.astype(bool)).sum() + price * (~taken).sum())

    found = cost(selective.threshold_for_cost(score, correct, price))
    every = [cost(t) for t in [-math.inf, *score[~np.isnan(score)]]]
    assert found == pytest.approx(min(every))


def test_of_thresholds_that_cost_the_same_the_one_that_answers_most() -> None:
    assert selective.threshold_for_cost([1, 2], [True, False], 1.0) == 2
    assert selective.threshold_for_cost([1, 2], [False, False], 0.5) == -math.inf


@pytest.mark.parametrize(
    ("errors", "answers", "delta", "bound"),
    [(0, 100, 0.001, 0.06674570), (3, 100, 0.001, 0.12422183), (10, 1000, 0.0001, 0.02751660)],
)
def test_golden_bounds(errors: int, answers: int, delta: float, bound: float) -> None:
    found = selective.risk_bound(errors, answers, delta)
    assert found == pytest.approx(bound, abs=1e-8)
    assert binom.cdf(errors, answers, found) == pytest.approx(delta)


def test_bounds_at_the_ends() -> None:
    assert selective.risk_bound(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))
    assert selective.risk_bound(5, 5, 0.01) == 1
    assert selective.risk_bound(0, 0, 0.01) == 1
    bounds = [selective.risk_bound(k, 90, 0.05) for k in range(91)]
    assert bounds == sorted(bounds)
    assert selective.risk_bound(13, 90, 0.05) > selective.risk_bound(12, 90, 0.05), (
        "the count of errors is whole: the original code loses one here by rounding a share"
    )


def simulated(random: np.random.Generator, n: int, ties: bool = False) -> tuple[Any, Any]:
    """A score whose square is the chance of an error."""
    score = random.random(n)
    correct = random.random(n) >= score**2
    return (np.ceil(score * 20) / 20 if ties else score), correct


def true_risk(threshold: float | None) -> float:
    return 0.0 if threshold is None else threshold**2 / 3  # mean of s² up to it


@pytest.mark.parametrize(("n", "risk", "delta"), [(300, 0.25, 0.1), (3000, 0.1, 0.05)])
def test_the_promise_is_kept(n: int, risk: float, delta: float) -> None:
    """Over 1,000 calibration parts the true risk is above what was asked for in at most delta."""
    random = np.random.default_rng(1)
    found = [
        selective.threshold_for_risk(*simulated(random, n), risk, 1 - delta) for _ in range(1000)
    ]
    above = sum(true_risk(one.threshold) > risk for one in found)
    assert above <= delta * 1000
    assert sum(one.threshold is None for one in found) < 100, "and mostly something is answered"
    assert all(one.bound is None or one.bound <= risk for one in found)


def test_the_promise_with_equal_scores() -> None:
    random = np.random.default_rng(2)
    found = [
        selective.threshold_for_risk(*simulated(random, 500, ties=True), 0.2, 0.9)
        for _ in range(300)
    ]
    assert sum(true_risk(one.threshold) > 0.2 for one in found) <= 30
    assert sum(one.threshold is not None for one in found) > 270


def test_no_threshold_reaches_the_risk() -> None:
    found = selective.threshold_for_risk([0.1, 0.2, 0.3], [True] * 3, 0.01, 0.95)
    assert (found.threshold, found.bound, found.coverage) == (None, None, 0.0)
    looks = math.ceil(math.log2(4))
    three = 1 - (0.05 / looks) ** (1 / 3)
    assert found.best_risk == pytest.approx(three, abs=2e-5), "of three right ones"
    assert selective.threshold_for_risk([NAN], [True], 0.5).threshold is None
    hundred = selective.threshold_for_risk(range(100), [True] * 100, 0.01)
    assert hundred.best_risk == pytest.approx(1 - (0.05 / 7) ** (1 / 100), abs=2e-5), "4.8 %"


def test_all_right_answers_as_much_as_the_bound_allows() -> None:
    found = selective.threshold_for_risk(np.arange(1000), np.ones(1000), 0.01)
    assert (found.threshold, found.coverage) == (999, 1.0)
    assert found.bound == pytest.approx(1 - (0.05 / 10) ** (1 / 1000))
    assert found.bound <= found.best_risk <= found.bound + 2e-5


def test_the_best_risk_can_be_had() -> None:
    random = np.random.default_rng(5)
    for n in (3, 5, 20, 100, 399):
        for _ in range(10):
            score, correct = simulated(random, n)
            best = selective.threshold_for_risk(score, correct, 0.0).best_risk
            found = selective.threshold_for_risk(score, correct, best)
            assert found.threshold is not None
            assert found.bound is not None
            assert found.bound <= best


def test_a_risk_that_is_always_reached() -> None:
    assert selective.threshold_for_risk(SCORE, CORRECT, 1.0).threshold == 0.9


def test_calibration_error() -> None:
    confidence = [0.55, 0.58, 0.95, 1.0]
    found = selective.calibration_error(confidence, [True, False, True, True], bins=10)
    assert found == pytest.approx((abs(0.55 + 0.58 - 1) + 0.05 + 0) / 4)


def test_each_class() -> None:
    found = selective.class_coverage([0.1, 0.2, 0.9, 0.1], [0, 0, 0, 2], 0.5, 3)
    assert found[[0, 2]].tolist() == pytest.approx([2 / 3, 1])
    assert math.isnan(found[1])


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, NAN]), min_size=1, max_size=6),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, NAN]), min_size=1, max_size=6),
)
def test_separation_is_counted_over_pairs(inner: list[float], outer: list[float]) -> None:
    def beats(a: float, b: float) -> float:
        a, b = (math.inf if x != x else x for x in (a, b))
        return float(b > a) + float(b == a) / 2

    pairs = [beats(a, b) for a in inner for b in outer]
    assert selective.auroc(inner, outer) == pytest.approx(sum(pairs) / len(pairs))


def test_conformal_sets_hold_the_true_class_as_often_as_promised() -> None:
    random = np.random.default_rng(3)
    held = [
        random.random(200) <= selective.conformal_threshold(random.random(99), 0.9)
        for _ in range(500)
    ]
    assert np.mean(held) == pytest.approx(0.9, abs=0.01)
    assert selective.conformal_threshold(np.arange(1, 100), 0.9) == 90
    assert selective.conformal_threshold([1, 2, 3], 0.9) == math.inf
    assert selective.conformal_threshold([*range(8), NAN], 0.9) == math.inf


def test_scores_of_one_sample_by_hand() -> None:
    probs, logits = [[0.7, 0.2, 0.1]], [[1.0, 2.0, 3.0]]
    assert selective.max_softmax(probs).tolist() == pytest.approx([0.3])
    assert selective.margin(probs).tolist() == pytest.approx([0.5])
    in_nats = -sum(p * math.log(p) for p in probs[0])
    assert selective.entropy(probs).tolist() == pytest.approx([in_nats])
    assert selective.entropy([[1.0, 0.0]]).tolist() == [0.0]
    assert selective.energy(logits).tolist() == pytest.approx(
        [-math.log(sum(map(math.exp, logits[0])))]
    )
    assert selective.energy([[1000.0, 0.0]]).tolist() == [-1000.0]
    passes = [[[0.5, 0.5]], [[0.9, 0.1]]]
    assert selective.variance(passes).tolist() == pytest.approx([0.04])


@pytest.mark.parametrize(
    "score", [selective.max_softmax, selective.margin, selective.entropy, selective.energy]
)
def test_a_prediction_that_is_not_a_number_is_not_scored(score: Callable[[Any], Any]) -> None:
    assert math.isnan(score([[NAN, NAN]])[0])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: selective.aurc([], []), "one sample or more"),
        (lambda: selective.aurc([[0.1]], [True]), "one number a sample"),
        (lambda: selective.aurc(["a"], [True]), "must be numbers"),
        (lambda: selective.aurc([0.1, 0.2], [True]), "each of the 2 samples"),
        (lambda: selective.aurc([0.1], [2]), "true or false"),
        (lambda: selective.risk_at_coverage([0.1], [True], 90), "a share from 0 to 1; got 90"),
        (lambda: selective.threshold_for_coverage([0.1], NAN), "a share from 0 to 1"),
        (lambda: selective.threshold_for_risk([0.1], [True], 0.1, 1.0), "between 0 and 1"),
        (lambda: selective.threshold_for_cost([0.1], [True], 2), "abstain is a share"),
        (lambda: selective.risk_bound(3, 2, 0.1), "3 errors among 2 answers"),
        (lambda: selective.calibration_error([1.5], [True]), "lie in 0 to 1"),
        (lambda: selective.calibration_error([0.5], [True], 0), "at least 1"),
        (lambda: selective.class_coverage([0.1], [3], 1, 2), "0 to 1; got 3 to 3"),
        (lambda: selective.class_coverage([0.1], [0.5], 1, 2), "one class a sample"),
        (lambda: selective.aurc([1j], [True]), "must be numbers; got complex"),
        (lambda: selective.margin([[0.5, 0.5], [0.1]]), "must be an array"),
        (lambda: selective.energy([["a", "b"]]), "must be numbers"),
        (lambda: selective.threshold_for_coverage([0.1], "0.5"), "must be a number; got '0.5'"),
        (lambda: selective.answered([0.1], None), "threshold must be a number"),
        (lambda: selective.calibration_error([0.5], [1], 2.5), "a whole number"),
        (lambda: selective.risk_bound(1.5, 3, 0.1), "1.5 errors among 3"),
        (lambda: selective.max_softmax([0.1]), r"\[samples, classes\]"),
        (lambda: selective.variance([[0.1]]), "two passes or more"),
    ],
)
def test_what_cannot_be_measured_is_said(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        call()


def test_a_million_scores_in_a_second() -> None:
    random = np.random.default_rng(4)
    score, correct = simulated(random, 1_000_000)
    for work in (
        lambda: selective.risk_coverage(score, correct),
        lambda: selective.aurc(score, correct),
        lambda: selective.threshold_for_risk(score, correct, 0.1),
        lambda: selective.threshold_for_cost(score, correct, 0.1),
        lambda: selective.auroc(score, score),
    ):
        started = time.perf_counter()
        work()
        assert time.perf_counter() - started < 1


def test_other_libraries_say_the_same() -> None:
    """torch-uncertainty, torchmetrics and MAPIE, as benchmarks/agreement.py found them."""
    kept = json.loads((agreement.TO).read_text())["values"]
    probs, labels = agreement.samples()
    right, half = probs.argmax(axis=1) == labels, len(labels) // 2
    score = selective.max_softmax(probs)
    truth = 1 - probs[np.arange(half), labels[:half]]
    sets = 1 - probs[half:] <= selective.conformal_threshold(truth, 0.9)
    assert {
        "aurc": selective.aurc(score, right),
        "augrc": selective.augrc(score, right),
        "calibration_error": selective.calibration_error(probs.max(axis=1), right),
        "conformal_coverage": sets[np.arange(half), labels[half:]].mean(),
        "conformal_set_size": sets.sum(axis=1).mean(),
    } == pytest.approx(kept, abs=1e-6)
