"""Findings on the shape of curves: against epochs, widths and noise rates."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from findings.verdict import (
    Verdict,
    by_seed,
    everywhere,
    gap,
    percent,
    plain,
    plural,
    problems,
    some,
)
from selfadapt.tables import Row, curve
from selfadapt.tables.groups import groups

NEAR = 0.05  # how close two levels must be to be called the same
_TAIL = 0.1  # of the epochs, at the end
_BINS = 24  # of epochs, evenly in their logarithm
_ONE_SEED = 0.01  # the difference that is taken seriously where no other seed can tell
Array = NDArray[np.float64]


def levels_off(rows: Sequence[Row]) -> Verdict | None:
    """The last tenth of SAT's curve on the noisy training set lies at the share of clean samples,
    where ERM goes on to learn the noise."""
    told, near = [], []
    for name, members in problems(rows):
        sat, erm = _tail(plain(members, "sat")), _tail(plain(members, "erm"))
        shares = [row.clean_share for row in members if row.clean_share is not None]
        if sat is None or not shares or min(shares) > 1 - NEAR:
            continue
        share = statistics.fmean(shares)
        near.append(abs(sat - share) <= NEAR)
        beside = f", ERM {percent(erm)}" if erm is not None else ""
        told.append(f"{name} {percent(sat)} against {percent(share)} %{beside}".strip())
    if not near:
        return None
    claim = "SAT's noisy training curve levels off at the share of clean samples"
    within = f"within {100 * NEAR:.0f} points at {sum(near)} of {len(near)} {plural(rows)}"
    return Verdict(claim, all(near), f"{within}: {'; '.join(told)}")


def _tail(rows: Iterable[Row]) -> float | None:
    ends = []
    for row in rows:
        known = [x for x in curve(row, "fitted") if x is not None]
        if known:
            ends.append(statistics.fmean(known[-max(1, int(_TAIL * len(known))) :]))
    return statistics.fmean(ends) if ends else None


def generalises_better(rows: Sequence[Row]) -> Verdict | None:
    return _smaller(rows, "generalisation_error", "SAT's generalisation error below ERM's")


def fewer_clean_errors(rows: Sequence[Row]) -> Verdict | None:
    return _smaller(rows, "clean_validation_error", "SAT's clean validation error below ERM's")


def _smaller(rows: Sequence[Row], metric: str, claim: str) -> Verdict | None:
    noisy = [row for row in rows if row.get("corruption.rate") != 0]
    gaps = {}
    for name, members in problems(noisy):
        erm, sat = (by_seed(plain(members, method), metric) for method in ("erm", "sat"))
        found = gap(erm, sat)
        if found is not None:
            gaps[name] = found
    return everywhere(claim, gaps, plural(noisy))


def erm_descends_twice(rows: Sequence[Row]) -> Verdict | None:
    found = _descents(rows, "erm")
    claim = "ERM's test error falls, rises and falls again"
    return Verdict(claim, all(found.values()), some(list(found))) if found else None


def sat_descends_once(rows: Sequence[Row]) -> Verdict | None:
    found = _descents(rows, "sat")
    claim = "No second descent of SAT's test error"
    return Verdict(claim, not any(found.values()), some(list(found))) if found else None


def _descents(rows: Sequence[Row], method: str) -> dict[str, bool]:
    """For each kind of net what its error does, and whether it descends twice: against the width
    of the net, if that varies, else against the epoch."""
    found = {}
    for (net,), members in groups(plain(rows, method), ["net.name"]):
        widths = len(groups(members, ["net.width"])) > 2
        at, error, noise = _by_width(members) if widths else _by_epoch(members)
        if len(at) > 2:
            peak = second_descent(error, noise)
            found[_shape(at, error, peak, f"{net}, {'width' if widths else 'epoch'}")] = bool(peak)
    return found


def _by_width(rows: Sequence[Row]) -> tuple[Array, Array, Array]:
    at, seeds = [], []
    for (width,), members in groups(rows, ["net.width"]):
        values = list(by_seed(members, "test_error").values())
        if values:
            at.append(width)
            seeds.append(values)
    return _with_errors(at, seeds)


def _by_epoch(rows: Sequence[Row]) -> tuple[Array, Array, Array]:
    """Means over bins of epochs: a single epoch's error scatters more than what is asked for."""
    curves = [[x for x in curve(row, "test_error") if x is not None] for row in rows]
    curves = [values for values in curves if values]
    if not curves:
        return _with_errors([], [])
    length = min(map(len, curves))
    edges = np.unique(np.geomspace(1, length + 1, _BINS + 1).round().astype(int)).tolist()
    bins = list(itertools.pairwise(edges))
    seeds = [[statistics.fmean(c[first - 1 : last - 1]) for c in curves] for first, last in bins]
    return _with_errors([(first + last - 1) / 2 for first, last in bins], seeds)


def _with_errors(
    at: Sequence[float], seeds: Sequence[Sequence[float]]
) -> tuple[Array, Array, Array]:
    """Where, the means, and their standard errors."""
    means = [statistics.fmean(values) for values in seeds]
    errors = [
        statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else _ONE_SEED / 2
        for values in seeds
    ]
    return np.array(at, np.float64), np.array(means), np.array(errors)


def second_descent(error: Array, noise: Array) -> tuple[int, int, int] | None:
    """A low, a later peak and a still later low, with both steps above twice their standard error
    and above a point: the greatest such, or None."""
    best, found = _ONE_SEED, None
    for peak in range(1, len(error) - 1):
        low = int(error[:peak].argmin())
        end = peak + 1 + int(error[peak + 1 :].argmin())
        steps = [(error[peak] - error[i], 2 * np.hypot(noise[peak], noise[i])) for i in (low, end)]
        height = min(step for step, _ in steps)
        if height > best and all(step > least for step, least in steps):
            best, found = height, (low, peak, end)
    return found


def _shape(at: Array, error: Array, peak: tuple[int, int, int] | None, of: str) -> str:
    def told(place: int) -> str:
        return f"{percent(error[place])} % at {at[place]:g}"

    if peak is not None:
        return f"{of}: a low of {told(peak[0])}, a peak of {told(peak[1])}, then {told(peak[2])}"
    return f"{of}: from {told(0)}, its least {told(int(error.argmin()))}, to {told(-1)}"
