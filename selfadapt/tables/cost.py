"""What a method's training costs beside ordinary training on the same machine, from the seconds
that both spent in training steps, all stages counted."""

from __future__ import annotations

from collections.abc import Sequence

from selfadapt.tables.groups import identity
from selfadapt.tables.row import Row

BASELINE = "erm"
_SECONDS = "training_seconds_of_all_stages"
_OWN = ("own", "both")
_MACHINE = ("processor", "accelerator", "device", "precision", "threads")


def costs(rows: Sequence[Row], baseline: str = BASELINE) -> list[float | None]:
    """For each row its seconds over those of the baseline's run with the same seed and the same
    settings but for the method's knobs. Under each method's own schedule (label protocol=own)
    there may be none: then over the baseline's, under its own. None where there is no such run, or
    it was made on another machine."""
    known = [row for row in rows if row.get("method.name") == baseline and _seconds(row)]
    comparable: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(known, key=_knobs_used):  # the plainest first
        comparable.setdefault(_surroundings(row), []).append(row)
    return [_ratio(row, comparable.get(_surroundings(row), [])) for row in rows]


def _ratio(row: Row, comparable: Sequence[Row]) -> float | None:
    mine = _seconds(row)
    alike = [one for one in comparable if _schedule(one) == _schedule(row)]
    own = [
        one for one in comparable if row.get("protocol") == "own" and one.get("protocol") in _OWN
    ]
    found = [*alike, *own]
    if mine is None or not found:
        return None
    return mine / (_seconds(found[0]) or mine)


def _seconds(row: Row) -> float | None:
    seconds = row.results.get(_SECONDS)
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _surroundings(row: Row) -> tuple[str, ...]:
    """Everything but method, schedule and the place where the same data lay."""
    settings = [
        f"{name}={identity(value)}"
        for name, value in sorted(row.settings.items())
        if not name.startswith(("method.", "train.")) and name != "data.root"
    ]
    machine = row.about.get("machine", {})
    return (*settings, identity(row.seed), *(identity(machine.get(name)) for name in _MACHINE))


def _schedule(row: Row) -> tuple[str, ...]:
    return tuple(
        f"{name}={identity(value)}"
        for name, value in sorted(row.settings.items())
        if name.startswith("train.")
    )


def _knobs_used(row: Row) -> int:
    """A knob that is off is zero, false or none."""
    return sum(
        bool(value)
        for name, value in row.settings.items()
        if name.startswith("method.") and name != "method.name"
    )
