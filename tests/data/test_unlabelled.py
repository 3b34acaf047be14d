"""Samples for a trained model: labels may be missing, and shapes must fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import pixels_of

from selfadapt.data import load
from selfadapt.data.unlabelled import as_inputs, read_inputs
from selfadapt.errors import BadInput, UnknownName


def test_a_flat_folder_and_class_folders(class_folders: Path, picture):
    picture(class_folders / "loose.png", (20, 10))
    (class_folders / "cat" / "05.png").write_bytes(b"")
    found = read_inputs(str(class_folders), (3, 8, 8), {})
    assert len(found.ids) == len(found.inputs) == 31
    assert found.id_name == "path"
    assert found.unreadable == {found.ids.index("cat/05.png"): "zero bytes"}
    row = found.ids.index("dog/07.png")
    pixels = found.inputs.read(np.array([row]))[0][0].numpy()
    assert (pixels == pixels_of(class_folders / "dog" / "07.png")).all()
    with pytest.raises(BadInput, match=r"shape \(1, 8, 8\)"):
        read_inputs(class_folders, (1, 8, 8), {})


def test_tables_with_and_without_labels(tmp_path: Path, picture):
    photo = picture(tmp_path / "a.png")
    (tmp_path / "paths.csv").write_text("path\na.png\n")
    found = read_inputs(tmp_path / "paths.csv", (3, 8, 8), {})
    assert found.ids == ("a.png",)
    assert (found.inputs.read(np.array([0]))[0][0].numpy() == pixels_of(photo)).all()
    (tmp_path / "bare.csv").write_text("a,b\n1,2\n")
    (tmp_path / "labelled.csv").write_text("a,label,b,truth\n1,,2,0\n")
    bare = read_inputs(tmp_path / "bare.csv", (2,), {})
    labelled = read_inputs(tmp_path / "labelled.csv", (2,), {"true": "truth"})
    for each in (bare, labelled):
        assert each.inputs.read(np.array([0]))[0].tolist() == [[1, 2]]
    with pytest.raises(BadInput, match=r"shape \(3,\).*\(2,\)"):
        read_inputs(tmp_path / "bare.csv", (3,), {})


def test_arrays_names_and_nothing(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(5, 4))
    np.savez(tmp_path / "x.npz", x=x, ids=[f"s{i}" for i in range(5)])
    found = read_inputs(tmp_path / "x.npz", (4,), {})
    assert found.ids[4] == "s4"
    assert (found.inputs.read(np.array([4]))[0].numpy() == x[4].astype(np.float32)).all()
    assert read_inputs("digits", (1, 8, 8), {}).ids == load("digits").test.ids
    with pytest.raises(BadInput, match="no file or folder"):
        read_inputs(tmp_path / "none.csv", (4,), {})
    with pytest.raises(UnknownName, match="'sizes'"):
        read_inputs("digits", (1, 8, 8), {"sizes": 3})
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="no images"):
        read_inputs(tmp_path / "empty", (3, 8, 8), {})


def test_pictures_take_the_size_of_the_model(tmp_path: Path):
    x = np.random.default_rng(0).integers(0, 256, (30, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(30) % 3)
    data = load(tmp_path / "x.npz", size=8, test=0)
    rows = np.arange(30)
    expected = data.inputs.read(rows)[0]
    assert expected.shape == (30, 8, 8, 1)
    for found in (
        read_inputs(tmp_path / "x.npz", (1, 8, 8), {}).inputs,
        as_inputs(x, (1, 8, 8)),
        as_inputs(torch.from_numpy(x)[..., None], (1, 8, 8)),
    ):
        assert torch.equal(found.read(rows)[0], expected)
    assert as_inputs(x[:0], (1, 8, 8)).shape == (1, 8, 8)
    with pytest.raises(
        BadInput, match=r"\(1, 8, 6\) \(channels first\), those of x have \(1, 16, 16"
    ):
        as_inputs(x, (1, 8, 6))


def test_columns_are_found_by_name(tmp_path: Path):
    (tmp_path / "t.csv").write_text("y,path,b,more,a\n7,p,2,9,1\n8,q,4,9,3\n")
    found = read_inputs(tmp_path / "t.csv", (3,), {}, features=["a", "b", "y"])
    assert found.inputs.read(np.arange(2))[0].tolist() == [[1, 2, 7], [3, 4, 8]]
    with pytest.raises(
        BadInput, match=r"lacks 2 of the 3 feature columns.*'c', 'd'.*It has: y, path"
    ):
        read_inputs(tmp_path / "t.csv", (3,), {}, features=["a", "c", "d"])
    with pytest.raises(BadInput, match=r"column 'path' is of type string"):
        read_inputs(tmp_path / "t.csv", (2,), {}, features=["a", "path"])


def test_a_name_too_long_for_any_file():
    for name in ("a" * 300, "a" * 300 + ".csv", "a" * 300 + "/labels.parquet", "b/" + "a" * 5000):
        with pytest.raises(BadInput):
            load(name)
        with pytest.raises(BadInput):
            read_inputs(name, (3,), {})
        with pytest.raises(BadInput):
            load("digits", test=name)
