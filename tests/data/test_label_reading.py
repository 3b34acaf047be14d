"""Labels: numbers stay numbers, text is a class name, and anything else is refused."""

from __future__ import annotations

import numpy as np
import pytest

from selfadapt.data import labels, load
from selfadapt.errors import BadInput

X = np.zeros((6, 2))


def test_numbers_name_themselves_and_a_gap_is_told():
    data = load((X, [0, 1, 3, 0, 1, 3]), test=0)
    assert data.classes == ("0", "1", "2", "3")
    assert data.labels.tolist() == [0, 1, 3, 0, 1, 3]
    assert data.labels.dtype == np.int64
    assert "no sample is labelled '2'" in data.notes[0]


def test_whole_floats_and_booleans():
    assert load((X, np.array([0.0, 1, 2, 0, 1, 2])), test=0).classes == ("0", "1", "2")
    data = load((X, np.array([True, False] * 3)), test=0)
    assert data.classes == ("false", "true")
    assert data.labels.tolist() == [1, 0] * 3


def test_objects_of_one_kind():
    for given in ([np.int64(0), 1, 2.0] * 2, [True, False, True] * 2, ["a", "b", "a"] * 2):
        y = np.empty(6, object)
        y[:] = given
        assert load((X, y), test=0).labels.tolist() in ([0, 1, 2] * 2, [1, 0, 1] * 2, [0, 1, 0] * 2)


def test_text_is_sorted_and_any_name_survives():
    names = ["a b", '"q"', "🦊", "<script>", "a,b", "a b"]
    data = load((X, names), test=0)
    assert data.classes == tuple(sorted(set(names)))
    assert [data.classes[i] for i in data.labels] == names


def test_spaces_around_a_name_are_none_of_it():
    data = load((X, [" cat ", "cat", "dog", "dog ", "cat", "dog"]), test=0)
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1, 1.5, 0, 1, 0], r"1\.5 in row 2 is not a whole number"),
        ([0, 1, float("nan"), 0, 1, 0], r"NaN.* row 2"),
        ([0, 1, float("inf"), 0, 1, 0], r"row 2"),
        ([0, 1, -1, 0, -1, 0], r"-1 in rows 2, 4 is negative"),
        (["a", "", "b", " ", "a", "b"], r"no label.* rows 1, 3"),
        (["a", "nan", "b", "a", "a", "b"], r"no label.* row 1"),
        (np.array(["a", None, "b", "a", "a", "b"], object), r"no label in row 1"),
        (np.array(["a", 1, "b", "a", "a", "b"], object), r"int, str"),
        ([1, 1, 1, 1, 1, 1], r"are of class '1'"),
        ([0, 1, 0, 1], r"6 samples but 4 labels"),
        (np.eye(6), r"shape \(6, 6\)"),
        ([0, 1, 0, 1, 0, 10**12], r"codes"),
        ([0, 1, 0, 1, 0, 1e20], r"1e\+20 in row 5 is out of range"),
        (np.array([0j] * 6), r"complex"),
    ],
)
def test_refused(given, message):
    with pytest.raises(BadInput, match=message):
        load((X, given), test=0)


def test_the_test_part_uses_the_training_classes():
    x = np.zeros((3, 2))
    data = load((X, ["a", "b", "c"] * 2, x, ["c", "c", "b"]))
    assert data.test.labels.tolist() == [2, 2, 1]
    assert data.test.classes == data.classes
    with pytest.raises(BadInput, match="'d' is not among the 3 classes"):
        load((X, ["a", "b", "c"] * 2, x, ["d", "c", "b"]))
    with pytest.raises(BadInput, match="class '1', which no training sample"):
        load((X, [0, 2] * 3, x, [0, 1, 2]))
    with pytest.raises(BadInput, match="out of range"):
        load((X, [0, 2] * 3, x, [0, 3, 2]))


def test_declared_classes():
    data = load({"x": X, "y": [0, 1, 0, 1, 0, 1], "classes": ["no", "yes", "perhaps"]}, test=0)
    assert data.classes == ("no", "yes", "perhaps")
    assert data.notes == ("no test part (data.test=0)",)
    with pytest.raises(BadInput, match="label 3 in row 1 is out of range: there are 3 classes"):
        load({"x": X, "y": [0, 3, 0, 1, 0, 1], "classes": ["no", "yes", "perhaps"]})
    with pytest.raises(BadInput, match="same name"):
        load({"x": X, "y": [0, 1, 0, 1, 0, 1], "classes": ["no", "no"]})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "0", "2"], [1, 0, 2]),
        (["1.0", "0.0", "2.0"], [1, 0, 2]),
        (["007", "1", "2"], ["007", "1", "2"]),
        (["1", "0", "cat"], ["1", "0", "cat"]),
        (["NA", "null", "None"], ["NA", "null", "None"]),
    ],
)
def test_labels_of_a_file_without_types(texts, expected):
    assert labels.from_text(texts, "file").tolist() == expected


@pytest.mark.parametrize("texts", [["1", "", "2"], ["1", "0.5"], ["-1", "1"], ["nan", "1"]])
def test_bad_labels_of_a_file_without_types(texts):
    with pytest.raises(BadInput):
        labels.from_text(texts, "file")


@pytest.mark.parametrize(
    "texts",
    [
        ["1_2", "12", "0"],
        ["1e3", "1000", "0"],
        ["0x1", "1", "0"],
        ["0", "1", "inf"],
        ["0", "1", "1", "٢"],
        ["+1", "-1"],
        ["0", "01", "1"],
        ["1", "2", "3"],
        ["0", "2", "10"],
    ],
)
def test_other_texts_than_the_numbers_from_0_are_names(texts):
    assert labels.from_text(texts, "file").tolist() == texts


def test_numbers_with_spaces_are_numbers():
    assert labels.from_text(["0", " 1", "2 "], "file").tolist() == [0, 1, 2]


def test_a_test_table_names_the_same_classes(tmp_path):
    (tmp_path / "train.csv").write_text("x,label,truth\n1,1,1\n2,2,1\n3,3,3\n4,3,2\n")
    (tmp_path / "test.csv").write_text("x,label\n1,3\n2,1\n")
    data = load(tmp_path / "train.csv", test=tmp_path / "test.csv", true="truth")
    assert data.classes == ("1", "2", "3")
    assert data.labels.tolist() == [0, 1, 2, 2]
    assert data.true_labels.tolist() == [0, 0, 2, 1]
    assert data.test.labels.tolist() == [2, 0]
    (tmp_path / "test.csv").write_text("x,label\n1,0\n2,1\n")
    with pytest.raises(BadInput, match="'0' is not among the 3 classes"):
        load(tmp_path / "train.csv", test=tmp_path / "test.csv", true="truth")
    (tmp_path / "train.csv").write_text("x,label\n1,1\n2,2\n3,0\n4,3\n")
    (tmp_path / "test.csv").write_text("x,label\n1,3\n2,1\n")
    data = load(tmp_path / "train.csv", test=tmp_path / "test.csv")
    assert data.test.labels.tolist() == [3, 1]
