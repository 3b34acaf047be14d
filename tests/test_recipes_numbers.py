"""What recipes say was published is what was published: all of it, and nothing else."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shipped import SETS, described, known, recipe

from selfadapt import study

NUMBERS = tomllib.loads((Path(__file__).parent / "paper_numbers.toml").read_text(encoding="utf-8"))
RATES = (0.2, 0.4, 0.6, 0.8)
Where = dict[str, Any]
Published = tuple[str, Where, str, float]
TABLE_1: dict[str, tuple[Where, str]] = {
    "erm_early_stopping": (
        {"method.name": "erm", "variant": "early stopping"},
        "accuracy_best_validation",
    ),
    "label_smoothing": ({"method.name": "erm", "variant": "label smoothing"}, "accuracy"),
    "forward_that": ({"method.name": "forward"}, "accuracy"),
    "mixup": ({"method.name": "mixup"}, "accuracy"),
    "trunc_lq": ({"method.name": "truncated_gce"}, "accuracy"),
    "joint_opt": ({"method.name": "joint_optimization"}, "accuracy"),
    "sce": ({"method.name": "sce"}, "accuracy"),
    "dac": ({"method.name": "dac"}, "accuracy"),
    "self_filter": ({"method.name": "self_filter"}, "accuracy"),
    "mentornet": ({"method.name": "mentornet", "variant": "data-driven"}, "accuracy"),
    "sat": ({"method.name": "sat"}, "accuracy"),
}


def main_table() -> Iterator[Published]:
    for net, data in itertools.product(("resnet34", "wrn28_10"), SETS):
        for row, values in NUMBERS["table1"][net][data].items():
            where, metric = TABLE_1[row]
            for rate, value in zip(RATES, values, strict=True):
                here = {"net.name": net, "data.name": data, "corruption.rate": rate}
                if not math.isnan(value):
                    yield "cifar-noise", where | here, metric, value


def with_sce() -> Iterator[Published]:
    for data, row in itertools.product(SETS, ("sce", "sat", "sat_plus_sce")):
        for rate, value in zip(RATES, NUMBERS["table_sce"][data][row], strict=True):
            method = "sat_sce" if row == "sat_plus_sce" else row
            here = {"method.name": method, "data.name": data, "corruption.rate": rate}
            yield "sce", here, "accuracy", value


def ablation() -> Iterator[Published]:
    table = NUMBERS["table2a_ablation"]
    for row, variants in (
        ("sat", ["full"]),
        ("minus_reweighting", ["without weights"]),
        ("minus_moving_average", ["average forgotten", "average frozen"]),
    ):
        for column, value in zip(table["columns"], table[row], strict=True):
            data, _, rate = column.partition("@")
            for variant in variants:
                here = {"variant": variant, "data.name": data, "corruption.rate": float(rate)}
                yield "ablation", here, "accuracy", value


def sensitivity() -> Iterator[Published]:
    more = NUMBERS["table_supp_sensitivity"]
    for name, data, table in (
        ("sensitivity", "cifar10", NUMBERS["table2b_sensitivity"]),
        ("sensitivity-more", "cifar10", more | more["cifar10_at_0_8"]),
        ("sensitivity-more", "cifar100", more | more["cifar100_at_0_4"]),
    ):
        for momentum, value in zip(table["alpha"], table["acc_alpha_at_es60"], strict=True):
            here = {"data.name": data, "method.momentum": momentum, "method.start": 60}
            yield name, here, "accuracy", value
        for start, value in zip(table["es"], table["acc_es_at_alpha09"], strict=True):
            here = {"data.name": data, "method.momentum": 0.9, "method.start": start}
            yield name, here, "accuracy", value


def the_rest() -> Iterator[Published]:
    for method in ("erm", "sat"):
        for rate, value in zip((0.0, 0.4), NUMBERS["table3_imagenet"][method], strict=True):
            here = {"data.name": "imagenet", "method.name": method, "corruption.rate": rate}
            yield "imagenet", here, "accuracy", value
        curves = NUMBERS["double_descent"]
        widths = curves["width_curve"]
        for width, value in zip(widths["width"], widths[method], strict=True):
            here = {"method.name": method, "net.name": "resnet18", "net.width": width}
            yield "double-descent-width", here, "test_error", round(100 * value, 1)
        last = round(100 * curves["epoch_curve"][method][-1], 1)
        here = {"method.name": method, "net.name": "resnet18"}
        yield "double-descent-epochs", here, "test_error", last
    recovered = NUMBERS["label_recovery"]
    here = {"data.name": "cifar10", "method.name": "sat"}
    yield "label-recovery", here, "labels_right", recovered["cifar10"]
    here = {"data.name": "imagenet", "method.name": "sat", "corruption.rate": 0.4}
    yield "imagenet", here, "labels_right", recovered["imagenet"]


def selective() -> Iterator[Published]:
    rows: dict[str, Where] = {
        "sat": {"method.name": "sat_selective"},
        "deep_gamblers": {"method.name": "deep_gamblers"},
        "selectivenet": {"method.name": "selectivenet"},
        "sr": {"method.name": "erm", "variant": "softmax response"},
        "mc_dropout": {"method.name": "erm", "variant": "MC-dropout"},
    }
    sets = {"cifar10": "cifar10", "dogs_vs_cats": "dogs-vs-cats", "svhn": "svhn"}
    for (key, data), (row, where) in itertools.product(sets.items(), rows.items()):
        table = NUMBERS["table4_selective"][key]
        for coverage, value in zip(table["coverage"], table[f"{row}_mean"], strict=True):
            here = where | {"data.name": data}
            if row == "selectivenet":  # a model for each, and none to answer everything
                here = here | {"method.coverage": coverage / 100}
            if row != "selectivenet" or coverage < 100:
                yield "selective", here, f"error_at_{coverage}", value


def expected() -> Iterator[Published]:
    """What the recipes say; one that holds for any of several values, once for each."""
    for name in study.names():
        for one in recipe(name).expect:
            lists = [value if isinstance(value, list) else [value] for value in one.where.values()]
            for values in itertools.product(*lists):
                where = dict(zip(one.where, values, strict=True))
                yield name, where, one.metric, one.percent


def by_place(numbers: Iterable[Published]) -> dict[tuple[str, str, str], set[float]]:
    found: dict[tuple[str, str, str], set[float]] = {}
    for name, where, metric, value in numbers:
        place = name, json.dumps(where, sort_keys=True), metric
        found.setdefault(place, set()).add(value)
    return found


def test_recipes_say_what_was_published_all_of_it_and_nothing_else() -> None:
    tables = (main_table(), with_sce(), ablation(), sensitivity(), the_rest(), selective())
    published = by_place(itertools.chain.from_iterable(tables))
    assert by_place(expected()) == published
    assert len(published) == 110 + 24 + 16 + 9 + 10 + (4 + 40 + 2 + 2) + (4 * 7 + 6) + 2 * (
        4 * 5 + 4
    )


def test_published_numbers_are_those_of_paper_scale() -> None:
    for name, where, metric, value in expected():
        for one in known(name, where):
            assert recipe(name).expected(one, metric) == value
    for name in study.names():
        for metric in {one.metric for one in recipe(name).expect}:
            for small in described(name, "small"):
                assert recipe(name).expected(small, metric) is None
