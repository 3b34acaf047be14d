"""labels.parquet: every sample once, in row order, null where nothing is known."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from selfadapt.labels_table import class_values, labels_table, to_bytes

COLUMNS = ["row", "id", "part", "given", "corrected", "belief_given", "belief_corrected"]
COLUMNS += ["weight", "suspicion", "true"]


def table(**changes: Any) -> pa.Table:
    """Six samples: row 1 held out, row 4 unreadable, the others trained."""
    settings: dict[str, Any] = {
        "ids": [f"{i}.png" for i in range(6)],
        "classes": ("cat", "dog", "hen"),
        "given": np.array([0, 1, 2, 0, 1, 2]),
        "true": np.array([0, 1, 2, 1, -1, 2]),
        "parts": {"validation": np.array([1]), "quarantined": np.array([4])},
        "rows": np.array([0, 2, 3, 5]),
        "beliefs": np.array(
            [[0.75, 0.25, 0], [0, 0, 1], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]], np.float32
        ),
        "weights": np.array([0.75, 1, 0.5, 0.5], np.float32),
    }
    return labels_table(**settings | changes)


def test_every_column() -> None:
    rows = table().to_pydict()
    assert list(rows) == COLUMNS
    assert rows == {
        "row": [0, 1, 2, 3, 4, 5],
        "id": ["0.png", "1.png", "2.png", "3.png", "4.png", "5.png"],
        "part": ["train", "validation", "train", "train", "quarantined", "train"],
        "given": ["cat", "dog", "hen", "cat", "dog", "hen"],
        "corrected": ["cat", None, "hen", "dog", None, "cat"],
        "belief_given": [0.75, None, 1, 0.25, None, 0.25],
        "belief_corrected": [0.75, None, 1, 0.5, None, 0.5],
        "weight": [0.75, None, 1, 0.5, None, 0.5],
        "suspicion": [0.25, None, 0, 0.75, None, 0.75],
        "true": ["cat", "dog", "hen", "dog", None, "hen"],
    }


def test_what_is_not_known_is_null_and_keeps_its_type() -> None:
    bare = table(true=None, weights=None)
    assert bare.schema.equals(table().schema)
    assert bare["true"].null_count == 6
    assert bare["weight"].null_count == 6
    assert bare["weight"].type == pa.float32()
    assert bare["true"].type == pa.string()


def test_numbers_leave_as_numbers() -> None:
    assert class_values(["0", "1", "2"]) == [0, 1, 2]
    for classes in (["1", "2"], ["0", "2"], ["00", "01"], ["cat", "dog"]):
        assert class_values(classes) == classes
    numbered = table(classes=("0", "1", "2"))
    assert numbered["given"].to_pylist() == [0, 1, 2, 0, 1, 2]
    assert numbered["corrected"].to_pylist() == [0, None, 2, 1, None, 0]
    assert numbered["true"].to_pylist() == [0, 1, 2, 1, None, 2]
    assert numbered["given"].type == pa.int64()


def test_the_order_of_the_trained_rows_does_not_matter() -> None:
    beliefs = np.array([[0.75, 0.25, 0], [0, 0, 1], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    order = [2, 0, 3, 1]
    shuffled = table(
        rows=np.array([0, 2, 3, 5])[order],
        beliefs=beliefs.astype(np.float32)[order],
        weights=np.array([0.75, 1, 0.5, 0.5], np.float32)[order],
    )
    assert shuffled.equals(table())


def test_a_set_without_parts() -> None:
    whole = table(
        parts={}, rows=np.arange(6), beliefs=np.full((6, 3), 1 / 3, np.float32), weights=None
    )
    assert set(whole["part"].to_pylist()) == {"train"}
    assert whole["corrected"].null_count == 0
    assert whole["suspicion"].to_pylist() == pytest.approx([2 / 3] * 6)


def test_the_file_holds_the_table_and_is_the_same_each_time() -> None:
    content = to_bytes(table())
    assert pq.read_table(io.BytesIO(content)).equals(table())
    assert to_bytes(table()) == content
