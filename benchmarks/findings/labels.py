"""Findings on labels: what became of them, and that all methods were given the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from findings.verdict import PROBLEM, Verdict, mean, percent, plain, plural, problems, some
from selfadapt.tables import Row, confusion_of
from selfadapt.tables.confusion import pool
from selfadapt.tables.groups import groups


def labels_recovered(rows: Sequence[Row]) -> Verdict | None:
    """More training labels are right after SAT than were given."""
    told, more = [], []
    for name, members in problems(rows):
        sat, erm = plain(members, "sat"), plain(members, "erm")
        after, wrong = mean(sat, "labels_right"), mean(sat, "error_rate")
        if after is None or not wrong:
            continue
        more.append(after > 1 - wrong)
        predicted = mean(erm, "labels_right")
        beside = f" ({percent(predicted)} by ERM's predictions)" if predicted is not None else ""
        told.append(f"{name} {percent(1 - wrong)} → {percent(after)} %{beside}".strip())
    if not more:
        return None
    counted = f"at {sum(more)} of {len(more)} {plural(rows)}: " if len(more) > 1 else ""
    return Verdict("SAT recovers labels", all(more), counted + some(told))


def weights_tell(rows: Sequence[Row]) -> Verdict | None:
    """Samples whose label is right in the end weigh more than those whose label is wrong."""
    known = [found for row in plain(rows, "sat") if (found := confusion_of(row)) is not None]
    pooled = pool(known) if known else None
    if pooled is None or pooled.weights is None:
        return None
    right = np.eye(len(pooled.classes), dtype=bool)
    sums = np.nan_to_num(pooled.weights) * pooled.counts
    if not pooled.counts[~right].sum():
        return None
    on, off = (float(sums[part].sum() / pooled.counts[part].sum()) for part in (right, ~right))
    evidence = f"{on:.2f} where the label is right in the end, {off:.2f} where it is wrong"
    return Verdict("SAT's weights are higher for right labels", on > off, evidence)


def same_noise(rows: Sequence[Row]) -> Verdict | None:
    """Equal fingerprints of labels and images wherever data, corruption and seed are equal."""
    names = [name for name in PROBLEM if name.startswith(("data.", "corruption."))]
    names.remove("data.augment")
    together = [members for _, members in groups(rows, [*names, "seed"])]
    prints = [{_fingerprint(row) for row in members} for members in together if len(members) > 1]
    if not prints:
        return None
    alike = sum(len(found) == 1 for found in prints)
    evidence = f"equal fingerprints at {alike} of {len(prints)} pairs of noise and seed"
    return Verdict("Runs that are compared saw the same noise", alike == len(prints), evidence)


def _fingerprint(row: Row) -> tuple[Any, Any]:
    noise = row.about.get("noise", {})
    return noise.get("fingerprint"), noise.get("fingerprint_images")
