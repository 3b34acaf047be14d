"""Folders: class folders, parts, idx files; and paths that lead nowhere."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import pixels_of

from selfadapt.data import load
from selfadapt.errors import BadInput, DamagedFile, UnknownName


def test_class_folders(class_folders: Path):
    data = load(str(class_folders))
    assert data.name == "photos"
    assert data.classes == ("cat", "dog")
    assert (len(data), len(data.test)) == (27, 3)
    assert np.bincount(data.test.labels).tolist() == [2, 1]
    for row, name in enumerate(data.ids):
        pixels = data.inputs.read(np.array([row]))[0][0].numpy()
        assert (pixels == pixels_of(class_folders / name)).all()
        assert data.classes[data.labels[row]] == Path(name).parts[0]
    assert data.id_name == "path"


def test_what_is_no_image_is_ignored_and_told(class_folders: Path, picture):
    (class_folders / "cat" / "notes.txt").write_text("cats")
    (class_folders / "cat" / ".hidden.png").write_text("hidden")
    (class_folders / ".git" / "objects").mkdir(parents=True)
    (class_folders / "README.md").write_text("photos")
    picture(class_folders / "dog" / "puppies" / "UPPER.PNG")
    data = load(class_folders, test=0)
    assert len(data) == 31
    assert "dog/puppies/UPPER.PNG" in data.ids
    assert "1 file is no image by the extension and left out: 'notes.txt'" in data.notes


def test_parts(tmp_path: Path, picture):
    for part, count in (("train", 4), ("val", 2)):
        for name in ("<b>", 'it\'s "one"'):
            for i in range(count):
                picture(tmp_path / part / name / f"{i}.jpg")
    (tmp_path / "test").mkdir()
    picture(tmp_path / "test" / "unlabelled.jpg")
    data = load(tmp_path)
    assert (len(data), len(data.test)) == (8, 4)
    assert data.ids[0] == "train/<b>/0.jpg"
    assert data.classes == ("<b>", 'it\'s "one"')
    assert data.test.labels.tolist() == [0, 0, 1, 1]
    assert not data.notes
    picture(tmp_path / "val" / "stranger" / "0.jpg")
    with pytest.raises(BadInput, match="'stranger' is not among the 2 classes"):
        load(tmp_path)


def test_a_test_set_elsewhere(class_folders: Path, tmp_path: Path, picture):
    picture(tmp_path / "elsewhere" / "dog" / "a.png")
    picture(tmp_path / "elsewhere" / "dog" / "b.png")
    data = load(class_folders, test=tmp_path / "elsewhere")
    assert (len(data), len(data.test)) == (30, 2)
    assert data.test.labels.tolist() == [1, 1]
    assert data.source["test"] == str(tmp_path / "elsewhere")


def test_a_class_called_train(tmp_path: Path, picture):
    for name in ("train", "boat", "test"):
        picture(tmp_path / name / "0.png")
    assert load(tmp_path, test=0).classes == ("boat", "test", "train")


def test_a_file_name_that_is_no_text(class_folders: Path):
    name = os.fsencode(class_folders / "cat") + b"/\xff.png"
    os.rename(class_folders / "cat" / "00.png", name)  # noqa: PTH104
    data = load(class_folders, test=0)
    assert "cat/\\xff.png" in data.ids
    assert not data.quarantined


def test_nothing_to_read(tmp_path: Path, class_folders: Path, picture):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="is empty"):
        load(tmp_path / "empty")
    with pytest.raises(BadInput, match=r"no class folders, only '00\.png'"):
        load(class_folders / "cat")
    (tmp_path / "texts" / "a").mkdir(parents=True)
    (tmp_path / "texts" / "a" / "b.doc").write_text("")
    with pytest.raises(BadInput, match=r"hold no images; they hold 'b.doc'"):
        load(tmp_path / "texts")
    picture(tmp_path / "one" / "only" / "a.png")
    with pytest.raises(BadInput, match="of class 'only'"):
        load(tmp_path / "one")
    with pytest.raises(BadInput, match=r"'photos\.zip'.*looked at"):
        load("photos.zip")
    with pytest.raises(BadInput, match="There is no file or folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"cannot read this kind of file"):
        load(class_folders / "cat" / "00.png")
    with pytest.raises(BadInput, match="name of the data is empty"):
        load("")
    with pytest.raises(UnknownName, match=r"'cifar11'\. Did you mean 'cifar10'"):
        load("cifar11")
    with pytest.raises(BadInput, match=r"data.label='species' names a column"):
        load(class_folders, label="species")


def test_a_folder_that_cannot_be_listed(class_folders: Path, monkeypatch: pytest.MonkeyPatch):
    scan = os.scandir

    def refuse(path):
        if Path(os.fspath(path)).name == "dog":
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(BadInput, match=r"dog cannot be read: Permission denied"):
        load(class_folders)


def write_idx(path: Path, values: np.ndarray, packed: bool = False) -> None:
    header = bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes()
    content = header + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(tmp_path: Path, packed: bool):
    x = np.random.default_rng(0).integers(0, 256, (10, 6, 5), dtype=np.uint8)
    y = np.arange(10) % 2
    end = ".gz" if packed else ""
    write_idx(tmp_path / f"train-images-idx3-ubyte{end}", x, packed)
    write_idx(tmp_path / f"train-labels-idx1-ubyte{end}", y, packed)
    assert len(load(tmp_path, test=0)) == 10
    write_idx(tmp_path / f"t10k-images-idx3-ubyte{end}", x[:4], packed)
    write_idx(tmp_path / f"t10k-labels-idx1-ubyte{end}", y[:4], packed)
    data = load(tmp_path)
    assert (data.inputs.shape, data.augment) == ((1, 6, 5), "crop")
    assert (data.inputs.read(np.array([3]))[0].numpy()[0, ..., 0] == x[3]).all()
    assert data.test.labels.tolist() == [0, 1, 0, 1]


def test_damaged_idx_files(tmp_path: Path):
    images, given = (tmp_path / f"train-{n}-ubyte" for n in ("images-idx3", "labels-idx1"))
    write_idx(images, np.zeros((10, 2, 2)))
    write_idx(given, np.arange(9) % 2)
    with pytest.raises(BadInput, match="do not belong together"):
        load(tmp_path)
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match="holds 39 values"):
        load(tmp_path)
    images.write_bytes(b"\0\0\x08\x03\0")
    with pytest.raises(DamagedFile):
        load(tmp_path)
    images.write_bytes(b"hello")
    with pytest.raises(BadInput, match="not an idx file"):
        load(tmp_path)
    images.write_bytes(gzip.compress(b"hello" * 100)[:-9])
    with pytest.raises(DamagedFile, match="damaged"):
        load(tmp_path)
