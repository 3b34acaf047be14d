"""What stands in a table's cells, against numpy written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import MACHINE, make_run

from selfadapt import tables
from selfadapt.errors import BadInput
from selfadapt.tables import Cell, Layout, Table
from selfadapt.tables.cost import costs
from selfadapt.tables.groups import identity

BY_RATE = Layout(["method.name"], ["corruption.rate"])


def cell(table: Table, down: Any, across: Any = (), metric: str = "accuracy") -> Cell | None:
    block = next(block for block in table.blocks if block.metric == metric)
    return block.cells.get((identity(list(down)), identity(list(across))))


def make_grid(folder: Path) -> list[tables.Row]:
    """erm and sat at two rates with three seeds, but one of sat's is missing."""
    random = np.random.default_rng(0)
    for method in ("erm", "sat"):
        for rate in (0.4, 0.2):
            for seed in (1, 2, 3):
                if (method, rate, seed) != ("sat", 0.4, 3):
                    make_run(
                        folder / f"{method}-{rate}-{seed}",
                        method=method,
                        seed=seed,
                        corruption__rate=rate,
                        accuracy=float(random.uniform()),
                        seconds=float(random.uniform(5, 10)),
                    )
    return tables.rows(folder)


def of(rows: list[tables.Row], method: str, rate: float, name: str) -> np.ndarray:
    mine = [r for r in rows if r["method.name"] == method and r["corruption.rate"] == rate]
    return np.array([row[name] for row in sorted(mine, key=lambda row: row["seed"])])


def test_mean_and_deviation_over_seeds(tmp_path: Path) -> None:
    rows = make_grid(tmp_path)
    table = tables.build(rows, BY_RATE)
    for method in ("erm", "sat"):
        for rate in (0.2, 0.4):
            found, values = cell(table, [method], [rate]), of(rows, method, rate, "accuracy")
            assert found is not None
            assert found.mean == pytest.approx(values.mean(), abs=1e-12)
            deviation = np.sqrt(((values - values.mean()) ** 2).sum() / (len(values) - 1))
            assert found.std == pytest.approx(deviation, abs=1e-12)
            assert len(found.seeds) == len(values)
    assert [head.values for head in table.columns] == [(0.2,), (0.4,)], "numbers rise"
    assert [head.values for head in table.rows] == [("erm",), ("sat",)]


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    table = tables.build(tables.rows(make_run(tmp_path / "a", accuracy=0.5)), BY_RATE)
    found = cell(table, ["sat"], [0.4])
    assert found is not None
    assert (found.mean, found.std, found.seeds) == (0.5, None, (1,))


def test_the_papers_number_and_the_difference(tmp_path: Path) -> None:
    rows = make_grid(tmp_path)

    def expected(known: Mapping[str, Any], metric: str) -> float | None:
        asked = (known["method.name"], known["corruption.rate"], metric)
        return 92.64 if asked == ("sat", 0.4, "accuracy") else None

    table = tables.build(rows, BY_RATE, expected)
    found, other = cell(table, ["sat"], [0.4]), cell(table, ["erm"], [0.4])
    assert found is not None
    assert other is not None
    assert found.paper == pytest.approx(0.9264)
    assert found.difference == pytest.approx(of(rows, "sat", 0.4, "accuracy").mean() - 0.9264)
    assert (other.paper, other.difference) == (None, None)
    beside = tables.build(rows, BY_RATE, expected, differences=False)
    without = cell(beside, ["sat"], [0.4])
    assert without is not None
    assert (without.paper, without.difference) == (found.paper, None)


def test_a_cell_whose_runs_stand_for_different_published_numbers_has_none(tmp_path: Path) -> None:
    rows = make_grid(tmp_path)
    table = tables.build(rows, Layout(["method.name"]), lambda r, _: 100 * r["corruption.rate"])
    found = cell(table, ["sat"])
    assert found is not None
    assert found.paper is None


def test_an_unfinished_run_is_left_out_and_named_and_keeps_its_published_number(
    tmp_path: Path,
) -> None:
    rows = make_grid(tmp_path / "done")
    make_run(tmp_path / "cut off", seed=3, corruption__rate=0.4, done=False)
    both = [*rows, *tables.rows(tmp_path / "cut off")]
    table = tables.build(both, BY_RATE)
    assert cell(table, ["sat"], [0.4]) == cell(tables.build(rows, BY_RATE), ["sat"], [0.4])
    assert any("1 of 12 runs" in note and "cut off" in note for note in table.notes)
    with pytest.raises(BadInput, match="none of these 1 runs is finished"):
        tables.build(tables.rows(tmp_path / "cut off"), BY_RATE)


def test_a_cell_of_which_a_metric_knows_nothing_is_empty(tmp_path: Path) -> None:
    log = [{"fitted": 0.9, "validation_accuracy": 0.5}]
    make_run(tmp_path / "a", method="sat", log=log)
    make_run(tmp_path / "b", method="erm", accuracy=None)
    layout = Layout(["method.name"], [], ["accuracy", "generalisation_error"])
    table = tables.build(tables.rows(tmp_path), layout)
    assert cell(table, ["erm"]) is None
    assert cell(table, ["erm"], metric="generalisation_error") is None
    found = cell(table, ["sat"], metric="generalisation_error")
    assert found is not None
    assert found.mean == pytest.approx(0.4)


def test_a_metric_that_no_run_has_is_left_out(tmp_path: Path) -> None:
    make_run(tmp_path / "a", method="sat")
    layout = Layout(["method.name"], [], ["accuracy", "accuracy_best_validation"])
    table = tables.build(tables.rows(tmp_path), layout)
    assert [block.metric for block in table.blocks] == ["accuracy"]
    alone = tables.build(tables.rows(tmp_path), Layout(["method.name"], [], layout.metrics[1:]))
    assert "method" in alone.to_markdown(), "an empty table still names its lines"


def test_cost_is_the_median_over_seeds_of_ratios_to_erm(tmp_path: Path) -> None:
    rows = make_grid(tmp_path)
    table = tables.build(rows, Layout(["method.name"], ["corruption.rate"], ["accuracy", "cost"]))
    name = "training_seconds_of_all_stages"
    everything = []
    for rate in (0.2, 0.4):
        mine, base = of(rows, "sat", rate, name), of(rows, "erm", rate, name)
        ratios = mine / base[: len(mine)]
        everything += list(ratios)
        for metric in ("accuracy", "cost"):
            found = cell(table, ["sat"], [rate], metric)
            assert found is not None
            assert found.cost == pytest.approx(np.median(ratios))
        assert found is not None
        assert found.mean == pytest.approx(np.median(ratios))
    assert [head.cost for head in table.rows] == [1.0, pytest.approx(np.median(everything))]


@pytest.mark.parametrize(
    ("other", "comparable"),
    [
        ({}, True),
        ({"method__momentum": 0.7}, True),
        ({"data__root": "/another/place"}, True),
        ({"seed": 2}, False),
        ({"train__epochs": 7}, False),
        ({"corruption__rate": 0.2}, False),
        ({"net__name": "resnet18"}, False),
        ({"data__validation": 0.1}, False),
        ({"machine": MACHINE | {"processor": "Another"}}, False),
        ({"seconds": 0.0}, False),
    ],
)
def test_cost_compares_only_what_is_comparable(
    other: dict[str, Any], comparable: bool, tmp_path: Path
) -> None:
    make_run(tmp_path / "erm", method="erm", seconds=10.0)
    make_run(tmp_path / "sat", method="sat", **({"seconds": 15.0} | other))
    assert costs(tables.rows(tmp_path)) == [1.0, 1.5 if comparable else None]


def test_the_plain_baseline_is_the_one_to_compare_with(tmp_path: Path) -> None:
    make_run(tmp_path / "a", method="erm", seconds=20.0, method__smoothing=0.1)
    make_run(tmp_path / "b", method="erm", seconds=10.0, method__smoothing=0.0)
    make_run(tmp_path / "c", method="sat", seconds=15.0)
    assert costs(tables.rows(tmp_path)) == [2.0, 1.0, 1.5]
    assert costs(tables.rows(tmp_path), "sat") == [20 / 15, 10 / 15, 1.0]


def test_under_each_methods_own_schedule_erm_has_its_own_too(tmp_path: Path) -> None:
    made = {
        make_run(tmp_path / "erm", method="erm", seconds=10.0, train__epochs=1): "both",
        make_run(tmp_path / "own", method="gce", seconds=5.0, train__epochs=2): "own",
        make_run(tmp_path / "equal", method="gce", seconds=9.0, train__epochs=1): "equal",
        make_run(tmp_path / "mine", method="sce", seconds=5.0, train__epochs=2): "equal",
    }
    extra = {path: {"protocol": protocol} for path, protocol in made.items()}
    assert costs(tables.rows(list(made), extra)) == [1.0, 0.5, 0.9, None]


def test_runs_that_differ_in_more_than_their_seed_are_not_averaged_silently(
    tmp_path: Path,
) -> None:
    rows = make_grid(tmp_path)
    table = tables.build(rows, Layout(["method.name"]))
    assert any("noise rate (corruption.rate)" in note for note in table.notes)
    assert any("several runs of one seed" in note for note in table.notes)
    fine = tables.build(rows, BY_RATE)
    assert not [note for note in fine.notes if note.startswith("Warning")]


@pytest.mark.parametrize(
    ("labels", "settings", "said"),
    [
        ({"protocol": "equal"}, {}, "Protocol equal: one budget"),
        ({"protocol": "own"}, {}, "Protocol own: each method's published schedule"),
        ({}, {}, "Protocol equal: one budget"),
        ({}, {"train__lr": 0.01}, "Protocol own: methods differ in train.lr"),
        ({}, {"train__score": "dropout"}, "Protocol equal: one budget"),
    ],
)
def test_the_protocol_is_named(
    labels: dict[str, str], settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    a = make_run(tmp_path / "a", method="erm")
    b = make_run(tmp_path / "b", method="sat", **settings)
    table = tables.build(tables.rows([a, b], {a: labels, b: labels}), BY_RATE)
    assert any(note.startswith(said) for note in table.notes)


def test_a_layout_for_whatever_differs(tmp_path: Path) -> None:
    make_run(tmp_path / "a", method="erm", corruption__rate=0.2, method__smoothing=0.0)
    make_run(tmp_path / "b", method="sat", corruption__rate=0.4, method__start=1, seed=2)
    make_run(tmp_path / "c", method="sat", corruption__rate=0.4, method__start=2, data__root="/x")
    layout = tables.layout_for(tables.rows(tmp_path), ["labels_right"])
    assert layout == Layout(["method.name", "method.start"], ["corruption.rate"], ["labels_right"])


def test_a_whole_number_is_not_its_share(tmp_path: Path) -> None:
    """method.start=1 is an epoch, 1.0 the whole run; and True is not 1."""
    for number, start in enumerate([1, 1.0, True]):
        make_run(tmp_path / str(number), method__start=start)
    table = tables.build(tables.rows(tmp_path), Layout(["method.start"]))
    assert len(table.rows) == 3


def test_a_layout_without_lines_is_refused() -> None:
    with pytest.raises(BadInput, match="needs something"):
        Layout([])
    with pytest.raises(BadInput, match="a metric"):
        Layout(["method.name"], [], [])
