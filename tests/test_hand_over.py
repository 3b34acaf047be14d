"""From a run to a table of its labels, and from there to a second run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from PIL import Image
from support import blobs

import selfadapt
from selfadapt.data import load
from selfadapt.errors import BadInput, DamagedFile
from selfadapt.hand_over import write_labels, write_predictions

QUICK = {"net.width": 8, "train.batch": 20, "train.epochs": 1}


def fit(source: object, out: Path, **settings: object) -> Path:
    selfadapt.fit(source, out=out, net="mlp", settings=QUICK | settings)
    return out


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Folders called 1, 2 and 10."""
    for number, name in enumerate(("1", "2", "10")):
        for i in range(10):
            path = tmp_path / "photos" / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (100 * number, i, 0)).save(path)
    return tmp_path / "photos"


def test_classes_and_paths_survive_every_round(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fit(photos, tmp_path / "first")
    second = fit(first / "labels.parquet", tmp_path / "second")
    third = fit(second / "labels.parquet", tmp_path / "third")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for run in (first, second, third):
        said = write_labels(run, tmp_path / "clean.csv")
        assert "; without the 3 samples that were held out for testing" in said
        with (tmp_path / "clean.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == 27
        assert all(Path(line["path"]).is_file() for line in lines)
        for line in lines:  # one step of training may leave a class without samples
            line["label"] = line["given"]
        with (tmp_path / "given.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
        assert load(tmp_path / "given.csv").classes == ("1", "10", "2") == load(photos).classes


def test_labels_of_arrays_are_not_trained_on(tmp_path: Path) -> None:
    x, y = blobs(100)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    run = fit(str(tmp_path / "d.npz"), tmp_path / "run", **{"data.test": 0})
    said = write_labels(run, tmp_path / "clean.csv")
    assert "held out" not in said
    with pytest.raises(BadInput, match=r"labels that a run wrote"):
        load(tmp_path / "clean.csv")


def test_predictions_go_by_the_names_of_columns(tmp_path: Path) -> None:
    x, y = blobs(100, features=3)
    columns = {name: x[:, i] for i, name in enumerate("abc")}
    pa_csv.write_csv(pa.table(columns | {"label": y}), tmp_path / "train.csv")
    run = fit(str(tmp_path / "train.csv"), tmp_path / "run")
    about = json.loads((run / "run.json").read_text())["data"]
    assert (about["features"], about["held_out"]) == (["a", "b", "c"], 10)
    turned = {"path": ["p"] * 100, **{name: columns[name] for name in "cab"}, "more": y}
    pa_csv.write_csv(pa.table(turned), tmp_path / "new.csv")
    write_predictions(
        run, str(tmp_path / "new.csv"), tmp_path / "p.parquet", {}, lambda event: None
    )
    found = pq.read_table(tmp_path / "p.parquet")["prediction"].to_pylist()
    assert found == selfadapt.open_run(run).predict(x).tolist()
    assert len(set(found)) > 1


def test_a_model_of_small_pictures_takes_large_ones(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(40) % 2)
    run = fit(str(tmp_path / "d.npz"), tmp_path / "run", **{"data.size": 8})
    said = write_predictions(
        run, str(tmp_path / "d.npz"), tmp_path / "p.parquet", {}, lambda event: None
    )
    assert "40 predictions" in said
    found = pq.read_table(tmp_path / "p.parquet")["prediction"].to_pylist()
    assert found == selfadapt.open_run(run).predict(x).tolist()


def test_a_damaged_table_can_be_made_again(tmp_path: Path) -> None:
    x, y = blobs(100)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    run = fit(str(tmp_path / "d.npz"), tmp_path / "run")
    whole = (run / "labels.parquet").read_bytes()
    (run / "labels.parquet").write_bytes(whole[:-10])
    for read in (
        lambda: write_labels(run, tmp_path / "clean.csv"),
        lambda: selfadapt.open_run(run).labels,
        lambda: load(run / "labels.parquet"),
    ):
        with pytest.raises(DamagedFile, match=r"remove .*result\.json, and give the command"):
            read()
    (run / "result.json").unlink()
    fit(str(tmp_path / "d.npz"), run)
    assert (run / "labels.parquet").read_bytes() == whole


def test_nothing_of_the_users_or_the_runs_is_written_over(photos: Path, tmp_path: Path) -> None:
    first, clean = fit(photos, tmp_path / "a"), tmp_path / "clean.csv"
    write_labels(first, clean)
    second = fit(str(clean), tmp_path / "b")
    before = clean.read_bytes()
    with pytest.raises(BadInput, match="is the data itself, and would be lost"):
        write_labels(second, clean)
    with pytest.raises(BadInput, match="is the data itself, and would be lost"):
        write_predictions(first, str(clean), clean, {}, lambda _: None)
    for inside in (first / "labels.parquet", first / "other.csv"):
        with pytest.raises(BadInput, match="lies in the run directory"):
            write_labels(first, inside)
        with pytest.raises(BadInput, match="lies in the run directory"):
            write_predictions(first, str(clean), inside, {}, lambda _: None)
    assert clean.read_bytes() == before
    write_labels(first, clean)  # what it was made from may be written anew
