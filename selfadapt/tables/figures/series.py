"""What a line in a picture stands for: the mean over seeds, and how far they scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfadapt.tables import metrics
from selfadapt.tables.groups import groups, identity, is_number
from selfadapt.tables.row import Row

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    x: Array
    mean: Array
    std: Array  # nan of one seed

    @property
    def scatters(self) -> bool:
        return bool((~np.isnan(self.std)).any())


def over_epochs(rows: Sequence[Row], name: str) -> Series | None:
    """Epochs counted from 1, as far as every seed has them; None where no run logged it."""
    all_curves = [metrics.curve(row, name) for row in rows]
    curves = [curve for curve in all_curves if any(value is not None for value in curve)]
    if not curves:
        return None
    length = min(map(len, curves))
    values = np.array([curve[:length] for curve in curves], np.float64)  # None becomes nan
    return _series(np.arange(1, length + 1, dtype=np.float64), list(values.T))


def over_setting(
    rows: Sequence[Row],
    setting: str,
    of: Mapping[int, float | None],
    place: Mapping[str, float],
) -> Series | None:
    """Against a setting: `of` has each run's figure by id(row), `place` where each of the setting's
    values stands. None where nothing is known."""
    named = [row for row in rows if row.get(setting) is not None and of[id(row)] is not None]
    if not named:
        return None
    found = groups(named, [setting])
    values = [np.array([of[id(row)] for row in members], np.float64) for _, members in found]
    x = np.array([place[identity(x)] for (x,), _ in found])
    return _series(x, values)


def places(rows: Sequence[Row], setting: str) -> dict[str, float]:
    """Numbers stand where they are; anything else in its order."""
    values = [x for (x,), _ in groups(rows, [setting]) if x is not None]
    numeric = all(map(is_number, values))
    return {identity(x): float(x if numeric else at) for at, x in enumerate(values)}


def _series(x: Array, values: Sequence[Array]) -> Series:
    known = [each[~np.isnan(each)] for each in values]
    mean = [each.mean() if len(each) else np.nan for each in known]
    std = [each.std(ddof=1) if len(each) > 1 else np.nan for each in known]
    return Series(x, np.array(mean), np.array(std))
