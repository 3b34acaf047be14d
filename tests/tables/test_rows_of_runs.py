"""From run directories to rows: which runs a folder stands for, and what a row knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import make_run
from support import Arrays

import selfadapt
from selfadapt import tables
from selfadapt.errors import BadInput, DamagedFile, UnknownName


def names(rows: list[tables.Row]) -> list[str]:
    return [Path(row.path).name for row in rows]


def test_a_row_knows_settings_results_labels_and_origin(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", accuracy=0.75, method__start=5, seed=3)
    (row,) = tables.rows(run, {run: {"protocol": "equal", "net.name": "renamed"}})
    assert row["method.name"] == "sat"
    assert row["method.start"] == 5
    assert row["data.name"] == "digits", "a recipe calls the source data.name"
    assert (row["seed"], row["accuracy"], row["done"]) == (3, 0.75, True)
    assert (row["commit"], row["path"]) == ("abc123", str(run))
    assert row["protocol"] == "equal"
    assert row["net.name"] == "renamed"
    assert row.get("no.such") is None
    assert dict(row)["train.lr"] == 0.1


def test_folders_are_searched_at_any_depth_but_not_within_runs(tmp_path: Path) -> None:
    outer = make_run(tmp_path / "cells" / "deep" / "b")
    make_run(outer / "stages" / "first")
    make_run(tmp_path / "cells" / "a")
    (tmp_path / "cells" / "notes.txt").write_text("no run")
    assert names(tables.rows(tmp_path)) == ["a", "b"]
    assert names(tables.rows([outer / "stages" / "first"])) == ["first"], "if asked for by name"


def test_a_run_named_twice_counts_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "a")
    assert len(tables.rows([tmp_path / "runs", run, str(run)])) == 1


def test_given_order_is_kept(tmp_path: Path) -> None:
    made = [make_run(tmp_path / name) for name in ("c", "a", "b")]
    assert names(tables.rows(made)) == ["c", "a", "b"]


def test_unfinished_runs_have_no_results(tmp_path: Path) -> None:
    make_run(tmp_path / "cut off", done=False)
    (tmp_path / "in a stage" / "stages" / "first").mkdir(parents=True)
    (tmp_path / "in a stage" / ".lock").touch()
    rows = tables.rows(tmp_path)
    assert [row.done for row in rows] == [False, False]
    assert rows[0]["method.name"] == "sat"
    assert "accuracy" not in rows[0]
    assert rows[1].settings == {}


@pytest.mark.parametrize("missing", ["nowhere", "file", "empty"])
def test_what_holds_no_run_is_an_error_naming_it(missing: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    with pytest.raises(BadInput, match=missing):
        tables.rows(tmp_path / missing)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", "{"),
        ("run.json", "[1]"),
        ("run.json", '{"format": 1}'),
        ("run.json", '{"settings": {"data": {}}}'),
        ("result.json", "half a fi"),
        ("result.json", "\xff"),
        ("log.jsonl", ""),
        ("log.jsonl", "3\n"),
    ],
)
def test_a_damaged_run_is_an_error_naming_its_file(file: str, content: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "broken")
    (run / file).write_text(content, encoding="latin-1")
    with pytest.raises(DamagedFile, match=f"broken/{file}"):
        tables.rows(tmp_path)


def test_a_log_cut_short_is_damage_only_of_a_finished_run(tmp_path: Path) -> None:
    log = [{"test_accuracy": 0.1}, {"test_accuracy": 0.2}]
    run = make_run(tmp_path / "a", log=log, done=False)
    line = (run / "log.jsonl").read_text()
    (run / "log.jsonl").write_text(line[:-10])
    (row,) = tables.rows(run)
    assert row.log["test_accuracy"] == [0.1]


def test_metrics_of_a_row(tmp_path: Path) -> None:
    log = [
        {"fitted": 0.5, "validation_accuracy": None, "test_accuracy": 0.4},
        {"fitted": 0.9, "validation_accuracy": 0.6, "test_accuracy": 0.7},
    ]
    (row,) = tables.rows(make_run(tmp_path / "a", log=log, accuracy=0.7))
    assert tables.value(row, "accuracy") == 0.7
    assert tables.value(row, "test_error") == pytest.approx(0.3)
    assert tables.value(row, "fitted") == 0.9, "the last line of the log"
    assert tables.value(row, "generalisation_error") == pytest.approx(0.3)
    assert tables.value(row, "recovered") == 0.95
    assert tables.value(row, "clean_validation_error") is None
    assert tables.value(row, "accuracy_best_validation") is None
    assert tables.curve(row, "test_error") == pytest.approx([0.6, 0.3])
    assert tables.curve(row, "generalisation_error") == [None, pytest.approx(0.3)]
    assert tables.curve(row, "clean_validation_error") == []


def test_clean_share_is_of_labels_or_of_images(tmp_path: Path) -> None:
    (labels,) = tables.rows(make_run(tmp_path / "a"))
    changed = {"error_rate": 0.0, "noisy_images": 40}
    (images,) = tables.rows(make_run(tmp_path / "b", noise=changed))
    (unknown,) = tables.rows(make_run(tmp_path / "c", noise={"error_rate": None}))
    assert labels.clean_share == pytest.approx(0.64)
    assert images.clean_share == pytest.approx(0.6)
    assert unknown.clean_share is None


def test_a_real_run(points: Arrays, tmp_path: Path) -> None:
    known = {"train.epochs": 2, "train.curves": True, "data.validation": 0.2}
    noise = {"corruption.name": "uniform", "corruption.rate": 0.4}
    run = selfadapt.fit(points, out=tmp_path / "r", method="sat", net="mlp", settings=known | noise)
    (row,) = tables.rows(tmp_path)
    assert row["method.name"] == "sat"
    assert row["method.momentum"] == 0.9
    assert row["accuracy"] == run.result["accuracy"]
    last = run.log[-1]
    gap = last["fitted"] - last["validation_accuracy"]
    assert tables.value(row, "generalisation_error") == pytest.approx(gap)
    assert row.clean_share == pytest.approx(1 - run.result["error_rate"])
    confusion = tables.confusion_of(row)
    assert confusion is not None
    right = confusion.counts.trace() / confusion.counts.sum()
    assert right == pytest.approx(run.result["labels_right"])


def test_a_metric_or_setting_that_does_not_exist_is_an_error_with_the_nearest(
    tmp_path: Path,
) -> None:
    rows = tables.rows(make_run(tmp_path / "a"))
    with pytest.raises(UnknownName, match="Did you mean 'accuracy'"):
        tables.build(rows, tables.Layout(["method.name"], [], ["acuracy"]))
    with pytest.raises(UnknownName, match=r"Did you mean 'corruption\.rate'"):
        tables.build(rows, tables.Layout(["method.name"], ["corruption.rat"]))


def test_a_json_file_that_keeps_no_runs_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    path.write_text(json.dumps({"figures": []}))
    with pytest.raises(BadInput, match=r"demo\.json holds no kept runs"):
        tables.rows(path)
