"""Pictures: that the right data are drawn is asked of the axes, not of the pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_runs import make_run, write_labels
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from selfadapt import tables
from selfadapt.errors import BadInput, UnknownName
from selfadapt.tables import figures

EPOCHS = 4
CURVES = {"name": "c", "kind": "curves", "lines": ["method.name"], "y": ["fitted"]}
LINES = {
    "name": "l",
    "kind": "lines",
    "x": "corruption.rate",
    "lines": ["method.name"],
    "y": ["accuracy"],
}


def make_study(folder: Path, seeds: int = 3) -> dict[tuple[str, float], np.ndarray]:
    """[seed, epoch] of `fitted` for each method and rate; accuracy is its last value."""
    random = np.random.default_rng(0)
    drawn = {}
    for method in ("erm", "sat"):
        for rate in (0.4, 0.2):
            values = random.uniform(size=(seeds, EPOCHS))
            drawn[method, rate] = values
            for seed in range(seeds):
                lines = [{"fitted": v, "test_accuracy": v / 2} for v in values[seed].tolist()]
                make_run(
                    folder / f"{method}-{rate}-{seed}",
                    method=method,
                    seed=seed + 1,
                    log=lines,
                    accuracy=float(values[seed, -1]),
                    corruption__rate=rate,
                    noise={"error_rate": 0.9 * rate},
                )
    return drawn


def made(rows: list[tables.Row], spec: dict[str, Any], title: str = "") -> Figure:
    figure, notes = figures.make(rows, spec, title)
    assert notes == []
    assert figure is not None
    return figure


def line(axes: Axes, label: str) -> np.ndarray:
    """[point, (x, y)]"""
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return np.asarray(found.get_xydata())


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_curves_are_means_over_seeds_in_percent_from_the_first_epoch(tmp_path: Path) -> None:
    drawn = make_study(tmp_path)
    spec = CURVES | {"panels": ["corruption.rate"]}
    figure = made(tables.rows(tmp_path), spec, "A title")
    assert figure.get_suptitle() == "A title"
    assert [axes.get_title() for axes in figure.axes] == ["noise rate 20 %", "noise rate 40 %"]
    for axes, rate in zip(figure.axes, (0.2, 0.4), strict=True):
        assert axes.get_xlabel() == "epoch"
        for method in ("erm", "sat"):
            points = line(axes, method)
            np.testing.assert_array_equal(points[:, 0], [1, 2, 3, 4])
            np.testing.assert_allclose(points[:, 1], 100 * drawn[method, rate].mean(axis=0))
        clean = line(axes, "share of clean samples")
        np.testing.assert_allclose(clean[:, 1], 100 * (1 - 0.9 * rate))
    assert figure.axes[0].get_ylabel() == "accuracy on the noisy training set, %"
    assert legend_of(figure) == ["erm", "sat", "share of clean samples"]


def test_the_band_is_a_deviation_to_either_side(tmp_path: Path) -> None:
    drawn = make_study(tmp_path)["erm", 0.2]
    rows = [
        r for r in tables.rows(tmp_path) if (r["method.name"], r["corruption.rate"]) == ("erm", 0.2)
    ]
    (band,) = made(rows, CURVES).axes[0].collections
    corners = band.get_paths()[0].vertices
    mean, std = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
    for epoch in range(EPOCHS):
        at = np.asarray(corners)[np.asarray(corners)[:, 0] == epoch + 1, 1]
        assert at.min() == pytest.approx(100 * (mean - std)[epoch])
        assert at.max() == pytest.approx(100 * (mean + std)[epoch])


def test_one_seed_has_no_band(tmp_path: Path) -> None:
    make_study(tmp_path, seeds=1)
    figure = made(tables.rows(tmp_path), CURVES | {"panels": ["corruption.rate"]})
    assert all(not axes.collections for axes in figure.axes)


def test_lines_stand_at_the_values_of_a_setting(tmp_path: Path) -> None:
    drawn = make_study(tmp_path)
    (axes,) = made(tables.rows(tmp_path), LINES).axes
    for method in ("erm", "sat"):
        points = line(axes, method)
        np.testing.assert_array_equal(points[:, 0], [20, 40])
        means = [100 * drawn[method, rate][:, -1].mean() for rate in (0.2, 0.4)]
        np.testing.assert_allclose(points[:, 1], means)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("noise rate, %", "test accuracy, %")
    assert len(axes.collections) == 2


def test_each_metric_of_kind_lines_has_a_panel_of_its_own(tmp_path: Path) -> None:
    make_study(tmp_path)
    spec = LINES | {"y": ["accuracy", "cost"]}
    first, second = made(tables.rows(tmp_path), spec).axes
    assert first.get_title() == "test accuracy"
    assert second.get_ylabel() == "time"
    np.testing.assert_allclose(line(second, "erm")[:, 1], [1, 1])


def test_a_setting_of_words_is_in_the_order_of_the_rows(tmp_path: Path) -> None:
    for name in ("uniform", "gaussian"):
        make_run(tmp_path / name, corruption__name=name)
    rows = tables.rows([tmp_path / "uniform", tmp_path / "gaussian"])
    (axes,) = made(rows, LINES | {"x": "corruption.name"}).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["uniform", "gaussian"]
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [0, 1])


def test_a_logarithmic_axis_names_its_values(tmp_path: Path) -> None:
    for width in (1, 4, 64):
        make_run(tmp_path / str(width), net__width=width)
    (axes,) = made(tables.rows(tmp_path), LINES | {"x": "net.width", "log_x": True}).axes
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "4", "64"]
    curves = made(tables.rows(tmp_path / "1"), CURVES | {"y": ["test_accuracy"], "log_x": True})
    assert curves.axes[0].get_xscale() == "log"


def test_several_curves_of_several_methods_differ_in_colour_and_dashes(tmp_path: Path) -> None:
    make_study(tmp_path)
    rows = [row for row in tables.rows(tmp_path) if row["corruption.rate"] == 0.2]
    spec = CURVES | {"y": ["fitted", "test_accuracy"]}
    figure = made(rows, spec)
    (axes,) = figure.axes
    names = ["erm, noisy training set", "erm, test set", "sat, noisy training set", "sat, test set"]
    assert legend_of(figure)[:4] == names
    drawn = {one.get_label(): one for one in axes.lines}
    looks = [(drawn[name].get_color(), drawn[name].get_linestyle()) for name in names]
    assert len(set(looks)) == 4
    assert looks[0][0] == looks[1][0] != looks[2][0], "a colour a method"
    assert looks[0][1] == looks[2][1] != looks[1][1], "dashes a set"


def test_too_many_curves_for_one_panel_are_taken_apart_by_method(tmp_path: Path) -> None:
    values = dict.fromkeys(["fitted", "fitted_true", "test_accuracy", "validation_accuracy"], 0.5)
    for method in ("erm", "sat"):
        make_run(tmp_path / method, method=method, log=[values, values])
    figure = made(tables.rows(tmp_path), CURVES | {"y": list(values)})
    assert [axes.get_title() for axes in figure.axes] == ["erm", "sat"]
    assert [len(axes.lines) for axes in figure.axes] == [5, 5], "and the share of clean samples"


def test_what_is_missing_is_left_out_and_said(tmp_path: Path) -> None:
    make_run(tmp_path / "a", method="erm", log=[{"fitted": 0.5}])
    make_run(tmp_path / "b", method="sat", log=[{"fitted": None}])
    make_run(tmp_path / "c", method="elr", log=[{}], done=False)
    figure, notes = figures.make(tables.rows(tmp_path), CURVES)
    assert figure is not None
    assert [one.get_label() for one in figure.axes[0].lines] == ["erm", "share of clean samples"]
    assert notes == [
        "figure c: nothing is known of fitted (sat)",
        "figure c: 1 of 3 runs are not finished",
    ]
    drawn = figures.draw(tables.rows(tmp_path / "b"), CURVES, "", tmp_path / "none")
    assert drawn.files == []
    assert not (tmp_path / "none").exists()
    with pytest.raises(BadInput, match="nothing to draw"):
        figures.make(tables.rows(tmp_path / "c"), CURVES)


def test_runs_that_differ_in_more_than_their_seed_are_told_of(tmp_path: Path) -> None:
    make_study(tmp_path)
    _, notes = figures.make(tables.rows(tmp_path), CURVES)
    assert notes[0].startswith("Warning: figure c: a line averages runs that differ in corruption.")


def test_seeds_of_unequal_length_are_drawn_as_far_as_all_go(tmp_path: Path) -> None:
    for seed, epochs in ((1, 3), (2, 5)):
        log = [{"fitted": 0.1 * seed}] * epochs
        make_run(tmp_path / str(seed), seed=seed, log=log, train__epochs=5)
    (axes,) = made(tables.rows(tmp_path), CURVES).axes
    np.testing.assert_allclose(
        line(axes, "accuracy on the noisy training set"), [[1, 15], [2, 15], [3, 15]]
    )


MATRIX = {"name": "m", "kind": "matrix", "panels": ["method.name"], "y": ["recovered"]}


def make_labels(folder: Path) -> list[tables.Row]:
    for seed, corrected in ((1, [0, 1, 1, 1]), (2, [0, 0, 1, 2])):
        run = make_run(folder / f"sat-{seed}", method="sat", seed=seed)
        write_labels(run, [0, 0, 1, 1], corrected, [0.2, 0.4, 0.6, 0.8])
    return tables.rows(folder)


def test_matrices_hold_all_samples_of_all_seeds(tmp_path: Path) -> None:
    figure = made(make_labels(tmp_path), MATRIX | {"y": ["recovered", "weight"]})
    recovered, weight = (axes for axes in figure.axes if axes.images)
    shares, weights = (axes.images[0].get_array() for axes in (recovered, weight))
    nan = np.nan  # white: no sample lies there
    right = np.array([[75, 25, nan], [nan, 75, 25], [nan, nan, nan]])
    mean = np.array(
        [[(0.2 + 0.2 + 0.4) / 3, 0.4, nan], [nan, (0.6 + 0.8 + 0.6) / 3, 0.8], [nan] * 3]
    )
    np.testing.assert_allclose(np.ma.filled(shares, nan), right)
    np.testing.assert_allclose(np.ma.filled(weights, nan), mean, rtol=1e-6)
    assert sorted(text.get_text() for text in recovered.texts) == ["25.0", "25.0", "75.0", "75.0"]
    assert sorted(text.get_text() for text in weight.texts) == ["0.27", "0.40", "0.67", "0.80"]
    assert (recovered.get_xlabel(), recovered.get_ylabel()) == (
        "label after training",
        "true label",
    )
    assert recovered.get_title() == "sat, share of the true class, %"
    bad = recovered.images[0].get_cmap().get_bad()
    np.testing.assert_array_equal(bad, [1, 1, 1, 1])


def test_many_classes_have_no_numbers_in_their_cells(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", classes=[str(number) for number in range(13)])
    write_labels(run, list(range(13)), list(range(13)), [0.5] * 13)
    figure = made(tables.rows(run), MATRIX)
    assert not figure.axes[0].texts


def test_a_matrix_that_is_not_known_is_said_to_be(tmp_path: Path) -> None:
    make_labels(tmp_path)
    erm = make_run(tmp_path / "erm", method="erm")
    write_labels(erm, [0, 1], [0, 1])
    unknown = make_run(tmp_path / "unknown", method="gce")
    write_labels(unknown, [None, None], [0, 1])
    figure, notes = figures.make(tables.rows(tmp_path), MATRIX | {"y": ["weight"]})
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes if axes.images] == ["sat, mean weight"]
    assert any("weigh no samples (erm)" in note for note in notes)
    assert any("of 1 of 1 runs it is not known" in note and "(gce)" in note for note in notes)


@pytest.mark.parametrize("spec", [CURVES, LINES, MATRIX], ids=lambda spec: spec["kind"])
def test_files_are_what_they_claim_and_the_same_each_time(
    spec: dict[str, Any], tmp_path: Path
) -> None:
    rows = make_labels(tmp_path / "runs")
    if spec is CURVES:
        spec = spec | {"y": ["test_accuracy"]}
    png, svg, pdf = figures.draw(rows, spec, "$5 & <b> ± 1", tmp_path / "a").files
    assert [path.name for path in (png, svg, pdf)] == [
        f"{spec['name']}.{k}" for k in ("png", "svg", "pdf")
    ]
    with Image.open(png) as picture:
        picture.load()
        assert picture.width > 300
        assert len(picture.convert("RGB").getcolors(1 << 24) or ()) > 10
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert pdf.read_bytes().startswith(b"%PDF-")
    again = figures.draw(rows, spec, "$5 & <b> ± 1", tmp_path / "b").files
    for one, other in zip((png, svg, pdf), again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()
    assert b"<dc:date>" not in svg.read_bytes()


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [
        (CURVES | {"kind": "curve"}, UnknownName, "Did you mean 'curves'"),
        (CURVES | {"y": ["fited"]}, UnknownName, "Did you mean 'fitted'"),
        (CURVES | {"lines": ["method.nam"]}, UnknownName, "Did you mean 'method.name'"),
        (CURVES | {"colour": "red"}, UnknownName, "unknown key of a figure 'colour'"),
        (CURVES | {"x": "net.name"}, BadInput, "x is for kind lines"),
        ({"name": "l", "kind": "lines", "y": ["accuracy"]}, BadInput, "needed there"),
        ({"name": "c", "kind": "curves"}, BadInput, "needs a y"),
        (MATRIX | {"y": ["fitted"]}, UnknownName, "unknown matrix 'fitted'"),
    ],
)
def test_a_figure_that_makes_no_sense_is_an_error(
    spec: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    make_run(tmp_path / "a", log=[{"fitted": 0.5}])
    with pytest.raises(error, match=told):
        figures.make(tables.rows(tmp_path), spec)


def test_pictures_share_no_state_with_those_of_others(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figures.draw(make_labels(tmp_path / "runs"), MATRIX, "", tmp_path)
    assert dict(mpl.rcParams) == before
