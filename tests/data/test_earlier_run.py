from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from selfadapt.data import load
from selfadapt.errors import BadInput, DamagedFile


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory written by hand, on 40 points of three classes."""
    x = np.arange(80, dtype=np.float32).reshape(40, 2)
    np.savez(tmp_path / "points.npz", x=x, y=np.arange(40) % 3)
    folder = tmp_path / "run"
    folder.mkdir()
    data = load(tmp_path / "points.npz")
    (folder / "run.json").write_text(json.dumps({"settings": {"data": dict(data.source)}}))
    corrected = [None, *((data.labels[1:] + 1) % 3).tolist()]
    columns = {
        "row": np.arange(len(data)),
        "id": list(data.ids),
        "given": data.labels,
        "corrected": corrected,
        "true": pa.nulls(len(data), pa.int64()),
    }
    pq.write_table(pa.table(columns), folder / "labels.parquet")
    return folder


def test_the_same_samples_with_corrected_labels(run: Path, tmp_path: Path) -> None:
    first, second = load(tmp_path / "points.npz"), load(run / "labels.parquet")
    rows = np.arange(len(first))
    assert np.array_equal(first.inputs.read(rows)[0], second.inputs.read(rows)[0])
    assert second.labels.tolist() == [first.labels[0], *((first.labels[1:] + 1) % 3)]
    assert second.true_labels is None
    assert first.test is not None
    assert second.test is not None
    assert np.array_equal(first.test.labels, second.test.labels), "test labels stay as they were"
    assert second.source["source"] == str(run / "labels.parquet")


def test_data_that_has_changed_since(run: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "points.npz", x=np.zeros((30, 2), np.float32), y=np.arange(30) % 3)
    with pytest.raises(BadInput, match="has changed since that run"):
        load(run / "labels.parquet")


def test_arrays_cannot_be_found_again(run: Path) -> None:
    (run / "run.json").write_text(json.dumps({"settings": {"data": {"source": None}}}))
    with pytest.raises(BadInput, match="join its labels to them by row"):
        load(run / "labels.parquet")


@pytest.mark.parametrize("name", ["label", "path", "id", "true", "test", "limit", "size", "root"])
def test_settings_belong_to_that_run(run: Path, name: str) -> None:
    with pytest.raises(BadInput, match=rf"data\.{name}='6' cannot be set for .*labels\.parquet"):
        load(run / "labels.parquet", **{name: 6})


def test_missing_and_damaged_files(run: Path) -> None:
    labels = run / "labels.parquet"
    whole = labels.read_bytes()
    labels.unlink()
    with pytest.raises(BadInput, match=r"not finished\. Give its command again"):
        load(labels)
    (run / "result.json").write_text("{}")
    with pytest.raises(BadInput, match=r"labels\.parquet is missing\. Put it back"):
        load(labels)
    for damaged in (b"", b"nothing", whole[:-20], whole[: len(whole) // 2]):
        labels.write_bytes(damaged)
        with pytest.raises(DamagedFile, match=r"labels\.parquet cannot be read.*Put it back"):
            load(labels)
    labels.write_bytes(whole)
    for damaged in ("", "[]", "{}", '{"settings": '):
        (run / "run.json").write_text(damaged)
        with pytest.raises(DamagedFile, match=r"run\.json is not what a run writes"):
            load(labels)
