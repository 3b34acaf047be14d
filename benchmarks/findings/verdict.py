"""How a finding is judged: over problems, with what seeds alone would do in view."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfadapt.tables import Row, value
from selfadapt.tables.groups import groups
from selfadapt.tables.words import said

PROBLEM = (  # what two methods must have alike to be compared
    *("data.name", "data.label", "data.augment", "net.name", "net.width"),
    *("corruption.name", "corruption.rate"),
)
_SHOWN = 4  # names in a list, before it says how many more there are


@dataclass(frozen=True)
class Verdict:
    """Yes or no to a claim, or that seeds scatter too much to tell; and by what figures."""

    claim: str
    holds: bool | None
    evidence: str
    cases: tuple[str, ...] = ()  # one by one, where there are many

    @property
    def word(self) -> str:
        return {True: "yes", False: "no", None: "cannot be told"}[self.holds]

    def sentence(self) -> str:
        return f"{self.claim}: **{self.word}**, {self.evidence}."

    def markdown(self) -> str:
        return "\n".join([f"- {self.sentence()}", *(f"  - {case}" for case in self.cases)])


Finding = Callable[[Sequence[Row]], Verdict | None]


@dataclass(frozen=True)
class Gap:
    """One minus another, over the seeds that both have, and its standard error."""

    mean: float
    error: float  # nan of one seed

    @property
    def noise(self) -> bool:
        return abs(self.mean) <= 2 * self.error


def points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _told(rows: Sequence[Row]) -> list[str]:
    return [name for name in PROBLEM if len(groups(rows, [name])) > 1]


def problems(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Runs on the same problem, named by what tells it from the others."""
    told, found = _told(rows), []
    for values, members in groups(rows, told):
        named = zip(told, values, strict=True)
        found.append((", ".join(said(key, x) for key, x in named if x is not None), members))
    return found


def plural(rows: Sequence[Row]) -> str:
    """What there are several of."""
    return "noise rates" if _told(rows) == ["corruption.rate"] else "settings"


def plain(rows: Iterable[Row], method: str) -> list[Row]:
    """The method as it is, not a variant; under one schedule for all, where there are two."""
    return [
        row
        for row in rows
        if row.get("method.name") == method
        and not row.get("variant")
        and not row.get("method.smoothing")
        and row.get("protocol") != "own"
    ]


def by_seed(rows: Iterable[Row], metric: str) -> dict[int | None, float]:
    return {row.seed: found for row in rows if (found := value(row, metric)) is not None}


def mean(rows: Iterable[Row], metric: str) -> float | None:
    known = [found for row in rows if (found := value(row, metric)) is not None]
    return statistics.fmean(known) if known else None


def gap(one: Mapping[Any, float], other: Mapping[Any, float]) -> Gap | None:
    differences = [one[seed] - other[seed] for seed in one if seed in other]
    if not differences:
        return None
    several = len(differences) > 1
    error = statistics.stdev(differences) / len(differences) ** 0.5 if several else float("nan")
    return Gap(statistics.fmean(differences), error)


def everywhere(claim: str, gaps: Mapping[str, Gap], of: str) -> Verdict | None:
    """Whether each gap is above zero; with nothing but noise, that cannot be told."""
    if not gaps:
        return None
    below = [f"{name} {points(one.mean)}".strip() for name, one in gaps.items() if one.mean <= 0]
    noise = [name for name, one in gaps.items() if one.noise]
    means = [one.mean for one in gaps.values()]
    holds = None if len(noise) == len(gaps) else not below
    if len(gaps) == 1:
        within = ", within the noise of seeds" if noise else ""
        return Verdict(claim, holds, f"by {points(means[0])} points{within}")
    parts = [
        f"at {len(gaps) - len(below)} of {len(gaps)} {of}, by {points(min(means))} to "
        f"{points(max(means))} points"
    ]
    parts += [f"not at {some(below)}"] if below else []
    parts += [f"within the noise of seeds at {some(noise)}"] if noise else []
    return Verdict(claim, holds, "; ".join(parts))
