"""The mean and deviation that inputs are normalised with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfadapt import errors
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import Rows
from selfadapt.engine.work import Show

_SAMPLE = 10_000
_AT_ONCE = 64  # samples that are copied to double precision together


def input_statistics(feed: Feed, show: Show) -> dict[str, list[float]]:
    """Mean and deviation of each channel or feature, over 10,000 training rows (or all) at even
    distances: folders are read class by class. Samples that cannot be read do not count."""
    rows = _evenly(feed.rows, _SAMPLE)
    sums, done = _Sums(), 0
    for part, x in feed.plain_parts(rows):
        readable = ~np.isin(part, list(feed.unreadable))
        for few in torch.split(x.cpu()[torch.from_numpy(readable)], _AT_ONCE):
            sums.add(few.double())
        done += len(part)
        show({"what": "looking at the inputs", "done": done, "total": len(rows)})
    if not sums.count:
        first = next(iter(feed.unreadable.values()), "there are none")
        raise errors.BadInput(f"none of {len(rows):,} samples can be read; the first: {first}")
    deviation = (sums.squares / sums.count).sqrt()
    return {"mean": sums.mean.tolist(), "std": deviation.tolist()}


def _evenly(rows: Rows, count: int) -> Rows:
    places = np.linspace(0, len(rows) - 1, min(len(rows), count)).round().astype(int)
    chosen: Rows = rows[np.unique(places)]
    return chosen


class _Sums:
    """The mean so far, and the sum of squares about it: no digits are lost where the mean is large
    beside the deviation."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = torch.zeros(())
        self.squares: Any = torch.zeros(())

    def add(self, x: Tensor) -> None:
        over = (0, 2, 3) if x.ndim == 4 else (0,)
        count = x.numel() // x.shape[1]
        if not count:
            return
        mean = x.mean(over)
        squares = x.var(over, correction=0) * count
        share, apart = count / (self.count + count), mean - self.mean
        self.squares = self.squares + squares + apart**2 * self.count * share
        self.mean = self.mean + apart * share
        self.count += count
