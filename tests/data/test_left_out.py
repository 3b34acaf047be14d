"""Classes that are left out of training, and kept apart to be told from the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import blobs

import selfadapt
from selfadapt.errors import BadInput, UnknownName


def test_they_neither_train_nor_test() -> None:
    x, y = blobs(200, classes=4)
    whole = selfadapt.load({"x": x, "y": y})
    data = selfadapt.load({"x": x, "y": y}, without=[1])
    assert data.classes == ("0", "2", "3")
    everything = np.arange(200)
    kept = [int(i) for i in data.ids]
    assert set(kept) == {int(i) for i in whole.ids if y[int(i)] != 1}
    np.testing.assert_array_equal(np.array([0, 2, 3])[data.labels], y[kept])
    assert data.test is not None
    assert whole.test is not None
    ids = [int(i) for i in whole.test.ids]
    assert [int(i) for i in data.test.ids] == [i for i in ids if y[i] != 1], "the same as without"
    assert data.left_out is not None
    found, _ = data.left_out.read(np.arange(len(data.left_out)))
    np.testing.assert_array_equal(found.numpy(), x[[i for i in ids if y[i] == 1]])
    assert len(everything) - len(kept) - len(ids) == sum(y[int(i)] == 1 for i in whole.ids)


def test_a_sample_whose_true_label_is_left_out_goes_too() -> None:
    x, true = blobs(200, classes=4)
    given = np.where(np.arange(200) % 5 == 0, (true + 1) % 4, true)
    data = selfadapt.load({"x": x, "y": given, "true": true}, true="true", without=["3"], test=0.0)
    stays = (given != 3) & (true != 3)
    assert [int(i) for i in data.ids] == np.flatnonzero(stays).tolist()
    assert data.true_labels is not None
    np.testing.assert_array_equal(data.true_labels, true[stays])
    assert data.left_out is None, "there is no test part to take them from"


def test_what_cannot_be_left_out() -> None:
    with pytest.raises(UnknownName, match=r"unknown class in data\.without '7'"):
        selfadapt.load(blobs(60), without=[7])
    with pytest.raises(BadInput, match="takes at least two"):
        selfadapt.load(blobs(60), without=[0, 1])


def fit(source: Any, out: Path, **settings: Any) -> Any:
    quick = {"train.epochs": 2, "train.batch": 20, "net.width": 8, "train.score": "auto"}
    return selfadapt.fit(source, out=out, method="erm", net="mlp", settings=quick | settings)


def test_how_well_scores_tell_them_apart(tmp_path: Path) -> None:
    x, y = blobs(300, classes=4)
    np.savez(tmp_path / "points.npz", x=x, y=y)
    settings = {"data.without": [3], "train.against": "left_out"}
    run = fit(tmp_path / "points.npz", tmp_path / "run", **settings)
    assert run.classes == ["0", "1", "2"]
    for score in ("softmax", "margin", "entropy", "energy", "dropout"):
        assert 0 <= run.result[f"auroc_other_by_{score}"] <= 1
    assert run.result["auroc_other"] == run.result["auroc_other_by_softmax"]
    with pytest.raises(BadInput, match=r"there are none: name classes"):
        fit(tmp_path / "points.npz", tmp_path / "none", **{"train.against": "left_out"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"train.score": "none", "train.against": "digits"}, "give train.score=auto too"),
        ({"data.test": 0.0}, "measures on a test part, and data.test=0 leaves none"),
        ({"train.against": "no such file.csv"}, "no such file.csv"),
        ({"train.score": "abstain"}, "there is auto, softmax, margin, entropy, energy, dropout"),
    ],
)
def test_scores_that_cannot_be(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=said):
        fit(blobs(100), tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists(), "it is told before anything is trained"


def test_thresholds_from_the_calibration_part_are_used_on_the_test_part(tmp_path: Path) -> None:
    run = fit(blobs(600), tmp_path / "run", **{"data.calibration": 0.3})
    for share in (100, 90, 70):
        answered = run.result[f"held_out_coverage_at_{share}"]
        assert answered == pytest.approx(share / 100, abs=0.15)
    assert run.result["error_at_100"] == pytest.approx(1 - run.result["accuracy"])
