"""Which rows, in what order, and their inputs: the same from memory and from files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from selfadapt.data import ImageFiles, InMemory
from selfadapt.data.augment import crop_and_flip
from selfadapt.data.feed import Feed, epoch_batches

# More workers than processors would make torch warn.
WORKERS = min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 300), st.integers(1, 80), st.integers(0, 1000), st.integers(0, 50))
def test_every_row_once_an_epoch(n: int, batch: int, seed: int, epoch: int) -> None:
    rows = np.random.default_rng(n).permutation(1000)[:n]
    parts = epoch_batches(rows, batch, seed, epoch)
    assert sorted(np.concatenate(parts)) == sorted(rows)
    sizes = [len(part) for part in parts]
    assert all(sizes)
    assert set(sizes[:-1]) <= {batch}
    if len(parts) > 1:
        assert min(16, batch) <= sizes[-1] < batch + min(16, batch)
    else:
        assert n < batch + min(16, batch)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (512, [256, 256]),
        (527, [256, 271]),
        (528, [256, 256, 16]),
        (271, [271]),
        (100, [100]),
        (256, [256]),
        (1, [1]),
    ],
)
def test_a_tail_of_fewer_than_16_joins_the_batch_before_it(n: int, sizes: list[int]) -> None:
    assert [len(part) for part in epoch_batches(np.arange(n), 256, 0, 0)] == sizes


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    def order(seed: int, epoch: int, batch: int = 32) -> list[int]:
        return np.concatenate(epoch_batches(np.arange(200), batch, seed, epoch)).tolist()

    first = order(1, 0)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert order(1, 0) == first
    assert order(1, 0, batch=50) == first
    assert order(1, 1) != first
    assert order(2, 0) != first
    assert first != sorted(first)


def test_the_rows_given_are_not_shuffled_themselves() -> None:
    rows = np.arange(50)
    epoch_batches(rows, 16, 0, 0)
    assert rows.tolist() == list(range(50))


def test_a_feed_asks_for_its_own_rows_only() -> None:
    inputs = InMemory(torch.arange(40.0)[:, None])
    feed = Feed(inputs, np.arange(1, 40, 2), seed=3, batch=8)
    assert len(feed) == 20
    parts = feed.batches(2)
    assert sorted(np.concatenate(parts)) == list(range(1, 40, 2))
    expected = epoch_batches(feed.rows, 8, 3, 2)
    assert all((a == b).all() for a, b in zip(parts, expected, strict=True))


def some_bytes(n: int = 48, size: int = 8) -> torch.Tensor:
    pixels = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    return torch.from_numpy(pixels)


def everything(feed: Feed, epoch: int) -> list[tuple[list[int], torch.Tensor]]:
    return [(rows.tolist(), x) for rows, (x,) in feed.augmented(feed.batches(epoch), epoch)]


def test_images_reach_the_net_channels_last_between_0_and_1() -> None:
    pixels = some_bytes()
    feed = Feed(InMemory(pixels), np.arange(48), batch=16)
    for rows, x in [*everything(feed, 0), ([7, 3], feed.plain(np.array([7, 3])))]:
        assert x.dtype == torch.float32
        assert x.shape == (len(rows), 3, 8, 8)
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert 0 <= x.min() <= x.max() <= 1
        assert torch.equal(x, pixels[rows].permute(0, 3, 1, 2) / 255)


@pytest.mark.parametrize(("augment", "flip"), [("crop", False), ("crop_flip", True)])
def test_training_inputs_are_augmented_and_plain_ones_are_not(augment, flip: bool) -> None:
    pixels = some_bytes()
    feed = Feed(InMemory(pixels), np.arange(48), seed=2, batch=20, augment=augment)
    for rows, x in everything(feed, 5):
        moved = crop_and_flip(pixels[rows], np.array(rows), 2, 5, flip=flip)
        assert torch.equal(x, moved.permute(0, 3, 1, 2) / 255)
        assert torch.equal(feed.plain(np.array(rows)), pixels[rows].permute(0, 3, 1, 2) / 255)
        assert not torch.equal(x, feed.plain(np.array(rows)))


def test_the_batch_size_does_not_change_a_picture() -> None:
    pictures: list[dict[int, torch.Tensor]] = []
    for batch in (16, 48):
        feed = Feed(InMemory(some_bytes()), np.arange(48), batch=batch, augment="crop_flip")
        found = everything(feed, 1)
        pictures.append({r: x[i] for rows, x in found for i, r in enumerate(rows)})
    assert pictures[0].keys() == pictures[1].keys() == set(range(48))
    assert all(torch.equal(pictures[0][row], pictures[1][row]) for row in range(48))


def test_float_images_are_augmented_like_bytes() -> None:
    pixels = some_bytes()
    floats = InMemory((pixels.permute(0, 3, 1, 2) / 255).contiguous())
    as_bytes = Feed(InMemory(pixels), np.arange(48), batch=16, augment="crop_flip")
    as_floats = Feed(floats, np.arange(48), batch=16, augment="crop_flip")
    for (_, a), (_, b) in zip(everything(as_bytes, 0), everything(as_floats, 0), strict=True):
        assert torch.equal(a, b)


def test_features_are_never_augmented() -> None:
    x = torch.randn(40, 6)
    feed = Feed(InMemory(x), np.arange(40), batch=16, augment="crop_flip")
    for rows, batch in everything(feed, 0):
        assert torch.equal(batch, x[rows])


def test_evaluation_comes_in_parts_in_the_order_asked_for() -> None:
    x = torch.arange(1300.0)[:, None]
    feed = Feed(InMemory(x), np.arange(1300))
    asked = np.arange(1299, -1, -1)
    parts = list(feed.plain_parts(asked))
    assert [len(rows) for rows, _ in parts] == [512, 512, 276]
    assert np.concatenate([rows for rows, _ in parts]).tolist() == asked.tolist()
    assert torch.cat([batch for _, batch in parts]).flatten().tolist() == asked.tolist()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The pictures of `some_bytes`, one PNG each."""
    paths = []
    for i, pixels in enumerate(some_bytes().numpy()):
        paths.append(str(tmp_path / f"{i}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths


@pytest.mark.parametrize("workers", [0, WORKERS])
def test_streamed_and_in_memory_are_the_same(files: list[str], workers: int) -> None:
    rows = np.arange(48)
    streamed = Feed(
        ImageFiles(files, 8), rows, seed=1, batch=18, augment="crop_flip", workers=workers
    )
    memory = Feed(InMemory(some_bytes()), rows, seed=1, batch=18, augment="crop_flip")
    for epoch in (0, 1):
        one, other = everything(streamed, epoch), everything(memory, epoch)
        assert [rows for rows, _ in one] == [rows for rows, _ in other]
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(one, other, strict=True))
    for (a_rows, a), (b_rows, b) in zip(
        streamed.plain_parts(rows), memory.plain_parts(rows), strict=True
    ):
        assert (a_rows == b_rows).all()
        assert torch.equal(a, b)
    assert streamed.unreadable == {}


@pytest.mark.parametrize("workers", [0, WORKERS])
def test_an_unreadable_file_in_a_stream_is_left_out_and_remembered(
    files: list[str], workers: int
) -> None:
    Path(files[5]).write_bytes(b"")
    Path(files[11]).write_bytes(b"no image at all")
    Path(files[40]).unlink()
    streamed = Feed(
        ImageFiles(files, 8), np.arange(48), seed=1, batch=16, augment="crop_flip", workers=workers
    )
    memory = Feed(InMemory(some_bytes()), np.arange(48), seed=1, batch=16, augment="crop_flip")
    bad = {5, 11, 40}
    for (rows, x), (all_rows, all_x) in zip(
        everything(streamed, 0), everything(memory, 0), strict=True
    ):
        keep = [i for i, row in enumerate(all_rows) if row not in bad]
        assert rows == [all_rows[i] for i in keep]
        assert torch.equal(x, all_x[keep])
    assert streamed.unreadable.keys() == bad
    assert streamed.unreadable[5] == "zero bytes"
    assert streamed.unreadable[11] == "not an image"
    assert streamed.unreadable[40] == "no such file"


def test_evaluation_keeps_the_place_of_what_it_cannot_read(files: list[str]) -> None:
    Path(files[5]).write_bytes(b"")
    feed = Feed(ImageFiles(files, 8), np.arange(48))
    ((rows, x),) = feed.plain_parts(np.arange(48))
    assert rows.tolist() == list(range(48))
    assert x[5].abs().sum() == 0
    assert torch.equal(x[6], some_bytes()[6].permute(2, 0, 1) / 255)
    assert feed.unreadable == {5: "zero bytes"}


def test_a_batch_of_which_nothing_can_be_read_is_empty(files: list[str]) -> None:
    for path in files:
        Path(path).write_bytes(b"")
    feed = Feed(ImageFiles(files, 8), np.arange(48), batch=24, augment="crop_flip")
    assert [(rows, x.shape) for rows, x in everything(feed, 0)] == [([], (0, 3, 8, 8))] * 2
    assert len(feed.unreadable) == 48
