"""Randomness as a pure function of (seed, what for, epoch, row), so that it cannot depend on how
many workers or processes there are, nor on the moment of a crash."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def key(*parts: int | str) -> int:
    """A 63-bit seed from any mix of words and numbers, the same on every machine."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(*parts: int | str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(key(*parts)))


def per_row(rows: NDArray[np.int64], count: int, *parts: int | str) -> NDArray[np.float64]:
    """`count` uniform numbers in [0, 1) for each row: [len(rows), count]. A row gets the same
    numbers whatever rows stand beside it (splitmix64 of the key, the row and the column)."""
    base = np.uint64(key(*parts))
    columns = np.arange(1, count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = base + _GOLDEN * (rows.astype(np.uint64)[:, None] * np.uint64(count) + columns)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
