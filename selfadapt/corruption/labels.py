"""Label noise, each kind named exactly: labels in, labels out. A kind is a public function here.

The literature says "40 % noise" of very different things, so a name says who is chosen (exactly so
many, or each by a throw of the dice) and what they become (any class, or any other class)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from selfadapt.corruption import files
from selfadapt.errors import BadInput
from selfadapt.randomness import generator

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# truck → automobile, bird → airplane, cat ↔ dog, deer → horse (Patrini et al. 2017)
_CIFAR10_MAP = (0, 1, 0, 5, 7, 3, 6, 7, 8, 1)
_SPREAD = 0.1  # of the error rates of instance-dependent noise about their mean
_AT_ONCE = 1024


class _Inputs(Protocol):
    def __len__(self) -> int: ...

    def read(self, rows: IntArray) -> tuple[torch.Tensor, dict[int, str]]: ...


def none(labels: IntArray, num_classes: int, seed: int) -> IntArray:
    """Labels as they were given."""
    return labels.copy()


def uniform(labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4) -> IntArray:
    """Exactly int(rate·n) samples get a label drawn from ALL classes, so rate·(C-1)/C of all labels
    become wrong. What the SAT paper calls uniform noise; others leave the true class out.

    rate: the share of samples that are drawn anew.
    """
    random = generator("uniform", seed)
    chosen = random.permutation(len(labels))[: int(_share(rate) * len(labels))]
    noisy = labels.copy()
    noisy[chosen] = random.integers(0, num_classes, len(chosen))
    return noisy


def uniform_bernoulli(
    labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4
) -> IntArray:
    """Each sample by itself, with probability `rate`, gets a label drawn from ALL classes (Zhang et
    al. 2017): rate·(C-1)/C of all labels become wrong on average.

    rate: the probability that a sample is drawn anew.
    """
    random = generator("uniform_bernoulli", seed)
    chosen = random.random(len(labels)) < _share(rate)
    drawn = random.integers(0, num_classes, len(labels))
    return np.where(chosen, drawn, labels)


def uniform_other(labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4) -> IntArray:
    """Each sample by itself, with probability `rate`, gets a label of one of the OTHER classes
    (Patrini et al. 2017): `rate` of all labels become wrong on average.

    rate: the probability that a label becomes wrong.
    """
    random = generator("uniform_other", seed)
    chosen = random.random(len(labels)) < _share(rate)
    return np.where(chosen, _other(labels, num_classes, random), labels)


def uniform_other_balanced(
    labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4
) -> IntArray:
    """Exactly int(rate·n_c) samples of each class c get a label of one of the OTHER classes (Wang
    et al. 2019).

    rate: the share of each class that becomes wrong.
    """
    random = generator("uniform_other_balanced", seed)
    noisy, others = labels.copy(), _other(labels, num_classes, random)
    for label in range(num_classes):
        mine = random.permutation(np.flatnonzero(labels == label))
        chosen = mine[: int(_share(rate) * len(mine))]
        noisy[chosen] = others[chosen]
    return noisy


def asymmetric_cifar10(
    labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4
) -> IntArray:
    """With probability `rate`, truck becomes automobile, bird airplane, deer horse, and cat and dog
    each other (Patrini et al. 2017); five of ten classes, so rate/2 of all labels become wrong.

    rate: the probability that a label of those classes becomes wrong.
    """
    if num_classes != len(_CIFAR10_MAP):
        raise BadInput(
            f"corruption.name=asymmetric_cifar10 is a map of CIFAR-10's ten classes; this set has "
            f"{num_classes}. Take next_class, or matrix with a file of your own"
        )
    random = generator("asymmetric_cifar10", seed)
    chosen = random.random(len(labels)) < _share(rate)
    return np.where(chosen, np.array(_CIFAR10_MAP)[labels], labels)


def next_class(labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4) -> IntArray:
    """With probability `rate`, class c becomes class c+1, and the last one the first: the
    asymmetric noise of CIFAR-100 (there is no agreement on another map).

    rate: the probability that a label becomes wrong.
    """
    random = generator("next_class", seed)
    chosen = random.random(len(labels)) < _share(rate)
    return np.where(chosen, (labels + 1) % num_classes, labels)


def matrix(labels: IntArray, num_classes: int, seed: int, *, path: str) -> IntArray:
    """Each label c is drawn from row c of a matrix: T[c, k] is the probability that c becomes k.

    path: a .csv (no header) or .npy file with C rows of C numbers that sum to 1.
    """
    chances = files.read_matrix(Path(path), num_classes)
    return _draw(chances[labels], generator("matrix", seed))


def instance(
    labels: IntArray, num_classes: int, seed: int, inputs: _Inputs, *, rate: float = 0.4
) -> IntArray:
    """Noise that depends on the sample (Xia et al. 2020): sample i errs with a probability drawn
    from N(rate, 0.1²) within [0, 1], towards the classes that a random linear map of its class
    finds in its input. Of a sample that cannot be read the label stays.

    rate: the mean probability that a label becomes wrong.
    """
    errs = _truncated_normal(_share(rate), len(labels), generator("instance", seed))
    noisy, maps = labels.copy(), dict[int, FloatArray]()
    for start in range(0, len(labels), _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, len(labels)))
        x, failed = inputs.read(rows)
        vectors, chances = _spread(x), np.zeros((len(rows), num_classes))
        for label in np.unique(labels[rows]).tolist():
            if label not in maps:
                size = (vectors.shape[1], num_classes)
                maps[label] = generator("instance map", seed, label).standard_normal(size)
            mine = labels[rows] == label
            chances[mine] = _towards(vectors[mine] @ maps[label], label, errs[rows[mine]])
        drawn = _draw(chances, generator("instance draw", seed, start))
        readable = ~np.isin(rows, list(failed))
        noisy[rows[readable]] = drawn[readable]
    return noisy


def _spread(x: torch.Tensor) -> FloatArray:
    """Samples as vectors of deviation one, as after normalisation."""
    flat: FloatArray = x.reshape(len(x), -1).double().numpy()
    if x.ndim == 4:
        flat = flat - flat.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    spread: FloatArray = flat * np.sqrt(flat.shape[1]) / np.maximum(lengths, 1e-12)
    return spread


def _towards(scores: FloatArray, label: int, errs: FloatArray) -> FloatArray:
    """Probabilities of each class: 1 - err for the label, the rest shared out by the scores."""
    scores[:, label] = -np.inf
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: FloatArray = errs[:, None] * odds / odds.sum(axis=1, keepdims=True)
    chances[:, label] = 1 - errs
    return chances


def human(
    labels: IntArray, num_classes: int, seed: int, *, path: str, column: str = "worse_label"
) -> IntArray:
    """Labels that people gave, from a file in the order of the set, such as CIFAR-10N's. A Parquet
    or CSV set with several columns of labels needs none: name one in data.label.

    path: a .parquet, .csv or .npz file, or CIFAR-N's own .pt.
    column: which labels to take: worse_label, aggre_label, random_label1, …, noisy_label.
    """
    return files.read_column(Path(path), column, labels, num_classes)


def _share(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise BadInput(f"corruption.rate must lie in [0, 1], got {rate}")
    return rate


def _other(labels: IntArray, num_classes: int, random: np.random.Generator) -> IntArray:
    """For each label one of the other classes, each alike."""
    if num_classes < 2:
        raise BadInput("a label can only become another where there are two classes or more")
    return (labels + random.integers(1, num_classes, len(labels))) % num_classes


def _draw(chances: FloatArray, random: np.random.Generator) -> IntArray:
    """One class from each row of probabilities."""
    edges = chances.cumsum(axis=1)
    points = random.random((len(chances), 1)) * edges[:, -1:]
    drawn: IntArray = (points >= edges[:, :-1]).sum(axis=1).astype(np.int64)
    return drawn


def _truncated_normal(mean: float, count: int, random: np.random.Generator) -> FloatArray:
    """Draws from N(mean, 0.1²), those outside [0, 1] drawn again."""
    drawn: FloatArray = random.normal(mean, _SPREAD, count)
    while (outside := (drawn < 0) | (drawn > 1)).any():
        drawn[outside] = random.normal(mean, _SPREAD, int(outside.sum()))
    return drawn
