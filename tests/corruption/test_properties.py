"""Of every kind of noise: it keeps its rate, touches nothing else, and depends on nothing but the
labels and the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Starter

from selfadapt import corruption, signatures
from selfadapt.corruption import images, labels
from selfadapt.data import InMemory
from selfadapt.data.corrupted import Corrupted
from selfadapt.errors import BadInput

CLASSES = 10
seeds, rates, sizes = st.integers(0, 2**40), st.floats(0, 1), st.integers(1, 400)
some = settings(max_examples=40, deadline=None)


def everywhere(rate: float, y: np.ndarray) -> float:
    return rate * (CLASSES - 1) / CLASSES


def elsewhere(rate: float, y: np.ndarray) -> float:
    return rate


def by_the_map(rate: float, y: np.ndarray) -> float:
    return rate * float(np.isin(y, (2, 3, 4, 5, 9)).mean())


# the share of labels that become wrong, and the classes that a class may become
ANY = {c: set(range(CLASSES)) for c in range(CLASSES)}
OTHERS = {c: ANY[c] - {c} for c in ANY}
CIFAR10 = {2: {0}, 3: {5}, 4: {7}, 5: {3}, 9: {1}}
KINDS: dict[str, tuple[Callable[[float, np.ndarray], float], dict[int, set[int]]]] = {
    "uniform": (everywhere, ANY),
    "uniform_bernoulli": (everywhere, ANY),
    "uniform_other": (elsewhere, OTHERS),
    "uniform_other_balanced": (elsewhere, OTHERS),
    "asymmetric_cifar10": (by_the_map, CIFAR10),
    "next_class": (elsewhere, {c: {(c + 1) % CLASSES} for c in ANY}),
}
every_kind = pytest.mark.parametrize("name", KINDS)


def clean(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed % 1000).integers(0, CLASSES, n)


def noisy(name: str, y: np.ndarray, seed: int, rate: float) -> np.ndarray:
    found: np.ndarray = getattr(labels, name)(y, CLASSES, seed, rate=rate)
    return found


def test_no_kind_is_left_out() -> None:
    with_a_rate = {
        name
        for name in corruption.names()
        if "rate" in signatures.settings_of(corruption.resolve(name))
    }
    assert with_a_rate == {*KINDS, "instance", "gaussian", "random_pixels", "shuffled_pixels"}


@every_kind
@some
@given(sizes, rates, seeds)
def test_labels_change_as_the_kind_says_and_nothing_else_does(
    name: str, n: int, rate: float, seed: int
) -> None:
    y = clean(n, seed)
    before = y.copy()
    found = noisy(name, y, seed, rate)
    assert (y == before).all()
    assert found.dtype == y.dtype
    assert found.shape == y.shape
    assert (found == noisy(name, y.copy(), seed, rate)).all()
    pairs = {(int(a), int(b)) for a, b in zip(y, found, strict=True) if a != b}
    assert all(there in KINDS[name][1][here] for here, there in pairs)


@every_kind
@some
@given(rates, seeds)
def test_the_rate_is_kept(name: str, rate: float, seed: int) -> None:
    """Within six deviations of independent throws, which exact counts only narrow; and one label
    a class for rounding down."""
    y = clean(2000, seed)
    expected = KINDS[name][0](rate, y)
    spread = 6 * np.sqrt(expected * (1 - expected) / 2000) + CLASSES / 2000
    assert (noisy(name, y, seed, rate) != y).mean() == pytest.approx(expected, abs=spread)


@every_kind
@some
@given(seeds)
def test_the_ends_of_the_scale(name: str, seed: int) -> None:
    y = clean(300, seed)
    assert (noisy(name, y, seed, 0.0) == y).all()
    all_of_them = noisy(name, y, seed, 1.0) != y
    if KINDS[name][0] is elsewhere:
        assert all_of_them.all()
    if KINDS[name][0] is by_the_map:
        assert (all_of_them == np.isin(y, list(CIFAR10))).all()


@pytest.mark.parametrize("name", [name for name in KINDS if name != "uniform_other_balanced"])
@some
@given(st.integers(0, 199), seeds)
def test_what_becomes_of_a_sample_has_nothing_to_do_with_the_others(
    name: str, place: int, seed: int
) -> None:
    """Which are drawn anew, and as what, is decided without a look at their labels."""
    y = clean(200, seed)
    other = y.copy()
    other[place] = (other[place] + 1) % CLASSES
    same = np.arange(200) != place
    one, two = noisy(name, y, seed, 0.5), noisy(name, other, seed, 0.5)
    assert (one[same] == two[same]).all()


@pytest.mark.parametrize("name", ["uniform_other", "uniform_other_balanced"])
def test_a_single_class_has_no_others(name: str) -> None:
    with pytest.raises(BadInput, match="two classes or more"):
        getattr(labels, name)(np.zeros(5, np.int64), 1, 0)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.3, 0.7), seeds)
def test_noise_that_depends_on_the_sample_keeps_its_rate_too(rate: float, seed: int) -> None:
    """Away from 0 and 1 the mean of the truncated normal distribution is `rate`."""
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(2000, 6)).astype(np.float32))
    y = clean(2000, seed)
    before = y.copy()
    found = labels.instance(y, CLASSES, seed, InMemory(x), rate=rate)
    assert (y == before).all()
    assert found.min() >= 0
    assert found.max() < CLASSES
    spread = 6 * np.sqrt(rate * (1 - rate) / 2000)
    assert (found != y).mean() == pytest.approx(rate, abs=spread)


IMAGES = ("gaussian", "random_pixels", "shuffled_pixels")


@pytest.mark.parametrize("name", IMAGES)
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), rates, seeds, st.integers(1, 3), st.sampled_from([1, 3]))
def test_images_change_in_exact_number_and_the_rest_not_at_all(
    name: str, n: int, rate: float, seed: int, side: int, channels: int
) -> None:
    random = np.random.default_rng(seed)
    size = (n, side + 1, side + 2, channels)
    before = torch.from_numpy(random.integers(0, 256, size, dtype=np.uint8))
    kept = before.clone()
    noise = getattr(images, name)(n, seed, rate=rate)
    assert noise.chosen.sum() == int(rate * n)
    inputs = Corrupted(InMemory(before), noise)
    after = inputs.read(np.arange(n))[0]
    assert torch.equal(before, kept)
    untouched = torch.from_numpy(~noise.chosen)
    assert torch.equal(after[untouched], before[untouched])
    for row in range(n):
        assert torch.equal(inputs.read(np.array([row]))[0][0], after[row]), "alone or in company"
        if name != "gaussian":
            pixels = [image[row].reshape(-1, channels).tolist() for image in (before, after)]
            assert sorted(pixels[0]) == sorted(pixels[1])


def digest_of_all() -> str:
    """Of one small set under every kind of noise."""
    y = clean(50, 1)
    pixels = torch.arange(50 * 48).reshape(50, 4, 4, 3).remainder(256).to(torch.uint8)
    found: list[Any] = [noisy(name, y, 7, 0.5) for name in KINDS]
    found.append(labels.instance(y, CLASSES, 7, InMemory(pixels), rate=0.5))
    for name in IMAGES:
        noise = getattr(images, name)(50, 7, rate=0.5)
        found.append(Corrupted(InMemory(pixels), noise).read(np.arange(50))[0].numpy())
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in found)).hexdigest()


def test_every_process_sees_the_same_noise(processes: Starter) -> None:
    others = [processes.start(digest_of_all) for _ in range(2)]
    assert [other.returned() for other in others] == [digest_of_all()] * 2
