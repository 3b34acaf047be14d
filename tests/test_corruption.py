"""Label noise: the exact count, the realised rate, and nothing but the seed."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt import corruption
from selfadapt.errors import BadInput, UnknownName


def clean(n: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, n)


def selected(n: int, seed: int, rate: float, classes: int = 10) -> np.ndarray:
    """Which samples get a new label: -1 is none of the classes, so whatever is drawn shows."""
    return corruption.uniform(np.full(n, -1), classes, seed, rate=rate) >= 0


def test_40_percent_of_50000_is_20000_exactly() -> None:
    assert selected(50_000, 1, 0.4).sum() == 20_000


def test_the_realised_error_rate_is_36_percent() -> None:
    y = clean(50_000, 10)
    wrong = (corruption.uniform(y, 10, 1, rate=0.4) != y).mean()
    assert wrong == pytest.approx(0.36, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.2, 0.8, 1.0])
def test_new_labels_are_uniform_over_all_classes(rate: float, seed: int) -> None:
    noisy = corruption.uniform(np.full(50_000, -1), 10, seed, rate=rate)
    drawn = noisy[noisy >= 0]
    counts = np.bincount(drawn, minlength=10)
    assert len(counts) == 10
    five_sigma = 5 * np.sqrt(len(drawn) * 0.1 * 0.9)
    assert np.abs(counts - len(drawn) / 10).max() < five_sigma


def test_which_samples_are_chosen_has_nothing_to_do_with_their_place() -> None:
    places = np.flatnonzero(selected(50_000, 3, 0.4))
    counts = np.histogram(places, bins=10, range=(0, 50_000))[0]
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(2000 * 0.6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(2, 12), st.floats(0, 1), st.integers(0, 2**40))
def test_it_keeps_its_count_and_touches_nothing_else(
    n: int, classes: int, rate: float, seed: int
) -> None:
    y = clean(n, classes, 5)
    given_labels = y.copy()
    noisy = corruption.uniform(y, classes, seed, rate=rate)
    assert (y == given_labels).all()
    assert noisy is not y
    assert noisy.dtype == y.dtype
    chosen = selected(n, seed, rate, classes)
    assert chosen.sum() == int(rate * n)
    assert (noisy[~chosen] == y[~chosen]).all()
    assert noisy.min() >= 0
    assert noisy.max() < classes
    assert (corruption.uniform(y, classes, seed, rate=rate) == noisy).all()


def test_seeds_differ_and_labels_do_not_matter() -> None:
    assert (selected(1000, 1, 0.4) != selected(1000, 2, 0.4)).any()
    one, other = np.full(1000, -1), np.full(1000, -2)
    a = corruption.uniform(one, 10, 7, rate=0.4)
    b = corruption.uniform(other, 10, 7, rate=0.4)
    assert (a[a >= 0] == b[b >= 0]).all()
    assert ((a >= 0) == (b >= 0)).all()


def test_the_global_state_of_numpy_does_not_matter() -> None:
    np.random.seed(1)  # noqa: NPY002
    first = corruption.uniform(clean(100, 5), 5, 0)
    np.random.seed(2)  # noqa: NPY002
    assert (corruption.uniform(clean(100, 5), 5, 0) == first).all()


def test_a_larger_rate_keeps_the_samples_of_a_smaller_one() -> None:
    assert not (selected(1000, 4, 0.2) & ~selected(1000, 4, 0.6)).any()


def test_no_noise() -> None:
    y = clean(100, 4)
    for same in (corruption.none(y, 4, 1), corruption.uniform(y, 4, 1, rate=0.0)):
        assert same is not y
        assert (same == y).all()


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rates_outside(rate: float) -> None:
    with pytest.raises(BadInput, match=r"corruption\.rate must lie in \[0, 1\]"):
        corruption.uniform(clean(10, 3), 3, 0, rate=rate)


def test_the_noise_of_a_seed_never_changes() -> None:
    noisy = corruption.uniform(np.arange(20) % 5, 5, 1, rate=0.4)
    assert noisy.tolist() == [0, 2, 1, 3, 3, 0, 1, 2, 3, 4, 0, 2, 3, 1, 1, 2, 1, 2, 3, 4]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1, 1000), min_size=1, max_size=50))
def test_the_fingerprint_is_a_sha256_of_little_endian_words(labels: list[int]) -> None:
    words = struct.pack(f"<{len(labels)}q", *labels)
    expected = hashlib.sha256(words).hexdigest()
    for kind in (np.int64, np.int32, ">i8"):
        assert corruption.fingerprint(np.array(labels, kind)) == expected
    assert corruption.fingerprint(np.array(labels)[::-1][::-1]) == expected


def test_the_fingerprint_tells_label_vectors_apart() -> None:
    y = clean(100, 4)
    noisy = corruption.uniform(y, 4, 1, rate=0.1)
    assert corruption.fingerprint(y) != corruption.fingerprint(noisy)
    assert corruption.fingerprint(y) != corruption.fingerprint(y[:-1])


def test_kinds_are_found_by_name() -> None:
    assert {"none", "uniform"} <= set(corruption.names())
    assert all(corruption.names().values()), "every kind has a card"
    assert not {"resolve", "names", "fingerprint", "generator"} & set(corruption.names())
    y = clean(20, 3)
    for name in corruption.names():
        assert len(corruption.resolve(name)(y, 3, 0)) == 20
    with pytest.raises(UnknownName, match="Did you mean 'uniform'"):
        corruption.resolve("unifrom")
    with pytest.raises(UnknownName):
        corruption.resolve("fingerprint")
