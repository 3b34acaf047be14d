"""Crops and flips of a batch at once, against one picture at a time in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt.data.augment import crop_and_flip
from selfadapt.randomness import per_row


def pictures(n: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """No two pixels of a picture are alike, and none is zero."""
    rng = np.random.default_rng(seed)
    size = height * width * 3
    values = [rng.permutation(size) + 1 for _ in range(n)]
    return np.stack(values).reshape(n, height, width, 3).astype(np.float32)


def slowly(image: np.ndarray, row: int, seed: int, epoch: int, flip: bool) -> np.ndarray:
    """Zero-pad by an eighth, cut a window, mirror it."""
    height, width, channels = image.shape
    pad_y, pad_x = max(1, height // 8), max(1, width // 8)
    u, v, w = per_row(np.array([row]), 3, "augment", seed, epoch)[0]
    top, left = int(u * (2 * pad_y + 1)), int(v * (2 * pad_x + 1))
    padded = np.zeros((height + 2 * pad_y, width + 2 * pad_x, channels), image.dtype)
    padded[pad_y : pad_y + height, pad_x : pad_x + width] = image
    window = padded[top : top + height, left : left + width]
    return window[:, ::-1] if flip and w < 0.5 else window


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=8),
    st.integers(2, 20),
    st.integers(2, 20),
    st.integers(0, 1000),
    st.integers(0, 100),
    st.booleans(),
)
def test_every_picture_against_the_slow_version(
    rows: list[int], height: int, width: int, seed: int, epoch: int, flip: bool
) -> None:
    images = pictures(len(rows), height, width)
    fast = crop_and_flip(torch.tensor(images), np.array(rows), seed, epoch, flip=flip)
    for i, row in enumerate(rows):
        assert (fast[i].numpy() == slowly(images[i], row, seed, epoch, flip)).all()


def test_bytes_stay_bytes() -> None:
    images = torch.randint(1, 256, (5, 8, 8, 3), dtype=torch.uint8)
    rows = np.arange(5)
    moved = crop_and_flip(images, rows, 1, 2, flip=True)
    assert moved.dtype == torch.uint8
    assert moved.shape == images.shape
    assert torch.equal(moved.float(), crop_and_flip(images.float(), rows, 1, 2, flip=True))


def windows(image: np.ndarray, pad: int) -> dict[bytes, tuple[int, int, bool]]:
    """Every window there is: where it starts, and whether it is mirrored."""
    height, width, _ = image.shape
    padded = np.pad(image, ((pad, pad), (pad, pad), (0, 0)))
    found = {}
    for top in range(2 * pad + 1):
        for left in range(2 * pad + 1):
            window = padded[top : top + height, left : left + width]
            found[window.tobytes()] = (top, left, False)
            found[np.ascontiguousarray(window[:, ::-1]).tobytes()] = (top, left, True)
    return found


@pytest.mark.parametrize("flip", [False, True])
def test_all_windows_come_about_equally_often(flip: bool) -> None:
    """4 pixels of 32: 81 windows, and their mirror images. None of this asks how it is drawn."""
    image = pictures(1, 32, 32)
    known = windows(image[0], 4)
    count = 3000
    copies = torch.tensor(image).expand(count, -1, -1, -1)
    moved = crop_and_flip(copies, np.arange(count), 0, 0, flip=flip).numpy()
    seen = np.array([known[picture.tobytes()] for picture in moved])
    for offsets in seen[:, :2].T:
        counts = np.bincount(offsets, minlength=9)
        assert np.abs(counts - count / 9).max() < 5 * np.sqrt(count / 9)
    assert len({(top, left) for top, left, _ in seen}) == 81
    mirrored = seen[:, 2].mean()
    assert mirrored == (pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(count)) if flip else 0)


@settings(max_examples=20, deadline=None)
@given(st.permutations(list(range(12))), st.integers(1, 12))
def test_a_row_is_the_same_picture_in_whatever_batch(order: list[int], size: int) -> None:
    images = torch.tensor(pictures(12, 8, 8))
    whole = crop_and_flip(images, np.arange(12), 3, 4, flip=True)
    some = np.array(order[:size])
    part = crop_and_flip(images[some], some, 3, 4, flip=True)
    assert torch.equal(part, whole[some])


def test_epochs_and_seeds_differ() -> None:
    images, rows = torch.tensor(pictures(64, 16, 16)), np.arange(64)
    base = crop_and_flip(images, rows, 0, 0, flip=True)
    for seed, epoch in ((0, 1), (1, 0)):
        other = crop_and_flip(images, rows, seed, epoch, flip=True)
        assert (base != other).flatten(1).any(dim=1).sum() > 32


def test_the_inputs_are_left_alone() -> None:
    images = torch.tensor(pictures(4, 8, 8))
    before = images.clone()
    crop_and_flip(images, np.arange(4), 0, 0, flip=True)
    assert torch.equal(images, before)
