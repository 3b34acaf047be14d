"""Findings on test accuracy: which method is above which, and by how much."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from findings.verdict import (
    Gap,
    Verdict,
    by_seed,
    everywhere,
    gap,
    mean,
    percent,
    plain,
    plural,
    points,
    problems,
    some,
)
from selfadapt.tables import Row
from selfadapt.tables.groups import groups
from selfadapt.tables.words import said

STABLE = 0.05  # how far accuracy may move and still be called the same
_STOPPED = "early stopping"


def sat_above_erm(rows: Sequence[Row]) -> Verdict | None:
    return _above(rows, "SAT above ERM", "accuracy", lambda members: plain(members, "erm"))


def sat_above_early_stopping(rows: Sequence[Row]) -> Verdict | None:
    def stopped(members: Sequence[Row]) -> list[Row]:
        return [row for row in members if row.get("variant") == _STOPPED]

    return _above(rows, "SAT above ERM stopped early", "accuracy_best_validation", stopped)


def _above(
    rows: Sequence[Row], claim: str, metric: str, others: Callable[[Sequence[Row]], list[Row]]
) -> Verdict | None:
    """SAT at its last epoch above `metric` of the others, everywhere."""
    gaps = {}
    for name, members in problems(rows):
        mine, theirs = by_seed(plain(members, "sat"), "accuracy"), by_seed(others(members), metric)
        found = gap(mine, theirs)
        if found is not None:
            gaps[name] = found
    return everywhere(claim, gaps, plural(rows))


def nothing_above_sat(rows: Sequence[Row]) -> Verdict | None:
    """Any method whose mean is above SAT's is named, by how much, and at what cost."""
    gaps: dict[str, list[Gap]] = {}
    ratios: dict[str, list[float]] = {}
    for _, members in problems(rows):
        sat = plain(members, "sat")
        for name, metric, mine in _others(members):
            difference = gap(by_seed(mine, metric), by_seed(sat, "accuracy"))
            if difference is not None:
                gaps.setdefault(name, []).append(difference)
                ratios.setdefault(name, []).extend(_times(mine, sat))
    if not gaps.keys() - {"erm"}:  # which has a finding of its own
        return None
    above = {name: max(one.mean for one in of) for name, of in gaps.items()}
    names = [name for name in sorted(above, key=above.__getitem__, reverse=True) if above[name] > 0]
    told = tuple(
        f"{name}: {_gain(gaps[name], plural(rows))}{_cost(ratios[name])}" for name in names
    )
    evidence = (
        f"{len(names)} of {len(gaps)} others are above it" if told else f"of {len(gaps)} others"
    )
    return Verdict("No method above SAT", not told, evidence, told)


def _gain(gaps: Sequence[Gap], of: str) -> str:
    """By how much, where it is above; and whether seeds alone would do as much."""
    above = [one for one in gaps if one.mean > 0]
    least, most = (points(f(one.mean for one in above)) for f in (min, max))
    by = f"{most} points" if least == most else f"{least} to {most} points"
    where = f" at {len(above)} of {len(gaps)} {of}" if len(gaps) > 1 else ""
    noise = sum(one.noise for one in above)
    alone = f" at {noise} of these" if noise < len(above) else ""
    return f"{by}{where}" + (f", within the noise of seeds{alone}" if noise else "")


def _others(rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    """Each method, variant and protocol but SAT itself: its name, what counts, and its runs."""
    found = []
    for (method, variant, protocol), members in groups(
        rows, ["method.name", "variant", "protocol"]
    ):
        if method != "sat":
            own = "own schedule" if protocol == "own" else None
            name = ", ".join(str(part) for part in (method, variant, own) if part)
            metric = "accuracy_best_validation" if variant == _STOPPED else "accuracy"
            found.append((name, metric, members))
    return found


def _times(mine: Iterable[Row], theirs: Iterable[Row]) -> list[float]:
    """Seconds of training over those of the same seed on the same machine."""
    name = "training_seconds_of_all_stages"
    base = {row.seed: row for row in theirs if row.get(name)}
    return [
        row[name] / base[row.seed][name]
        for row in mine
        if row.get(name)
        and row.seed in base
        and row.about.get("machine") == base[row.seed].about.get("machine")
    ]


def _cost(ratios: Sequence[float]) -> str:
    return f"; {statistics.median(ratios):.2f}× SAT's training time" if ratios else ""


def average_matters_most(rows: Sequence[Row]) -> Verdict | None:
    """Without its moving average, in the better of the two readings of that, SAT is worse than
    without its weights."""
    told, gaps = [], {}
    for name, members in problems(rows):
        variants = _ablated(members)
        means = {variant: mean(runs, "accuracy") for variant, runs in variants.items()}
        known = {variant: x for variant, x in means.items() if x is not None}
        without = [variant for variant in known if variant.startswith("average")]
        if not without or "without weights" not in known:
            continue
        better = max(without, key=known.__getitem__)
        found = gap(
            by_seed(variants["without weights"], "accuracy"), by_seed(variants[better], "accuracy")
        )
        if found is not None:
            gaps[name] = found
            accuracies = ", ".join(f"{variant} {percent(x)}" for variant, x in known.items())
            told.append(f"{name}: {accuracies} %".removeprefix(": "))
    verdict = everywhere("Removing the moving average costs most", gaps, plural(rows))
    if verdict is None:
        return None
    return Verdict(verdict.claim, verdict.holds, f"{verdict.evidence} ({some(told)})")


def _ablated(rows: Sequence[Row]) -> dict[str, list[Row]]:
    sat = [row for row in rows if row.get("method.name") == "sat"]
    kept = [row for row in sat if row.get("method.average") == "kept"]
    return {
        "SAT": [row for row in kept if row.get("method.reweight")],
        "without weights": [row for row in kept if not row.get("method.reweight")],
        "average forgotten": [row for row in sat if row.get("method.average") == "forgotten"],
        "average frozen": [row for row in sat if row.get("method.average") == "frozen"],
    }


def early_stopping_hurts(rows: Sequence[Row]) -> Verdict | None:
    """Of ERM under corrupted images: the test accuracy of the last epoch is above that of the
    epoch chosen by noisy validation. The test set is always clean."""
    images: dict[str, Gap] = {}
    labels: dict[str, Gap] = {}
    for name, members in problems(rows):
        erm = [row for row in plain(members, "erm") if row.get("corruption.rate") != 0]
        found = gap(by_seed(erm, "accuracy"), by_seed(erm, "accuracy_best_validation"))
        if found is not None:
            of_images = erm[0].about.get("noise", {}).get("noisy_images") is not None
            (images if of_images else labels)[name] = found
    claim = "Early stopping hurts ERM under image corruptions"
    verdict = everywhere(claim, images, "settings")
    if verdict is None or not labels:
        return verdict
    others = some([f"{name} {points(-one.mean)}" for name, one in labels.items()])
    beside = f"{verdict.evidence}; under label noise it changes accuracy by: {others} points"
    return Verdict(verdict.claim, verdict.holds, beside)


def insensitive(rows: Sequence[Row]) -> Verdict | None:
    """Over all momenta and starts tried, accuracy moves by no more than a few points."""
    keys = ("method.momentum", "method.start")
    spreads, told = [], []
    for name, members in problems(rows):
        means = {}
        for values, mine in groups(plain(members, "sat"), keys):
            words = ", ".join(said(key, x) for key, x in zip(keys, values, strict=True))
            found = mean(mine, "accuracy")
            if found is not None:
                means[words] = found
        if len(means) > 1:
            worst, best = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            spreads.append(means[best] - means[worst])
            told.append(
                f"{name} {percent(means[best])} % ({best}) to {percent(means[worst])} % "
                f"({worst})".strip()
            )
    if not spreads:
        return None
    claim = f"SAT's accuracy within {100 * STABLE:.0f} points over every momentum and start tried"
    return Verdict(claim, max(spreads) <= STABLE, some(told).strip())
