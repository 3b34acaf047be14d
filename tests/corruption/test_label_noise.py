"""Label noise: the exact count, the realised rate, and nothing but the seed."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt import corruption
from selfadapt.corruption import labels
from selfadapt.data import InMemory
from selfadapt.errors import BadInput, UnknownName


def clean(n: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, n)


def selected(n: int, seed: int, rate: float, classes: int = 10) -> np.ndarray:
    """Which samples get a new label: -1 is none of the classes, so whatever is drawn shows."""
    return labels.uniform(np.full(n, -1), classes, seed, rate=rate) >= 0


def test_40_percent_of_50000_is_20000_exactly() -> None:
    assert selected(50_000, 1, 0.4).sum() == 20_000


def test_the_realised_error_rate_is_36_percent() -> None:
    y = clean(50_000, 10)
    wrong = (labels.uniform(y, 10, 1, rate=0.4) != y).mean()
    assert wrong == pytest.approx(0.36, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.2, 0.8, 1.0])
def test_new_labels_are_uniform_over_all_classes(rate: float, seed: int) -> None:
    noisy = labels.uniform(np.full(50_000, -1), 10, seed, rate=rate)
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
    noisy = labels.uniform(y, classes, seed, rate=rate)
    assert (y == given_labels).all()
    assert noisy is not y
    assert noisy.dtype == y.dtype
    chosen = selected(n, seed, rate, classes)
    assert chosen.sum() == int(rate * n)
    assert (noisy[~chosen] == y[~chosen]).all()
    assert noisy.min() >= 0
    assert noisy.max() < classes
    assert (labels.uniform(y, classes, seed, rate=rate) == noisy).all()


def test_seeds_differ_and_labels_do_not_matter() -> None:
    assert (selected(1000, 1, 0.4) != selected(1000, 2, 0.4)).any()
    one, other = np.full(1000, -1), np.full(1000, -2)
    a = labels.uniform(one, 10, 7, rate=0.4)
    b = labels.uniform(other, 10, 7, rate=0.4)
    assert (a[a >= 0] == b[b >= 0]).all()
    assert ((a >= 0) == (b >= 0)).all()


def test_the_global_state_of_numpy_does_not_matter() -> None:
    np.random.seed(1)  # noqa: NPY002
    first = labels.uniform(clean(100, 5), 5, 0)
    np.random.seed(2)  # noqa: NPY002
    assert (labels.uniform(clean(100, 5), 5, 0) == first).all()


def test_a_larger_rate_keeps_the_samples_of_a_smaller_one() -> None:
    assert not (selected(1000, 4, 0.2) & ~selected(1000, 4, 0.6)).any()


def test_no_noise() -> None:
    y = clean(100, 4)
    for same in (labels.none(y, 4, 1), labels.uniform(y, 4, 1, rate=0.0)):
        assert same is not y
        assert (same == y).all()


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rates_outside(rate: float) -> None:
    with pytest.raises(BadInput, match=r"corruption\.rate must lie in \[0, 1\]"):
        labels.uniform(clean(10, 3), 3, 0, rate=rate)


def test_the_noise_of_a_seed_never_changes() -> None:
    noisy = labels.uniform(np.arange(20) % 5, 5, 1, rate=0.4)
    assert noisy.tolist() == [0, 2, 1, 3, 3, 0, 1, 2, 3, 4, 0, 2, 3, 1, 1, 2, 1, 2, 3, 4]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1, 1000), min_size=1, max_size=50))
def test_the_fingerprint_is_a_sha256_of_little_endian_words(values: list[int]) -> None:
    words = struct.pack(f"<{len(values)}q", *values)
    expected = hashlib.sha256(words).hexdigest()
    for kind in (np.int64, np.int32, ">i8"):
        assert corruption.fingerprint(np.array(values, kind)) == expected
    assert corruption.fingerprint(np.array(values)[::-1][::-1]) == expected


def test_the_fingerprint_tells_label_vectors_apart() -> None:
    y = clean(100, 4)
    noisy = labels.uniform(y, 4, 1, rate=0.1)
    assert corruption.fingerprint(y) != corruption.fingerprint(noisy)
    assert corruption.fingerprint(y) != corruption.fingerprint(y[:-1])


KINDS = ("uniform_bernoulli", "uniform_other", "uniform_other_balanced", "next_class")


@pytest.mark.parametrize("name", [*KINDS, "uniform"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.8])
def test_realised_error_rates(name: str, rate: float) -> None:
    """rate·(C-1)/C where the true class may be drawn again, rate where it may not; 5 sigma."""
    y = clean(50_000, 10)
    noisy = getattr(labels, name)(y, 10, 1, rate=rate)
    expected = (
        rate if name in ("uniform_other", "uniform_other_balanced", "next_class") else 0.9 * rate
    )
    assert (noisy != y).mean() == pytest.approx(expected, abs=5 * np.sqrt(0.25 / 50_000))
    assert noisy.min() >= 0
    assert noisy.max() <= 9


@pytest.mark.parametrize(
    ("name", "classes"), [("uniform_bernoulli", 10), ("uniform_other_balanced", 9)]
)
def test_what_is_drawn_is_uniform(name: str, classes: int) -> None:
    """How far a new label lies from the old one: over all classes, or over the others."""
    y = clean(50_000, 10)
    counts = np.bincount((getattr(labels, name)(y, 10, 1, rate=1.0) - y) % 10, minlength=10)
    drawn = counts[10 - classes :]
    assert counts.sum() == drawn.sum() == 50_000
    five_sigma = 5 * np.sqrt(50_000 / classes * (1 - 1 / classes))
    assert np.abs(drawn - 50_000 / classes).max() < five_sigma


@pytest.mark.parametrize("name", KINDS)
def test_other_kinds_depend_on_the_seed_only(name: str) -> None:
    y = clean(500, 7)
    kind = getattr(labels, name)
    assert (kind(y, 7, 3) == kind(y.copy(), 7, 3)).all()
    assert (kind(y, 7, 3) != kind(y, 7, 4)).any()
    assert (y == clean(500, 7)).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.floats(0, 1), st.integers(0, 10**6))
def test_class_balanced_noise_takes_its_share_of_each_class(
    classes: int, rate: float, seed: int
) -> None:
    y = clean(200, classes, seed)
    noisy = labels.uniform_other_balanced(y, classes, seed, rate=rate)
    for label in range(classes):
        mine = y == label
        assert (noisy[mine] != label).sum() == int(rate * mine.sum())


def test_wrong_labels_of_the_other_classes_are_uniform() -> None:
    noisy = labels.uniform_other(np.full(60_000, 4), 7, 1, rate=1.0)
    counts = np.bincount(noisy, minlength=7)
    assert counts[4] == 0
    assert np.abs(np.delete(counts, 4) - 10_000).max() < 5 * np.sqrt(60_000 / 6 * 5 / 6)


def test_the_map_of_cifar10() -> None:
    """9→1, 2→0, 3↔5, 4→7; the rest stay: half of `rate` becomes wrong."""
    y = clean(50_000, 10)
    noisy = labels.asymmetric_cifar10(y, 10, 1, rate=0.4)
    pairs = {(int(a), int(b)) for a, b in zip(y, noisy, strict=True) if a != b}
    assert pairs == {(9, 1), (2, 0), (3, 5), (5, 3), (4, 7)}
    assert (noisy != y).mean() == pytest.approx(0.2, abs=0.01)
    with pytest.raises(BadInput, match="ten classes; this set has 7"):
        labels.asymmetric_cifar10(clean(10, 7), 7, 1)


def test_next_class_wraps_round() -> None:
    assert labels.next_class(np.arange(5), 5, 1, rate=1.0).tolist() == [1, 2, 3, 4, 0]


def test_a_matrix_from_a_file(tmp_path: Path) -> None:
    chances = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])
    np.savetxt(tmp_path / "it's a matrix.csv", chances, delimiter=",")
    np.save(tmp_path / "m.npy", chances)
    y = clean(60_000, 3)
    noisy = labels.matrix(y, 3, 1, path=str(tmp_path / "it's a matrix.csv"))
    assert (noisy == labels.matrix(y, 3, 1, path=str(tmp_path / "m.npy"))).all()
    for label in range(3):
        found = np.bincount(noisy[y == label], minlength=3) / (y == label).sum()
        assert found == pytest.approx(chances[label], abs=0.02)
    assert (noisy[y == 1] == 1).all()
    assert not (noisy[y == 0] == 2).any(), "what has no probability does not happen"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("1,0\n0,1\n", "matrix of 2 × 2, but there are 3 classes"),
        ("1,0,0\n0,1,0\n0.5,0.4,0\n", "row 2 is"),
        ("1,0,0\n0,1,0\n1.5,-0.5,0\n", "sum to 1"),
        ("nan,0,0\n0,1,0\n0,0,1\n", "row 0 is"),
        ("a,b,c\n", "not a matrix of numbers"),
        ("", "not a matrix|matrix of"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_what_is_no_matrix(content: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(content)
    with pytest.raises(BadInput, match=match):
        labels.matrix(clean(10, 3), 3, 0, path=str(path))
    with pytest.raises(BadInput, match="there is no file"):
        labels.matrix(clean(10, 3), 3, 0, path=str(tmp_path / "gone.csv"))


def test_noise_that_depends_on_the_sample() -> None:
    random = np.random.default_rng(0)
    pixels = torch.from_numpy(random.integers(0, 255, (3000, 8, 8, 3), dtype=np.uint8))
    y = clean(3000, 5)
    noisy = labels.instance(y, 5, 1, InMemory(pixels), rate=0.4)
    assert (noisy != y).mean() == pytest.approx(0.4, abs=0.05)
    assert (noisy == labels.instance(y, 5, 1, InMemory(pixels), rate=0.4)).all()
    # the same picture errs the same way: what it becomes depends on it, not on a throw of dice
    alike = InMemory(pixels[:1].expand(3000, -1, -1, -1))
    wrong = labels.instance(np.zeros(3000, np.int64), 5, 1, alike, rate=0.4)
    counts = np.bincount(wrong[wrong > 0], minlength=5)
    assert counts.max() / counts.sum() > 0.9


@pytest.mark.parametrize("ending", ["parquet", "csv", "npz", "pt"])
def test_labels_that_people_gave(ending: str, tmp_path: Path) -> None:
    y = clean(50, 10)
    worse = (y + 1) % 10
    columns = {"clean_label": y, "worse_label": worse}
    path = tmp_path / f"CIFAR-10_human.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table(columns), path)
    elif ending == "csv":
        pa_csv.write_csv(pa.table(columns), path)
    elif ending == "npz":
        np.savez(path, **columns)
    else:
        torch.save(columns, path)
    assert (labels.human(y, 10, 0, path=str(path)) == worse).all()
    assert (labels.human(y[:20], 10, 0, path=str(path)) == worse[:20]).all()
    with pytest.raises(UnknownName, match="Did you mean 'worse_label'"):
        labels.human(y, 10, 0, path=str(path), column="worst_label")
    with pytest.raises(BadInput, match="another set or in another order"):
        labels.human(y[::-1].copy(), 10, 0, path=str(path))
    with pytest.raises(BadInput, match="has 50 labels, the set has 60 samples"):
        labels.human(clean(60, 10), 10, 0, path=str(path))


def test_a_pickle_that_does_something_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self):
            return (print, ("boo",))

    torch.save({"worse_label": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(BadInput, match="cannot be read"):
        labels.human(clean(5, 10), 10, 0, path=str(tmp_path / "evil.pt"))
