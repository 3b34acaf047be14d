"""Hugging Face sets, made here and handed over in place of the hub's."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import pixels_of

from selfadapt.data import load
from selfadapt.errors import BadInput


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch):
    """Publish a dataset under the name owner/name."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    published = {}

    def load_dataset(name: str):
        if name not in published:
            raise FileNotFoundError(f"{name} is not on the hub")
        return datasets.DatasetDict(published[name])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return published


def test_images_with_class_names(hub, tmp_path: Path, picture):
    import datasets

    photos = [picture(tmp_path / f"{i}.png") for i in range(8)]
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["zebra", "ape"])}
    )
    whole = datasets.Dataset.from_dict(
        {
            "image": [{"bytes": photo.read_bytes(), "path": None} for photo in photos],
            "label": [0, 1] * 4,
        },
        features=features,
    )
    hub["owner/zoo"] = {"train": whole.select([5, 4, 3, 2, 1]), "validation": whole.select([0, 7])}
    data = load("hf:owner/zoo")
    assert data.name == "zoo"
    assert data.classes == ("zebra", "ape")
    assert data.labels.tolist() == [1, 0, 1, 0, 1]
    assert data.test.labels.tolist() == [0, 1]
    assert (data.inputs.read(np.array([0]))[0][0].numpy() == pixels_of(photos[5])).all()
    assert data.source["source"] == "hf:owner/zoo"


def test_features_without_a_test_part(hub):
    import datasets

    columns = {"vector": [[i, i + 0.5] for i in range(20)], "target": ["a", "b"] * 10}
    hub["owner/vectors"] = {"all": datasets.Dataset.from_dict(columns)}
    data = load("hf:owner/vectors")
    assert (len(data), len(data.test)) == (18, 2)
    assert data.inputs.shape == (2,)
    rows = np.array(data.ids, int)
    assert (data.inputs.read(np.arange(18))[0][:, 1].numpy() == rows + 0.5).all()


def test_a_set_that_is_not_there(hub):
    with pytest.raises(BadInput, match=r"hf:owner/none cannot be loaded: .*not on the hub"):
        load("hf:owner/none")


@pytest.mark.parametrize("name", ["hf:", "hf:a/b/c", "hf:../x y"])
def test_no_name(name: str):
    with pytest.raises(BadInput, match="OWNER/NAME"):
        load(name)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match=r"selfadapt\[hf\]"):
        load("hf:owner/zoo")
