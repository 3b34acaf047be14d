"""The recipes that come with the package: each binds, keeps the paper's rules, and runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shipped import LABEL_NOISE, SELECTIVE, cells, described, known, recipe
from torch import nn

import selfadapt
from selfadapt import corruption, methods, signatures, study, tables
from selfadapt.engine.plan import Plan
from selfadapt.experiment.assembly import plan_experiment
from selfadapt.study import SCALES, Cell, Scale
from selfadapt.tables.figures.spec import checked

every_recipe = pytest.mark.parametrize("name", study.names())


def test_the_study_is_complete() -> None:
    assert {
        *("accuracy-curves", "generalisation", "double-descent-width", "double-descent-epochs"),
        *("cifar-noise", "cifar10-10k", "sce", "ablation", "sensitivity", "sensitivity-more"),
        *("imagenet", "label-recovery", "human-labels", "selective"),
    } <= set(study.names())
    for name in study.names():
        assert recipe(name).table, f"{name} has no table"


def test_the_main_table_has_every_method() -> None:
    for scale in SCALES:
        of_table = {one["method.name"] for one in described("cifar-noise", scale)}
        assert of_table == set(methods.names()) - SELECTIVE
        assert {one["method.name"] for one in described("selective", scale)} > SELECTIVE


# every key binds


@every_recipe
def test_every_cell_is_a_run_that_could_begin(name: str) -> None:
    seen = set()
    for cell in itertools.chain.from_iterable(cells(name, scale) for scale in SCALES):
        kinds = json.dumps({k: _kind(k, v) for k, v in cell.settings.items()}, sort_keys=True)
        if kinds not in seen:
            seen.add(kinds)
            _could_begin(cell)


def _kind(name: str, value: Any) -> Any:
    """Rates and widths bind alike, whatever they are."""
    exact = name.startswith(("train.", "method.")) or isinstance(value, str)
    return value if exact else type(value).__name__


def _could_begin(cell: Cell) -> None:
    """It binds; and so do its method's first stage, and what only method and noise can refuse."""
    asked = dict(cell.settings)
    source = asked.pop("data.name")
    settings = plan_experiment(source, method=None, net=None, seed=1, settings=asked).settings
    method, noise = dict(settings["method"]), dict(settings["corruption"])
    name = method.pop("name")
    methods.build(name, lambda outputs: nn.Linear(2, outputs), torch.arange(10), 10, method)
    stage = next(methods.resolve(name).stages(method, settings["train"]), None)
    if stage is not None:
        signatures.bind(methods.resolve(stage.method), "method", stage.knobs)
        Plan(**signatures.bind(Plan, "train", {**settings["train"], **stage.train}))
    corrupt = corruption.resolve(noise.pop("name"))
    of_labels = (np.arange(10), 10) if corruption.changes_labels(corrupt) else (10,)
    corrupt(*of_labels, 1, **noise)


# the paper's rules


@pytest.mark.parametrize("name", [*LABEL_NOISE, "accuracy-curves"])
def test_start_and_momentum_on_cifar(name: str) -> None:
    for method in {"sat", "sat_sce"} & {one["method.name"] for one in described(name, "paper")}:
        for one in known(name, {"method.name": method}):
            assert (one["method.start"], one["method.momentum"]) == (60, 0.9)


def test_start_and_momentum_without_augmentation() -> None:
    for augment, rule in (("crop_flip", (60, 0.9)), ("none", (25, 0.7))):
        for one in known("generalisation", {"method.name": "sat", "data.augment": augment}):
            assert (one["method.start"], one["method.momentum"]) == rule


def test_start_and_momentum_follow_the_width() -> None:
    widths = set()
    for one in known("double-descent-width", {"method.name": "sat"}):
        width = one["net.width"]
        widths.add(width)
        assert one["method.start"] == int(40 * 64 / width)
        assert one["method.momentum"] == pytest.approx(0.9 ** (width / 64), abs=1e-15)
    assert (min(widths), max(widths)) == (1, 64)
    for one in known("double-descent-epochs", {"method.name": "sat"}):
        assert (one["net.width"], one["method.start"], one["method.momentum"]) == (64, 40, 0.9)


def test_start_and_momentum_on_imagenet() -> None:
    for rate, rule in ((0.0, (50, 0.99)), (0.4, (60, 0.95))):
        for one in known("imagenet", {"method.name": "sat", "corruption.rate": rate}):
            assert (one["method.start"], one["method.momentum"]) == rule


@pytest.mark.parametrize(
    "name", sorted(set(study.names()) - {"selective", "selective-10k", "selective-others"})
)
def test_labels_move_before_the_end_at_small_scale(name: str) -> None:
    for one in known(name, {"method.name": "sat"}, "small"):
        assert 0 < one["method.start"] < one["train.epochs"]


def test_methods_that_choose_hold_a_part_out() -> None:
    for scale in SCALES:
        for one in known("cifar-noise", {}, scale):
            needs = methods.resolve(one["method.name"]).needs_validation
            held_out = 0.1 if needs or one.get("variant") == "early stopping" else 0.0
            assert one.get("data.validation", 0.0) == held_out


def test_analysis_figures_hold_a_tenth_out() -> None:
    for name, scale in itertools.product(("accuracy-curves", "generalisation"), SCALES):
        for one in known(name, {}, scale):
            assert one["data.validation"] == 0.1
            assert one["train.curves"]


@pytest.mark.parametrize(("data", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_co_teaching_is_told_how_many_labels_are_wrong(data: str, classes: int) -> None:
    for one in known("cifar-noise", {"method.name": "co_teaching", "data.name": data}):
        wrong = one["corruption.rate"] * (classes - 1) / classes
        assert one["method.rate"] == pytest.approx(wrong)


def test_only_who_says_so_sees_true_labels() -> None:
    for scale in SCALES:
        for one in known("cifar-noise", {}, scale):
            asked = one.get("method.curriculum") == "data_driven"
            assert asked == (one.get("variant") == "data-driven")


# each runs


def images(samples: int = 60) -> dict[str, np.ndarray]:
    """Coloured squares of ten classes, with every column of labels that a recipe names."""
    random = np.random.default_rng(0)
    y = np.arange(samples) % 10
    x = random.integers(0, 60, (samples, 8, 8, 3)) + 18 * y[:, None, None, None]
    human = {
        f"human_{kind}": np.where(random.random(samples) < 0.3, (y + 1) % 10, y)
        for kind in ("aggregate", "random1", "worst")
    }
    test = {"x_test": x[:20].astype(np.uint8), "y_test": y[:20]}
    return {"x": x.astype(np.uint8), "y": y, "label": y, **human, **test}


@every_recipe
@pytest.mark.parametrize("scale", SCALES)
def test_a_cell_of_each_recipe_in_miniature(name: str, scale: Scale, tmp_path: Path) -> None:
    """Two epochs of the last cell of SAT, on a net that is there at once; its numbers are those
    that table and figures ask for."""
    of_sat = ("sat", "sat_selective")
    cell = [cell for cell in cells(name, scale) if cell.settings["method.name"] in of_sat][-1]
    settings = {k: v for k, v in cell.settings.items() if not k.startswith(("net.", "data.name"))}
    settings |= {"train.epochs": 2, "train.batch": 30, "train.workers": 0}
    settings |= {"method.start": 1} if "method.start" in settings else {}
    settings |= {"net.name": "mlp", "net.width": 8}
    if "data.without" in settings:
        settings["data.without"] = [8, 9]
    elif "train.against" in settings:  # it may have to be fetched
        np.savez(tmp_path / "others.npz", x=255 - images()["x"])
        settings["train.against"] = str(tmp_path / "others.npz")
    settings |= {"data.size": 8} if "data.size" in settings else {}
    run = selfadapt.fit(images(), out=tmp_path / "run", settings=settings)
    assert run.about["noise"]["name"] == settings.get("corruption.name", "none")
    rows = tables.rows(run.path, {run.path: cell.settings | cell.labels})
    found = recipe(name)
    # labels that no cell of SAT has, such as an ERM's variant
    asked = {key: [k for k in keys if k in rows[0]] for key, keys in found.table.items()}
    asked["metrics"] = found.table["metrics"]
    table = tables.build(rows, tables.Layout(**asked), found.expected)
    for block in table.blocks:
        known = block.metric != "accuracy_best_validation" or "data.validation" in settings
        assert bool(block.cells) == known, f"{block.metric} of {name}"
    told = {block.metric for block in table.blocks}
    left_out = set(found.table["metrics"]) - told
    without = {"accuracy_best_validation"} if "data.validation" not in settings else set()
    without |= {"auroc_other"} if "train.against" not in settings else set()
    assert left_out <= without
    for figure in found.figures:
        checked(figure, rows)
