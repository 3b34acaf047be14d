"""Arrays and .npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from selfadapt.data import load
from selfadapt.errors import BadInput

RNG = np.random.default_rng(1)
Y = np.arange(12) % 3


def read(data, rows) -> np.ndarray:
    values, failed = data.inputs.read(np.asarray(rows))
    assert not failed
    return values.numpy()


def test_npz_round_trip(tmp_path: Path):
    x = RNG.normal(size=(12, 5))
    ids = np.array([f"row {i}" for i in range(12)])
    names = np.array(["a", "b", "c"])
    np.savez(tmp_path / "d.npz", x=x, y=Y, x_test=x[:3], y_test=Y[:3], ids=ids, classes=names)
    data = load(tmp_path / "d.npz")
    assert data.name == "d"
    assert data.inputs.shape == (5,)
    assert read(data, range(12)).dtype == np.float32
    assert (read(data, [11, 0]) == x[[11, 0]].astype(np.float32)).all()
    assert data.labels.tolist() == Y.tolist()
    assert data.classes == ("a", "b", "c")
    assert (data.ids[4], data.id_name) == ("row 4", "id")
    assert len(data.test) == 3
    assert data.source == {"source": str(tmp_path / "d.npz"), "test": 0.1}
    again = load(**data.source)
    assert again.ids == data.ids


def test_other_keys_and_true_labels(tmp_path: Path):
    x = RNG.normal(size=(12, 5))
    np.savez(tmp_path / "d.npz", x=x, noisy=Y, clean=Y[::-1], y=Y * 0)
    data = load(str(tmp_path / "d.npz"), label="noisy", true="clean", test=0)
    assert data.labels.tolist() == Y.tolist()
    assert data.true_labels.tolist() == Y[::-1].tolist()
    with pytest.raises(BadInput, match=r"no 'wrong'.* x, noisy, clean, y"):
        load(tmp_path / "d.npz", label="wrong")


@pytest.mark.parametrize("shape", [(12, 4, 6), (12, 4, 6, 1), (12, 4, 6, 3)])
def test_uint8_images(shape):
    x = RNG.integers(0, 256, shape, dtype=np.uint8)
    data = load((x, Y), test=0)
    channels = shape[3] if len(shape) == 4 else 1
    assert data.inputs.shape == (channels, 4, 6)
    assert (read(data, [7]) == x[7].reshape(4, 6, channels)).all()


def test_uint8_images_can_be_scaled():
    x = np.repeat(np.arange(12, dtype=np.uint8) * 20, 64).reshape(12, 8, 8)
    data = load((x, Y), test=0, size=4)
    assert data.inputs.shape == (1, 4, 4)
    assert (read(data, range(12)) == x[:, :4, :4, None]).all()
    with pytest.raises(BadInput, match="only images of 8 bits"):
        load((x.reshape(12, 64) / 255.0, Y), size=4)


def test_float_images():
    x = RNG.random((12, 3, 4, 4))
    data = load({"x": x, "y": Y}, test=0)
    assert data.inputs.shape == (3, 4, 4)
    assert (read(data, [5]) == x[5].astype(np.float32)).all()


def test_lists_and_tensors():
    data = load((torch.eye(12), torch.tensor(Y)), test=0)
    assert (read(data, [3])[0] == np.eye(12)[3]).all()
    data = load(([[0, 1], [2, 3]], ["b", "a"]), test=0)
    assert data.labels.tolist() == [1, 0]
    assert load(data) is data


def test_read_only_arrays_are_copied():
    x = RNG.integers(0, 256, (12, 4, 4, 3), dtype=np.uint8)
    x.flags.writeable = False
    assert load((x, Y), test=0).inputs.shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([[0, 1], [np.nan, 1]]), "not finite in row 1"),
        (np.array([[0, 1], [1e300, 1]]), "not finite in row 1"),
        (np.zeros(2), r"shape \(2,\)"),
        (np.zeros((2, 0)), r"shape \(2, 0\)"),
        (np.zeros((2, 1, 1, 1, 1)), "shape"),
        (np.zeros((2, 4, 4)), "float64"),
        (np.zeros((2, 3, 8, 8), np.uint8), r"transpose\(0, 2, 3, 1\)"),
        (np.zeros((2, 8, 8, 3)), r"transpose\(0, 3, 1, 2\)"),
        (np.full((2, 3, 8, 8), 255.0), "Divide by 255"),
        (np.array([["a"], ["b"]]), "<U1"),
        (np.array([[None], [1]]), "object"),
        ([[1, 2], [3]], "not an array"),
    ],
)
def test_unusable_inputs(x, message):
    with pytest.raises(BadInput, match=message):
        load((x, [0, 1]))


def test_unusable_files(tmp_path: Path):
    np.savez(tmp_path / "keys.npz", images=np.zeros((2, 2)), labels=np.arange(2))
    with pytest.raises(BadInput, match=r"no 'x'.* images, labels"):
        load(tmp_path / "keys.npz")
    np.savez(tmp_path / "object.npz", x=np.zeros((2, 2)), y=np.array(["a", None], object))
    with pytest.raises(BadInput, match="not an object array"):
        load(tmp_path / "object.npz")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    whole = (tmp_path / "keys.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "empty", "single", "cut"):
        with pytest.raises(BadInput, match=r"is not an \.npz file"):
            load(tmp_path / f"{name}.npz")


def test_parts_that_do_not_fit():
    x = np.zeros((12, 4))
    with pytest.raises(BadInput, match="both x_test and y_test"):
        load({"x": x, "y": Y, "x_test": x})
    with pytest.raises(BadInput, match=r"shape \(4,\), test samples \(5,\)"):
        load((x, Y, np.zeros((12, 5)), Y))
    with pytest.raises(BadInput, match="12 samples but 3 ids"):
        load({"x": x, "y": Y, "ids": ["a", "b", "c"]})
    with pytest.raises(BadInput, match="more than once: 'a', 'b'"):
        load({"x": x, "y": Y, "ids": [*"abab", *"cdefghij"]})
    with pytest.raises(BadInput, match="cannot read data from list"):
        load([x, Y])
    with pytest.raises(BadInput, match="no samples"):
        load((x[:0], Y[:0]))
