"""Images that nobody could name: which of them, and what becomes of each. A kind is a public
function here. What happens to an image depends on (seed, row) only: it is done before augmentation,
once and for all, and is the same at every epoch, in every worker and process.

The three kinds of Zhang et al. 2017 as the SAT paper uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfadapt.errors import BadInput
from selfadapt.randomness import generator

Pixels = NDArray[np.uint8]
# "The same mean and deviation as the images": the authors' code takes the constants that CIFAR-10
# is normalised with, whose deviation is that of the images' means.
_MEAN = (0.4914, 0.4822, 0.4465)
_DEVIATIONS = {"normalisation": (0.2023, 0.1994, 0.2010), "pixels": (0.2470, 0.2435, 0.2616)}


@dataclass(frozen=True)
class ImageNoise:
    """chosen: whether a row's image is corrupted; change: (image [H, W, C], row) → image."""

    chosen: NDArray[np.bool_]
    change: Callable[[Pixels, int], Pixels]


def gaussian(
    samples: int,
    seed: int,
    *,
    rate: float = 0.4,
    deviation: Literal["normalisation", "pixels"] = "normalisation",
) -> ImageNoise:
    """Exactly int(rate·n) images become Gaussian noise with CIFAR-10's mean and deviation, a fixed
    one for each image.

    rate: the share of images.
    deviation: normalisation is what the authors' code takes (about 0.20), pixels the true one
      of CIFAR-10's pixels (about 0.25).
    """

    def change(image: Pixels, row: int) -> Pixels:
        channels = image.shape[2]
        mean = np.resize(np.array(_MEAN), channels)
        std = np.resize(np.array(_DEVIATIONS[deviation]), channels)
        drawn = generator("gaussian", seed, row).standard_normal(image.shape)
        return ((drawn * std + mean) * 255).clip(0, 255).astype(np.uint8)

    return ImageNoise(_chosen(samples, seed, rate), change)


def random_pixels(samples: int, seed: int, *, rate: float = 0.4) -> ImageNoise:
    """The pixels of exactly int(rate·n) images are shuffled, each image in an order of its own.

    rate: the share of images.
    """

    def change(image: Pixels, row: int) -> Pixels:
        return _reordered(image, generator("random_pixels", seed, row))

    return ImageNoise(_chosen(samples, seed, rate), change)


def shuffled_pixels(samples: int, seed: int, *, rate: float = 0.4) -> ImageNoise:
    """The pixels of exactly int(rate·n) images are shuffled, all of them in the same order.

    rate: the share of images.
    """

    def change(image: Pixels, row: int) -> Pixels:
        return _reordered(image, generator("shuffled_pixels", seed))

    return ImageNoise(_chosen(samples, seed, rate), change)


def _chosen(samples: int, seed: int, rate: float) -> NDArray[np.bool_]:
    if not 0 <= rate <= 1:
        raise BadInput(f"corruption.rate must lie in [0, 1], got {rate}")
    chosen = np.zeros(samples, bool)
    chosen[generator("images", seed).permutation(samples)[: int(rate * samples)]] = True
    return chosen


def _reordered(image: Pixels, random: np.random.Generator) -> Pixels:
    """Places change, the channels of a pixel stay together."""
    height, width, channels = image.shape
    order = random.permutation(height * width)
    return image.reshape(-1, channels)[order].reshape(height, width, channels)
