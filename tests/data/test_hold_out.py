"""Which samples are held out or chosen, and that rows and ids stay with their samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt.data import load, split
from selfadapt.errors import BadInput


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.floats(0, 0.99))
def test_hold_out_is_stratified_and_leaves_each_class_one(labels: list[int], share: float):
    y = np.array(labels)
    stay, held = split.hold_out(y, share)
    assert sorted([*stay, *held]) == list(range(len(y)))
    assert (np.diff(stay) > 0).all()
    assert (np.diff(held) > 0).all()
    counts = np.bincount(y)
    assert len(held) == min(round(share * len(y)), (counts - 1).clip(0).sum())
    assert set(y[stay]) == set(y)
    if len(held) == round(share * len(y)) and share <= 0.5 and counts[counts > 0].min() > 1:
        taken = np.bincount(y[held], minlength=len(counts))
        assert (abs(taken - share * counts) <= 1.5).all()


def test_the_choice_depends_on_the_labels_only():
    y = np.arange(100) % 7
    assert (split.hold_out(y, 0.2)[1] == split.hold_out(y.copy(), 0.2)[1]).all()
    assert (split.sample(y, 14) == split.sample(y, 14)).all()
    assert (np.bincount(y[split.sample(y, 14)]) == 2).all()


def test_rows_ids_labels_and_inputs_stay_together():
    x = np.arange(200, dtype=np.float32).reshape(100, 2)
    y = np.arange(100) % 4
    data = load({"x": x, "y": y, "ids": [f"s{i}" for i in range(100)], "t": y[::-1]}, true="t")
    assert len(data) == 90
    assert len(data.test) == 10
    assert set(data.ids) | set(data.test.ids) == {f"s{i}" for i in range(100)}
    for part in (data, data.test):
        source = np.array([int(i[1:]) for i in part.ids])
        assert (np.diff(source) > 0).all()
        values, _ = part.inputs.read(np.arange(len(part)))
        assert (values.numpy() == x[source]).all()
    source = np.array([int(i[1:]) for i in data.ids])
    assert (data.labels == y[source]).all()
    assert (data.true_labels == y[::-1][source]).all()
    held = np.array([int(i[1:]) for i in data.test.ids])
    assert (data.test.labels == y[::-1][held]).all()
    assert data.notes[0].startswith("no test part: held out 10 of 100 samples, stratified")


def test_none_is_held_out_on_request_or_from_a_source_with_a_test_part():
    x, y = np.zeros((20, 2)), np.arange(20) % 2
    assert load((x, y), test=0).test is None
    data = load((x, y, x[:4], y[:4]), test=0.5)
    assert len(data) == 20
    assert len(data.test) == 4
    assert data.notes == ()
    tiny = load((x[:3], y[:3]))
    assert tiny.test is None
    assert "too few" in tiny.notes[0]


def test_limit_takes_the_first_rows_and_spares_the_test_part():
    x, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    data = load((x, y, x, y), limit=5)
    assert data.ids == ("0", "1", "2", "3", "4")
    assert len(data.test) == 20
    assert load((x, y), limit=5).ids == load((x, y)).ids[:5]
    with pytest.raises(BadInput, match=r"first 3 .* class '0'.*limit"):
        load((x, np.sort(y)), limit=3)


def test_limit_of_class_folders_keeps_the_proportions(class_folders):
    data = load(class_folders, test=0, limit=9)
    assert np.bincount(data.labels).tolist() == [6, 3]
    assert "in proportion to the classes" in data.notes[1]
    assert list(data.ids) == sorted(data.ids)


@pytest.mark.parametrize(
    "setting",
    [
        *({"test": -0.1}, {"test": 1.0}, {"test": float("nan")}, {"test": True}, {"test": None}),
        *({"limit": 0}, {"limit": 2.5}, {"size": 0}, {"size": 10**6}, {"limit": True}),
        {"root": "no/such/folder"},
    ],
)
def test_nonsense_settings(setting):
    with pytest.raises(BadInput, match=f"data.{next(iter(setting))}"):
        load((np.zeros((8, 2)), np.arange(8) % 2), **setting)
