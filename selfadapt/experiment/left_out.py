"""The files that could not be read: which, and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from selfadapt.data.labelled import LabelledData
from selfadapt.engine.work import Progress, Show
from selfadapt.rundir import RunDir, write_atomically

Reasons = dict[int, str]  # by row


def left_out(data: LabelledData, progress: Progress) -> dict[str, Reasons]:
    """Found when the set was loaded, or while it was read batch by batch."""
    return {
        "training": _both(data, progress.unreadable),
        "test": {} if data.test is None else _both(data.test, progress.unreadable_test),
    }


def _both(data: LabelledData, late: Mapping[str, str]) -> Reasons:
    found = {**data.quarantined, **{int(row): why for row, why in late.items()}}
    return dict(sorted(found.items()))


def write_unreadable(
    run: RunDir, data: LabelledData, unreadable: Mapping[str, Reasons], show: Show
) -> None:
    if not any(unreadable.values()):
        return
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("part", data.id_name, "reason"))
    for part, reasons in unreadable.items():
        ids = data.test.ids if part == "test" and data.test is not None else data.ids
        lines.writerows((part, ids[row], why) for row, why in reasons.items())
    write_atomically(run.unreadable_file, text.getvalue().encode())
    told = " and ".join(f"{len(found):,} {part}" for part, found in unreadable.items() if found)
    show({"note": f"{told} images could not be read: {run.unreadable_file} names them"})
