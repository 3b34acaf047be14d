"""Randomness by (seed, purpose, epoch, row): the same whatever stands beside."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt.randomness import generator, key, per_row

PARTS = ("augment", 1, 0)
_64 = (1 << 64) - 1


def splitmix64(state: int) -> int:
    z = state & _64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64
    return z ^ (z >> 31)


def slow_number(row: int, column: int, count: int, *parts: int | str) -> float:
    text = "\x1f".join(map(str, parts)).encode()
    base = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") // 2
    state = base + 0x9E3779B97F4A7C15 * (row * count + column + 1)
    return (splitmix64(state) >> 11) / 2**53


def test_three_values_that_never_change() -> None:
    numbers = per_row(np.array([0, 1, 1_000_000]), 1, *PARTS)[:, 0]
    assert numbers.tolist() == [0.36809508726466844, 0.6678490059236917, 0.6058873027443611]


def test_keys_that_never_change() -> None:
    assert key("order", 1, 0) == 798576947484395671
    assert generator("order", 1, 0).integers(0, 1000, 3).tolist() == [823, 23, 885]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=10),
    st.integers(1, 4),
    st.integers(0, 10**6),
)
def test_each_number_is_splitmix64_of_its_row_and_column(
    rows: list[int], count: int, seed: int
) -> None:
    numbers = per_row(np.array(rows), count, "x", seed)
    assert numbers.shape == (len(rows), count)
    for i, row in enumerate(rows):
        for column in range(count):
            assert numbers[i, column] == slow_number(row, column, count, "x", seed)


@settings(max_examples=30, deadline=None)
@given(st.permutations(list(range(20))), st.integers(1, 20), st.integers(1, 3))
def test_a_rows_numbers_do_not_depend_on_its_neighbours(
    order: list[int], size: int, count: int
) -> None:
    everything = per_row(np.arange(20), count, *PARTS)
    some = np.array(order[:size])
    assert (per_row(some, count, *PARTS) == everything[some]).all()


def test_numbers_are_uniform_and_independent() -> None:
    numbers = per_row(np.arange(20_000), 3, *PARTS)
    assert (numbers >= 0).all()
    assert (numbers < 1).all()
    for column in numbers.T:
        counts = np.histogram(column, bins=20, range=(0, 1))[0]
        assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    neighbours = np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]
    between = np.abs(np.corrcoef(numbers.T) - np.eye(3)).max()
    assert max(abs(neighbours), between) < 5 / np.sqrt(20_000)


def test_epochs_and_seeds_have_nothing_in_common() -> None:
    rows = np.arange(5000)
    base = per_row(rows, 1, "augment", 1, 0)[:, 0]
    for parts in (("augment", 1, 1), ("augment", 2, 0), ("other", 1, 0)):
        other = per_row(rows, 1, *parts)[:, 0]
        assert (base != other).all()
        assert abs(np.corrcoef(base, other)[0, 1]) < 5 / np.sqrt(5000)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.integers(), st.text(max_size=5)), max_size=4))
def test_keys_fit_a_seed(parts: list[int | str]) -> None:
    assert 0 <= key(*parts) < 2**63
    assert key(*parts) == key(*parts)


def test_parts_do_not_run_together() -> None:
    assert key("a", 1, 12) != key("a", 11, 2)
    assert key("ab", "c") != key("a", "bc")


@pytest.mark.parametrize("parts", [("order", 1, 0), ("order", 1, 1), ("order", 2, 0)])
def test_generators_repeat(parts: tuple[str | int, ...]) -> None:
    assert (generator(*parts).random(5) == generator(*parts).random(5)).all()
