"""Choosing rows class by class, in a way that depends on the labels alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfadapt import randomness
from selfadapt.data.labelled import Rows

Labels = NDArray[np.int64]


def hold_out(labels: Labels, share: float, purpose: str = "test") -> tuple[Rows, Rows]:
    """(rows that stay, rows held out), both in order. Each class keeps at least one sample."""
    room = np.bincount(labels) - 1
    return _chosen(labels, round(share * len(labels)), room.clip(0), purpose)


def sample(labels: Labels, count: int) -> Rows:
    """`count` rows in the proportions of the classes, in order."""
    return _chosen(labels, count, np.bincount(labels), "limit")[1]


def _chosen(labels: Labels, count: int, room: Labels, purpose: str) -> tuple[Rows, Rows]:
    chosen = np.zeros(len(labels), bool)
    sizes = np.bincount(labels)
    by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    quotas = _quotas(sizes, count, room)
    for label, (members, take) in enumerate(zip(by_class, quotas, strict=True)):
        order = randomness.generator("data", purpose, label).permutation(len(members))
        chosen[members[order[:take]]] = True
    return np.flatnonzero(~chosen).astype(np.int64), np.flatnonzero(chosen).astype(np.int64)


def _quotas(sizes: Labels, count: int, room: Labels) -> Labels:
    """`count` shared out in proportion to the sizes (largest remainders first), none above its
    room."""
    count = min(count, int(room.sum()))
    exact = sizes * (count / max(1, sizes.sum()))
    quotas: Labels = np.minimum(np.floor(exact).astype(np.int64), room)
    while (missing := count - int(quotas.sum())) > 0:
        behind = np.where(quotas < room, exact - quotas, -np.inf)
        first = np.argsort(-behind, kind="stable")[:missing]
        quotas[first[quotas[first] < room[first]]] += 1
    return quotas
