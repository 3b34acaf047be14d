"""House numbers, cats and dogs, in their published layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from selfadapt.data import load, sources
from selfadapt.errors import BadInput, DamagedFile


def house_numbers(folder: Path, seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    random, parts = np.random.default_rng(seed), {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 12), ("test", 5)):
        pixels = random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        digits = np.arange(count) % 10
        y = np.where(digits == 0, 10, digits).astype(np.uint8)[:, None]
        savemat(folder / f"{name}_32x32.mat", {"X": pixels.transpose(1, 2, 3, 0), "y": y})
        parts[name] = pixels, digits
    return parts


@pytest.mark.parametrize("below", ["", "svhn"])
def test_house_numbers(below: str, tmp_path: Path) -> None:
    parts = house_numbers(tmp_path / below)
    data = load("svhn", root=tmp_path)
    assert data.test is not None
    for name, found in (("train", data), ("test", data.test)):
        pixels, digits = parts[name]
        np.testing.assert_array_equal(found.inputs.read(np.arange(len(digits)))[0], pixels)
        assert found.labels.tolist() == digits.tolist()
    assert data.classes == tuple("0123456789")
    assert data.augment == "crop", "digits must not be mirrored"
    assert data.inputs.shape == (3, 32, 32)


def test_a_damaged_file_of_house_numbers(tmp_path: Path) -> None:
    house_numbers(tmp_path)
    (tmp_path / "test_32x32.mat").write_bytes(b"no matrix")
    with pytest.raises(DamagedFile, match=r"test_32x32.mat is damaged"):
        load("svhn", root=tmp_path)


def picture(path: Path, colour: tuple[int, int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (90, 70), colour).save(path)


@pytest.mark.parametrize("layout", ["train/{lower}.{number}.jpg", "PetImages/{upper}/{number}.jpg"])
@pytest.mark.parametrize("below", ["", "dogs-vs-cats"])
def test_cats_and_dogs(layout: str, below: str, tmp_path: Path) -> None:
    for number in range(10):
        for name, colour in (("cat", (200, 0, 0)), ("dog", (0, 0, 200))):
            text = layout.format(lower=name, upper=name.title(), number=number)
            picture(tmp_path / below / text, colour)
    data = load("dogs-vs-cats", root=tmp_path, size=64, test=0.2)
    assert data.inputs.shape == (3, 64, 64)
    assert data.test is not None
    assert (len(data), len(data.test)) == (16, 4)
    assert [name.lower() for name in data.classes] == ["cat", "dog"]
    pixels = data.inputs.read(np.arange(16))[0].numpy()
    np.testing.assert_array_equal(pixels[:, 32, 32, 2] > 100, data.labels == 1)


def test_where_they_are_not(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must be got by yourself"):
        load("dogs-vs-cats")
    with pytest.raises(BadInput, match="holds no Dogs vs Cats"):
        load("dogs-vs-cats", root=tmp_path)
    picture(tmp_path / "train" / "cat.0.jpg", (1, 2, 3))
    picture(tmp_path / "train" / "cow.0.jpg", (1, 2, 3))
    with pytest.raises(BadInput, match="neither cat nor dog"):
        load("dogs-vs-cats", root=tmp_path)


def test_they_are_listed() -> None:
    assert {"svhn", "dogs-vs-cats"} <= set(sources.names())
