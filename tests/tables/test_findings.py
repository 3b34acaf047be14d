"""Each finding of the paper on planted rows: where it holds, where it does not, and where the rows
cannot tell."""

from __future__ import annotations

import findings
import numpy as np
import pytest
from findings import accuracy, curves, labels
from findings.verdict import Finding, Verdict
from planted import over_rates, planted

from selfadapt import study
from selfadapt.tables import Confusion, Row


def judged(finding: Finding, rows: list[Row]) -> Verdict:
    verdict = finding(rows)
    assert verdict is not None
    return verdict


ERM = over_rates("erm", {0.2: 0.80, 0.4: 0.60})


def test_sat_above_erm() -> None:
    yes = judged(accuracy.sat_above_erm, [*ERM, *over_rates("sat", {0.2: 0.85, 0.4: 0.80})])
    assert yes.holds
    assert (
        yes.sentence() == "SAT above ERM: **yes**, at 2 of 2 noise rates, by +5.0 to +20.0 points."
    )
    no = judged(accuracy.sat_above_erm, [*ERM, *over_rates("sat", {0.2: 0.79, 0.4: 0.80})])
    assert no.holds is False
    assert "at 1 of 2 noise rates" in no.evidence
    assert "not at noise rate 20 % −1.0" in no.evidence
    assert accuracy.sat_above_erm(ERM) is None


def test_a_difference_smaller_than_its_scatter_is_called_noise() -> None:
    sat = [planted("sat", s, accuracy=0.60 + d) for s, d in ((1, -0.05), (2, 0.06), (3, 0.01))]
    erm = [planted("erm", seed, accuracy=0.60) for seed in (1, 2, 3)]
    verdict = judged(accuracy.sat_above_erm, [*erm, *sat])
    assert verdict.holds is None
    assert verdict.sentence().startswith(
        "SAT above ERM: **cannot be told**, by +0.7 points, within"
    )


def test_variants_and_own_schedules_are_not_the_baseline() -> None:
    sat = over_rates("sat", {0.4: 0.8})
    smooth = over_rates("erm", {0.4: 0.9}, settings={"method.smoothing": 0.1})
    stopped = over_rates("erm", {0.4: 0.9}, labels={"variant": "early stopping"})
    own = over_rates("erm", {0.4: 0.9}, labels={"protocol": "own"})
    assert accuracy.sat_above_erm([*sat, *smooth, *stopped, *own]) is None


@pytest.mark.parametrize(("best", "holds"), [(0.75, True), (0.85, False)])
def test_sat_above_early_stopping(best: float, holds: bool) -> None:
    stopped = over_rates(
        "erm", {0.4: 0.5}, labels={"variant": "early stopping"}, accuracy_best_validation=best
    )
    rows = [*ERM, *stopped, *over_rates("sat", {0.4: 0.8})]
    assert judged(accuracy.sat_above_early_stopping, rows).holds is holds
    assert accuracy.sat_above_early_stopping(ERM) is None


def test_a_method_above_sat_is_named_with_gain_and_cost() -> None:
    sat = over_rates("sat", {0.2: 0.85, 0.4: 0.80})
    below = over_rates("gce", {0.2: 0.84, 0.4: 0.79})
    above = over_rates("elr", {0.2: 0.86, 0.4: 0.78}, seconds=15.0)
    yes = judged(accuracy.nothing_above_sat, [*ERM, *sat, *below])
    assert (yes.holds, yes.evidence) == (True, "of 2 others")
    no = judged(accuracy.nothing_above_sat, [*ERM, *sat, *below, *above])
    assert no.holds is False
    told = "elr: +1.0 points at 1 of 2 noise rates; 1.50× SAT's training time"
    assert (no.evidence, no.cases) == ("1 of 3 others are above it", (told,))
    assert no.markdown() == f"- {no.sentence()}\n  - {told}"
    assert accuracy.nothing_above_sat(sat) is None
    assert accuracy.nothing_above_sat([*sat, *ERM]) is None, "a finding of its own"


def test_early_stopping_counts_by_the_epoch_it_chose() -> None:
    stopped = over_rates(
        "erm", {0.4: 0.5}, labels={"variant": "early stopping"}, accuracy_best_validation=0.9
    )
    verdict = judged(accuracy.nothing_above_sat, [*stopped, *over_rates("sat", {0.4: 0.8})])
    assert verdict.cases[0].startswith("erm, early stopping: +")


def ablation(weights: float, forgotten: float, frozen: float) -> list[Row]:
    changes = {
        "full": ({}, 0.9),
        "weights": ({"method.reweight": False}, weights),
        "forgotten": ({"method.average": "forgotten"}, forgotten),
        "frozen": ({"method.average": "frozen"}, frozen),
    }
    return [
        row
        for name, (settings, level) in changes.items()
        for row in over_rates("sat", {0.4: level}, settings=settings, labels={"variant": name})
    ]


def test_average_matters_most() -> None:
    yes = judged(accuracy.average_matters_most, ablation(0.88, 0.70, 0.60))
    assert yes.holds
    assert (
        "SAT 90.0, without weights 88.0, average forgotten 70.0, average frozen 60.0 %"
        in yes.evidence
    )
    assert judged(accuracy.average_matters_most, ablation(0.65, 0.70, 0.60)).holds is False
    assert accuracy.average_matters_most(over_rates("sat", {0.4: 0.9})) is None


IMAGES = {"noisy_images": 40, "error_rate": 0.0}


@pytest.mark.parametrize(("best", "holds"), [(0.7, True), (0.9, False)])
def test_early_stopping_hurts_under_image_corruptions(best: float, holds: bool) -> None:
    images = over_rates(
        "erm",
        {0.4: 0.8},
        noise=IMAGES,
        accuracy_best_validation=best,
        settings={"corruption.name": "gaussian"},
    )
    wrong = over_rates("erm", {0.4: 0.6}, accuracy_best_validation=0.9)
    verdict = judged(accuracy.early_stopping_hurts, [*images, *wrong])
    assert verdict.holds is holds
    assert "under label noise it changes accuracy by: uniform +30.0 points" in verdict.evidence
    assert accuracy.early_stopping_hurts(wrong) is None, "nothing on images"


def test_insensitive() -> None:
    def tried(worst: float) -> list[Row]:
        levels = {0.9: 0.95, 0.99: worst}
        return [
            row
            for momentum, level in levels.items()
            for row in over_rates("sat", {0.4: level}, settings={"method.momentum": momentum})
        ]

    assert judged(accuracy.insensitive, tried(0.93)).holds
    no = judged(accuracy.insensitive, tried(0.80))
    assert no.holds is False
    assert "95.0 % (momentum 0.9" in no.evidence
    assert "80.0 % (momentum 0.99" in no.evidence
    assert accuracy.insensitive(over_rates("sat", {0.4: 0.9})) is None


def rising(to: float, epochs: int = 40) -> list[float | None]:
    return [to * min(1.0, (epoch + 1) / 20) for epoch in range(epochs)]


@pytest.mark.parametrize(
    ("level", "holds"), [(0.64, True), (0.68, True), (0.75, False), (0.5, False)]
)
def test_levels_off(level: float, holds: bool) -> None:
    """0.64 is the share of right labels at a rate of 0.4."""
    rows = [
        planted("sat", log={"fitted": rising(level)}),
        planted("erm", log={"fitted": rising(1)}),
    ]
    verdict = judged(curves.levels_off, rows)
    assert verdict.holds is holds
    assert f"{100 * level:.1f} against 64.0 %, ERM 100.0" in verdict.evidence


def test_where_nothing_is_wrong_nothing_levels_off() -> None:
    assert curves.levels_off([planted("sat", rate=0.0, log={"fitted": rising(1.0)})]) is None
    assert curves.levels_off([planted("sat")]) is None, "without curves"


def last(method: str, fitted: float, noisy: float, clean: float, rate: float = 0.4) -> Row:
    log = {"fitted": [fitted], "validation_accuracy": [noisy], "validation_true_accuracy": [clean]}
    return planted(method, rate=rate, log=log)


def test_generalisation_and_clean_errors() -> None:
    erm, sat = last("erm", 1.0, 0.4, 0.6), last("sat", 0.64, 0.6, 0.9)
    assert judged(curves.generalises_better, [erm, sat]).evidence == "by +56.0 points"
    assert judged(curves.fewer_clean_errors, [erm, sat]).evidence == "by +30.0 points"
    worse = last("sat", 1.0, 0.3, 0.5)
    assert judged(curves.generalises_better, [erm, worse]).holds is False
    assert judged(curves.fewer_clean_errors, [erm, worse]).holds is False
    clean = [last("erm", 1.0, 0.9, 0.9, rate=0.0), last("sat", 1.0, 0.9, 0.9, rate=0.0)]
    assert curves.generalises_better(clean) is None, "without noise there is nothing to show"


def by_width(method: str, errors: list[float]) -> list[Row]:
    return [
        planted(
            method, seed, accuracy=1 - error + (seed - 2) * 0.005, settings={"net.width": 2**at}
        )
        for at, error in enumerate(errors)
        for seed in (1, 2, 3)
    ]


TWICE, ONCE = [0.5, 0.3, 0.2, 0.3, 0.25, 0.15], [0.5, 0.4, 0.3, 0.301, 0.25, 0.2]
ONLY_UP = [0.5, 0.3, 0.2, 0.25, 0.3, 0.35]


def test_descents_by_width() -> None:
    twice = judged(curves.erm_descends_twice, by_width("erm", TWICE))
    assert twice.holds
    assert (
        twice.evidence
        == "mlp, width: a low of 20.0 % at 4, a peak of 30.0 % at 8, then 15.0 % at 32"
    )
    assert judged(curves.erm_descends_twice, by_width("erm", ONCE)).holds is False
    assert judged(curves.erm_descends_twice, by_width("erm", ONLY_UP)).holds is False
    assert judged(curves.sat_descends_once, by_width("sat", ONCE)).holds
    assert judged(curves.sat_descends_once, by_width("sat", TWICE)).holds is False
    assert curves.sat_descends_once(by_width("erm", TWICE)) is None


def test_descents_by_epoch() -> None:
    epoch = np.arange(1, 301)
    once = 0.1 + 0.6 / epoch
    twice = once + 0.2 * np.exp(-(np.log(epoch / 60) ** 2) * 4)
    random = np.random.default_rng(0)

    def runs(method: str, error: np.ndarray) -> list[Row]:
        curves = [1 - error + random.normal(0, 0.01, len(epoch)) for _ in range(3)]
        return [planted(method, s, log={"test_accuracy": c.tolist()}) for s, c in enumerate(curves)]

    assert judged(curves.erm_descends_twice, runs("erm", twice)).holds
    assert judged(curves.erm_descends_twice, runs("erm", once)).holds is False
    assert judged(curves.sat_descends_once, runs("sat", once)).holds
    assert judged(curves.sat_descends_once, runs("sat", twice)).holds is False


@pytest.mark.parametrize(("noise", "found"), [(0.001, (1, 2, 4)), (0.2, None)])
def test_a_second_descent_must_stand_out_of_the_noise(
    noise: float, found: tuple[int, int, int] | None
) -> None:
    error = np.array([0.5, 0.2, 0.3, 0.25, 0.1])
    assert curves.second_descent(error, np.full(5, noise)) == found


@pytest.mark.parametrize(("right", "holds"), [(0.9, True), (0.6, False)])
def test_labels_recovered(right: float, holds: bool) -> None:
    rows = [
        planted("sat", labels_right=right, error_rate=0.36),
        planted("erm", labels_right=0.7, error_rate=0.36),
    ]
    verdict = judged(labels.labels_recovered, rows)
    assert verdict.holds is holds
    assert verdict.evidence == f"64.0 → {100 * right:.1f} % (70.0 by ERM's predictions)"
    assert labels.labels_recovered([planted("sat", labels_right=0.9, error_rate=0.0)]) is None
    assert labels.labels_recovered([planted("sat")]) is None


@pytest.mark.parametrize("holds", [True, False])
def test_weights_tell(holds: bool) -> None:
    counts = np.array([[90, 10], [0, 100]])
    weights = (
        np.array([[0.9, 0.5], [np.nan, 0.8]]) if holds else np.array([[0.4, 0.9], [np.nan, 0.5]])
    )
    row = planted("sat", confusion=Confusion(("a", "b"), counts, weights))
    verdict = judged(labels.weights_tell, [row])
    assert verdict.holds is holds
    right = (90 * weights[0, 0] + 100 * weights[1, 1]) / 190
    assert verdict.evidence.startswith(f"{right:.2f} where the label is right")
    unweighted = planted("sat", confusion=Confusion(("a", "b"), counts, None))
    assert labels.weights_tell([unweighted]) is None


def test_same_noise() -> None:
    assert judged(labels.same_noise, [planted("sat"), planted("erm")]).holds
    other = planted("erm", noise={"fingerprint": "another"})
    no = judged(labels.same_noise, [planted("sat"), other, planted("sat", 2), planted("erm", 2)])
    assert no.holds is False
    assert "1 of 2" in no.evidence
    assert labels.same_noise([planted("sat"), planted("erm", seed=2)]) is None


def test_findings_are_asked_of_recipes_that_exist() -> None:
    assert findings.FINDINGS.keys() <= set(study.names())
    assert findings.judge("no such study", ERM) == []
    rows = [*ERM, *over_rates("sat", {0.2: 0.9, 0.4: 0.9}), *over_rates("elr", {0.2: 0.8})]
    verdicts = findings.judge("cifar-noise", rows)
    assert [one.claim for one in verdicts] == ["SAT above ERM", "No method above SAT"]
