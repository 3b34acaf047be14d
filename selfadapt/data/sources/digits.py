"""1,797 handwritten digits of 8×8 pixels, which come with scikit-learn: nothing to fetch.

A fifth of each class, always the same, is the test part.
"""

from __future__ import annotations

import numpy as np

from selfadapt.data import split
from selfadapt.data.part import Found, Part, Wanted, row_ids
from selfadapt.data.sources import Size

SIZE = Size(1_438, 359, (1, 8, 8), 10, comes_along=True)


def read(wanted: Wanted) -> Found:
    from sklearn.datasets import load_digits

    digits = load_digits()
    y = digits.target.astype(np.int64)
    x = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    every = Part(x, y, row_ids(len(y)))
    train, test = split.hold_out(y, 0.2)
    names = tuple(str(digit) for digit in range(10))
    return Found("digits", every.take(train), every.take(test), names, augment="crop")
