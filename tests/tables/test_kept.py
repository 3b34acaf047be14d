"""What is committed of a study is enough to make its tables and figures again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import MACHINE, make_run, write_labels

from selfadapt import tables
from selfadapt.errors import BadInput, DamagedFile
from selfadapt.tables import figures

CURVES = {"name": "curves", "kind": "curves", "lines": ["method.name"], "y": ["test_error"]}
MATRIX = {"name": "matrix", "kind": "matrix", "y": ["recovered", "weight"]}


def make_study(folder: Path) -> list[tables.Row]:
    for method in ("erm", "sat"):
        for seed in (1, 2):
            last = 0.5 + 0.1 * seed + (method == "sat") * 0.05
            log = [{"test_accuracy": 1 / 3, "loss": 2.0}, {"test_accuracy": last, "loss": 1.0}]
            run = make_run(
                folder / f"{method}-{seed}", method=method, seed=seed, log=log, accuracy=last
            )
            write_labels(run, [0, 0, 1, 2], [0, 1, 1, 2], [0.5, 0.3, 1.0, 0.7])
    return tables.rows(folder)


def kept_file(content: dict[str, Any], folder: Path) -> Path:
    path = folder / "kept.json"
    path.write_text(json.dumps(content, allow_nan=False))
    return path


def test_tables_from_kept_rows_are_those_from_run_directories(tmp_path: Path) -> None:
    rows = make_study(tmp_path / "runs")
    (again,) = [tables.rows(kept_file(tables.keep(rows), tmp_path))]
    layout = tables.Layout(["method.name"], ["corruption.rate"], ["accuracy", "test_error"])
    assert tables.build(again, layout).to_csv() == tables.build(rows, layout).to_csv()
    assert tables.build(again).to_markdown() == tables.build(rows).to_markdown()


def test_figures_from_kept_rows_are_those_from_run_directories(tmp_path: Path) -> None:
    rows = make_study(tmp_path / "runs")
    again = tables.rows(kept_file(tables.keep(rows, [CURVES, MATRIX]), tmp_path))
    for spec in (CURVES, MATRIX):
        here = figures.draw(rows, spec, "title", tmp_path / "here")
        there = figures.draw(again, spec, "title", tmp_path / "there")
        assert len(here.files) == 3
        if spec is MATRIX:  # curves are rounded to five digits
            for one, other in zip(here.files, there.files, strict=True):
                assert one.read_bytes() == other.read_bytes()


def test_what_is_kept_of_a_run(tmp_path: Path) -> None:
    rows = make_study(tmp_path / "runs")
    labelled = [row.with_labels({"protocol": "equal"}) for row in rows]
    kept = tables.keep(labelled, [CURVES, MATRIX], {"command": "made", "recipe": "main"})
    run = kept["runs"][-1]
    assert run["settings"] == {"method.name": "sat"}, "only what varies"
    assert kept["settings"]["corruption.rate"] == 0.4
    assert (run["seed"], run["commit"], run["labels"]) == (2, "abc123", {"protocol": "equal"})
    assert run["noise"]["error_rate"] == 0.36
    assert run["noise"]["fingerprint"] == "f" * 8
    assert run["results"]["labels_right"] == 0.95
    assert run["log"] == {"test_accuracy": [0.33333, 0.75]}, "what test_error is made of"
    assert run["last"]["loss"] == 1.0
    assert run["confusion"]["counts"] == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert run["confusion"]["weights"] == [[0.5, 0.3, None], [None, 1.0, None], [None, None, 0.7]]
    environment = kept["environment"]
    assert (environment["command"], environment["recipe"]) == ("made", "main")
    assert (environment["date"], environment["commits"]) == ("2026-01-02", ["abc123"])
    assert environment["machines"][run["machine"]]["processor"] == MACHINE["processor"]


def test_nothing_more_is_kept_than_the_figures_need(tmp_path: Path) -> None:
    (run, *_) = tables.keep(make_study(tmp_path))["runs"]
    assert run["log"] == {}
    assert run["confusion"] is None


def test_places_on_one_machine_are_not_kept(tmp_path: Path) -> None:
    make_run(tmp_path / "a", data__source="/home/me/photos", data__root="/home/me")
    kept = tables.keep(tables.rows(tmp_path), environment={"root": "/home/me/out"})
    text = json.dumps(kept)
    assert "/home" not in text
    assert kept["settings"]["data.name"] == "photos"


def test_keeping_what_was_kept_changes_nothing(tmp_path: Path) -> None:
    environment = {"recipe": "main"}
    first = tables.keep(make_study(tmp_path / "runs"), [CURVES, MATRIX], environment)
    again = tables.rows(kept_file(first, tmp_path))
    assert tables.keep(again, [CURVES, MATRIX], environment) == first


def test_several_machines_and_commits_are_told_apart(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", machine=MACHINE | {"processor": "Another"}, seed=2)
    kept = tables.keep(tables.rows(tmp_path))
    assert [run["machine"] for run in kept["runs"]] == [0, 1]
    again = tables.rows(kept_file(kept, tmp_path))
    assert [row.about["machine"]["processor"] for row in again] == ["Made Up 9000", "Another"]


def test_matrices_are_written_by_hand(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    true, corrected = random.integers(0, 3, (2, 200))
    weight = random.uniform(size=200).astype(np.float32)
    run = make_run(tmp_path / "a", classes=["cat", "dog", "owl"])
    names = np.array(["cat", "dog", "owl"])
    unknown = [None, None]  # samples that did not train, and whose truth nobody knows
    write_labels(
        run,
        [*names[true].tolist(), None, "cat"],
        [*names[corrected].tolist(), "dog", None],
        [*weight.tolist(), *unknown],
    )
    (row,) = tables.rows(run)
    found = tables.confusion_of(row)
    assert found is not None
    assert found.weights is not None
    for i in range(3):
        of_class = true == i
        for j in range(3):
            here = of_class & (corrected == j)
            assert found.counts[i, j] == here.sum()
            assert found.recovered()[i, j] == pytest.approx(here.sum() / of_class.sum())
            assert found.weights[i, j] == pytest.approx(weight[here].mean(dtype=np.float64))


def test_without_truth_or_weights_there_is_no_matrix_of_them(tmp_path: Path) -> None:
    nobody, erm = make_run(tmp_path / "a"), make_run(tmp_path / "b", method="erm")
    write_labels(nobody, [None, None], [0, 1], [0.5, 0.5])
    write_labels(erm, [0, 1], [0, 0])
    unknown, plain = (tables.confusion_of(row) for row in tables.rows(tmp_path))
    assert unknown is None
    assert plain is not None
    assert plain.weights is None
    assert np.isnan(plain.recovered()[2]).all(), "a class without samples"


@pytest.mark.parametrize("damage", ["missing", "half", "class"])
def test_damaged_labels_are_named(damage: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    write_labels(run, [0, 1], [0, 7 if damage == "class" else 1])
    if damage == "half":
        (run / "labels.parquet").write_bytes((run / "labels.parquet").read_bytes()[:50])
    if damage == "missing":
        (run / "labels.parquet").unlink()
    with pytest.raises(DamagedFile, match=r"a/labels\.parquet"):
        tables.keep(tables.rows(tmp_path), [MATRIX])


@pytest.mark.parametrize("broken", ["{", "[]", '{"format": 9, "runs": [], "environment": {}}'])
def test_a_file_that_keep_did_not_write_is_named(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(broken)
    with pytest.raises((BadInput, DamagedFile), match=r"kept\.json"):
        tables.rows(path)


def test_a_kept_file_with_something_missing_is_named(tmp_path: Path) -> None:
    kept = tables.keep(make_study(tmp_path / "runs"))
    del kept["runs"][0]["seed"]
    with pytest.raises(DamagedFile, match=r"kept\.json is not what `keep` writes: .*seed"):
        tables.rows(kept_file(kept, tmp_path))


def test_only_finished_runs_are_kept(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", done=False)
    rows = tables.rows(tmp_path)
    assert [run["name"] for run in tables.keep(rows)["runs"]] == ["a"]
    with pytest.raises(BadInput, match="nothing to keep"):
        tables.keep(rows[1:])
