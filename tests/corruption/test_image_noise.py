"""Images that nobody could name: METHODS.md 13."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from selfadapt.corruption import images
from selfadapt.data import InMemory, LabelledData
from selfadapt.data.corrupted import Corrupted, with_image_noise
from selfadapt.data.feed import Feed
from selfadapt.errors import BadInput

KINDS = ("gaussian", "random_pixels", "shuffled_pixels")
every_kind = pytest.mark.parametrize("name", KINDS)


def pixels(n: int = 40, size: int = 8) -> torch.Tensor:
    random = np.random.default_rng(0)
    return torch.from_numpy(random.integers(0, 256, (n, size, size, 3), dtype=np.uint8))


def labelled(values: torch.Tensor) -> LabelledData:
    n = len(values)
    return LabelledData(
        "pixels", InMemory(values), np.arange(n) % 3, ("a", "b", "c"), [str(i) for i in range(n)]
    )


def corrupted(name: str, values: torch.Tensor, rate: float = 0.5, seed: int = 1) -> torch.Tensor:
    noise = getattr(images, name)(len(values), seed, rate=rate)
    return Corrupted(InMemory(values), noise).read(np.arange(len(values)))[0]


def colours(image: torch.Tensor) -> list[list[int]]:
    """The pixels of an image, sorted: what shuffling must keep."""
    return sorted(image.reshape(-1, 3).tolist())


@every_kind
def test_exactly_so_many_change_and_the_others_do_not(name: str) -> None:
    before = pixels(50)
    noise = getattr(images, name)(50, 1, rate=0.41)
    assert noise.chosen.sum() == 20
    after = corrupted(name, before, rate=0.41)
    changed = (before != after).flatten(1).any(dim=1).numpy()
    assert (changed == noise.chosen).all()
    assert torch.equal(corrupted(name, before, rate=0.0), before)
    assert torch.equal(before, pixels(50)), "the clean images stay as they are"


@pytest.mark.parametrize("name", ["random_pixels", "shuffled_pixels"])
def test_shuffling_keeps_each_pixel_whole(name: str) -> None:
    before = pixels()
    after = corrupted(name, before, rate=1.0)
    for one, other in zip(before, after, strict=True):
        assert colours(one) == colours(other)


def test_shuffled_pixels_share_one_order_and_random_pixels_do_not() -> None:
    numbered = torch.arange(64, dtype=torch.uint8).reshape(1, 8, 8, 1).expand(10, -1, -1, 3)
    shuffled = corrupted("shuffled_pixels", numbered.clone(), rate=1.0)
    assert all(torch.equal(shuffled[0], other) for other in shuffled)
    random = corrupted("random_pixels", numbered.clone(), rate=1.0)
    assert len({tuple(image[..., 0].flatten().tolist()) for image in random}) == 10


MEAN = (0.4914, 0.4822, 0.4465)
DEVIATIONS = {"normalisation": (0.2023, 0.1994, 0.2010), "pixels": (0.2470, 0.2435, 0.2616)}


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_gaussian_images_have_the_mean_and_deviation_asked_for(deviation: str) -> None:
    noise = images.gaussian(100, 1, rate=1.0, deviation=deviation)
    made = Corrupted(InMemory(pixels(100, 32)), noise).read(np.arange(100))[0].double() / 255
    drawn = np.random.default_rng(0).normal(size=(400_000, 3)) * DEVIATIONS[deviation] + MEAN
    expected = np.floor(np.clip(drawn, 0, 1) * 255) / 255
    values = made.reshape(-1, 3).numpy()
    np.testing.assert_allclose(values.mean(axis=0), expected.mean(axis=0), atol=0.003)
    np.testing.assert_allclose(values.std(axis=0), expected.std(axis=0), atol=0.002)
    for end in (0, 1):  # as many are cut off as lie outside
        share, wanted = (values == end).mean(axis=0), (expected == end).mean(axis=0)
        np.testing.assert_allclose(share, wanted, atol=0.002)


@every_kind
def test_an_image_is_the_same_whoever_reads_it_and_when(name: str) -> None:
    inputs = Corrupted(InMemory(pixels()), getattr(images, name)(40, 3, rate=0.5))
    everything = inputs.read(np.arange(40))[0]
    rows = np.array([7, 31, 7, 2])
    assert torch.equal(inputs.read(rows)[0], everything[torch.from_numpy(rows)])
    streamed = Feed(inputs, np.arange(40), batch=10, workers=2, augment="crop_flip", seed=1)
    memory = with_image_noise(labelled(pixels()), inputs.noise, name)
    assert isinstance(memory.inputs, InMemory)
    at_once = Feed(memory.inputs, np.arange(40), batch=10, augment="crop_flip", seed=1)
    for epoch in (0, 1):
        parts = streamed.batches(epoch)
        pairs = zip(streamed.augmented(parts, epoch), at_once.augmented(parts, epoch), strict=True)
        for (rows_a, (x_a,)), (rows_b, (x_b,)) in pairs:
            assert (rows_a == rows_b).all()
            assert torch.equal(x_a, x_b)


@every_kind
def test_seeds_differ(name: str) -> None:
    before = pixels()
    assert not torch.equal(corrupted(name, before, seed=1), corrupted(name, before, seed=2))


def test_only_pictures_of_8_bits_can_be_corrupted() -> None:
    noise = images.gaussian(30, 1)
    for values in (torch.rand(30, 5), torch.rand(30, 3, 8, 8)):
        with pytest.raises(BadInput, match=r"corruption\.name=gaussian changes images of 8 bits"):
            with_image_noise(labelled(values), noise, "gaussian")


@every_kind
def test_rates_outside(name: str) -> None:
    with pytest.raises(BadInput, match=r"corruption\.rate must lie in \[0, 1\]"):
        getattr(images, name)(10, 0, rate=1.5)
