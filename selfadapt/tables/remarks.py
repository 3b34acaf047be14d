"""What must be said beside a table's numbers, found out from its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfadapt.tables import groups
from selfadapt.tables.cells import Layout
from selfadapt.tables.row import Row
from selfadapt.tables.words import PROTOCOLS, name_of

_MEASURING = {
    f"train.{name}" for name in ("curves", "score", "against", "save_seconds", "trackers")
}


def remarks(rows: Sequence[Row], layout: Layout) -> list[str]:
    done = [row for row in rows if row.done]
    found = [_protocols(done), *_mixtures(done, layout), _twice(done, layout), _unfinished(rows)]
    return [text for text in found if text]


def protocol(row: Row) -> str:
    return str(row.get("protocol") or "")


def _protocols(rows: Sequence[Row]) -> str:
    named = [name for name in dict.fromkeys(map(protocol, rows)) if name]
    if named:
        return "Protocol " + "; ".join(PROTOCOLS.get(name, name) for name in named) + "."
    if len(groups.groups(rows, ["method.name"])) < 2:
        return ""
    differ = _schedules_that_differ(rows)
    if differ:
        return f"Protocol own: methods differ in {', '.join(differ)}."
    return f"Protocol {PROTOCOLS['equal']}."


def _schedules_that_differ(rows: Sequence[Row]) -> list[str]:
    """Settings of training that one method has otherwise than another on the same problem."""
    tables = ("data.", "corruption.", "net.")
    names = dict.fromkeys(name for row in rows for name in row.settings)
    same = [name for name in names if name.startswith(tables) and name != "data.root"]
    found: dict[str, None] = {}
    for _, members in groups.groups(rows, same):
        schedules = [_schedule(mine) for _, mine in groups.groups(members, ["method.name"])]
        for other in schedules[1:]:
            for name in other.keys() | schedules[0].keys():
                if other.get(name) != schedules[0].get(name):
                    found[name] = None
    return sorted(found)


def _schedule(rows: Sequence[Row]) -> dict[str, list[str]]:
    names = {name for row in rows for name in row.settings if name.startswith("train.")}
    names -= _MEASURING
    return {name: sorted({groups.identity(row.get(name)) for row in rows}) for name in names}


def _mixtures(rows: Sequence[Row], layout: Layout) -> list[str]:
    keys = (*layout.rows, *layout.columns)
    differ: dict[str, Any] = {}
    for _, members in groups.groups(rows, keys):
        differ |= dict.fromkeys(groups.mixed(members, keys))
    names = ", ".join(f"{name_of(name)} ({name})" for name in differ)
    return [f"Warning: a cell averages runs that differ in {names}."] if differ else []


def _twice(rows: Sequence[Row], layout: Layout) -> str:
    keys = (*layout.rows, *layout.columns, "seed")
    if any(len(members) > 1 for _, members in groups.groups(rows, keys)):
        return "Warning: a cell holds several runs of one seed."
    return ""


def _unfinished(rows: Sequence[Row]) -> str:
    left = [row.path for row in rows if not row.done]
    if not left:
        return ""
    shown = ", ".join(left[:3]) + (", …" if len(left) > 3 else "")
    return f"Left out, for they are not finished: {len(left)} of {len(rows)} runs ({shown})."
