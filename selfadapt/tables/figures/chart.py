"""Lines in panels: against epochs (kind curves) or against a setting (kind lines)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from selfadapt.tables import metrics
from selfadapt.tables.cost import costs
from selfadapt.tables.figures import style
from selfadapt.tables.figures.looks import Looks, looks
from selfadapt.tables.figures.series import Series, over_epochs, over_setting, places
from selfadapt.tables.figures.spec import Spec
from selfadapt.tables.groups import groups, mixed
from selfadapt.tables.row import Row
from selfadapt.tables.words import is_rate, name_of, said, value_of

_MANY = 6  # lines that can still be told apart in one panel
_OF_NOISE = {"fitted", "train_accuracy"}  # these may level off at the share of clean samples
_DOTTED: dict[str, Any] = {"color": "0.35", "linestyle": (0, (1, 1)), "linewidth": 1.3}
_ALIKE = 0.02  # shares that one dotted line may stand for


@dataclass(frozen=True)
class Stroke:
    name: str
    look: Mapping[str, Any]
    series: Series
    unit: metrics.Unit

    @property
    def scale(self) -> float:
        return 100.0 if self.unit == "share" else 1.0


@dataclass(frozen=True)
class Panel:
    title: str
    rows: Sequence[Row]
    y: Sequence[str]


def draw(rows: Sequence[Row], spec: Spec) -> tuple[Figure | None, list[str]]:
    """The figure, if there is anything to draw, and what there is not."""
    panels, columns, looked = _layout(rows, spec)
    notes: list[str] = []
    drawn = [(panel, list(_strokes(panel, rows, spec, looked, notes))) for panel in panels]
    drawn = [(panel, strokes) for panel, strokes in drawn if strokes]
    if not drawn:
        return None, notes
    columns = min(columns, len(drawn))
    own = spec.kind == "lines" and len(spec.y) > 1  # each column has a metric of its own
    figure, axes = style.panels(len(drawn), columns, share_y="col" if own else True)
    entries: list[tuple[str, dict[str, Any]]] = []
    for place, ((panel, strokes), one) in enumerate(zip(drawn, axes, strict=True)):
        style.title(one, panel.title)
        entries += _fill(one, panel, strokes, spec)
        if place + columns >= len(drawn):
            one.set_xlabel(_x_words(spec))
        if own or place % columns == 0:
            one.set_ylabel(_y_words(panel.y, in_title=own))
        _x_axis(one, spec, rows)
    style.legend(figure, entries)
    return figure, notes


def _layout(rows: Sequence[Row], spec: Spec) -> tuple[list[Panel], int, Looks]:
    """Metrics of kind lines have panels of their own, for they may be of different kinds; so do
    the lines of kind curves, where they would be too many for one panel."""
    together, found = groups(rows, spec.panels), []
    lines = groups(rows, spec.lines)
    apart = spec.kind == "curves" and len(spec.y) > 1 and len(lines) * len(spec.y) > _MANY
    for values, members in together:
        title = ", ".join(said(key, x) for key, x in zip(spec.panels, values, strict=True))
        if spec.kind == "lines":
            for y in spec.y:
                words = metrics.metric(y).words if len(spec.y) > 1 else ""
                found.append(Panel(", ".join(filter(None, (title, words))), members, [y]))
        elif apart:
            for line, mine in groups(members, spec.lines):
                words = ", ".join(said(k, x) for k, x in zip(spec.lines, line, strict=True))
                found.append(Panel(", ".join(filter(None, (words, title))), mine, spec.y))
        else:
            found.append(Panel(title, members, spec.y))
    if spec.kind == "lines" and len(spec.y) > 1:
        return found, len(spec.y), looks(rows, spec.lines, [])
    if apart:
        found.sort(key=lambda panel: _place(panel, lines))
        return found, len(together) if len(together) > 1 else len(lines), looks(rows, [], spec.y)
    return found, _columns(rows, spec, len(found)), looks(rows, spec.lines, spec.y)


def _place(panel: Panel, lines: Sequence[tuple[Any, list[Row]]]) -> int:
    return next(at for at, (_, members) in enumerate(lines) if panel.rows[0] in members)


def _columns(rows: Sequence[Row], spec: Spec, count: int) -> int:
    """A line of panels for each value of the last key, if that comes out even."""
    last = len(groups(rows, spec.panels[-1:]))
    if len(spec.panels) > 1 and 1 < last <= 5 and count % last == 0:
        return last
    return count if count <= 4 else -(-count // (-(-count // 4)))


def _strokes(
    panel: Panel, rows: Sequence[Row], spec: Spec, looked: Looks, notes: list[str]
) -> Iterator[Stroke]:
    for values, members in groups(panel.rows, spec.lines):
        for y in panel.y:
            series = _series(members, rows, spec, y)
            line = ", ".join(said(k, x) for k, x in zip(spec.lines, values, strict=True))
            where = "; ".join(filter(None, (panel.title, line)))
            if series is None:
                notes.append(f"figure {spec.name}: nothing is known of {y} ({where or 'all runs'})")
                continue
            differ = mixed_in(members, spec)
            if differ:
                notes.append(
                    f"Warning: figure {spec.name}: a line averages runs that differ in "
                    f"{', '.join(differ)} ({where or 'all runs'})"
                )
            look = looked.of(members[0], y)
            yield Stroke(looked.name(members[0], y), look, series, metrics.metric(y).unit)


def mixed_in(rows: Sequence[Row], spec: Spec) -> list[str]:
    keys = [*spec.panels, *spec.lines, *filter(None, [spec.x])]
    of = (mixed(members, keys) for _, members in groups(rows, keys))
    return list(dict.fromkeys(name for names in of for name in names))


def _series(mine: Sequence[Row], rows: Sequence[Row], spec: Spec, y: str) -> Series | None:
    if spec.kind == "curves":
        return over_epochs(mine, y)
    values = costs(rows) if y == "cost" else [metrics.value(row, y) for row in rows]
    of = dict(zip(map(id, rows), values, strict=True))
    return over_setting(mine, spec.x, of, places(rows, spec.x))


def _fill(
    axes: Axes, panel: Panel, strokes: Sequence[Stroke], spec: Spec
) -> Iterator[tuple[str, dict[str, Any]]]:
    times = 100.0 if spec.kind == "lines" and is_rate(spec.x) else 1.0
    marked = {"marker": "o", "markersize": 3} if spec.kind == "lines" else {}
    for stroke in strokes:
        series, scale = stroke.series, stroke.scale
        look = {**stroke.look, **marked, "linewidth": 1.4}
        axes.plot(times * series.x, scale * series.mean, label=stroke.name, **look)
        if series.scatters:
            low, high = series.mean - series.std, series.mean + series.std
            axes.fill_between(
                times * series.x,
                scale * low,
                scale * high,
                color=look["color"],
                alpha=0.18,
                linewidth=0,
            )
        yield stroke.name, look
    share = _clean_share(panel) if spec.kind == "curves" else None
    if share is not None:
        axes.axhline(100 * share, label="share of clean samples", **_DOTTED)
        yield "share of clean samples", _DOTTED


def _clean_share(panel: Panel) -> float | None:
    shares = [row.clean_share for row in panel.rows if row.clean_share is not None]
    if not shares or not _OF_NOISE & set(panel.y) or max(shares) - min(shares) > _ALIKE:
        return None
    return sum(shares) / len(shares)


def _x_axis(axes: Axes, spec: Spec, rows: Sequence[Row]) -> None:
    values = [x for (x,), _ in groups(rows, [spec.x]) if x is not None] if spec.x else []
    at = [*places(rows, spec.x).values()] if spec.x else []
    if spec.log_x:
        style.logarithmic(axes, at)
    elif any(isinstance(value, str | bool) for value in values):
        axes.set_xticks(at, [value_of(spec.x, value) for value in values])


def _x_words(spec: Spec) -> str:
    if spec.kind == "curves":
        return "epoch"
    return name_of(spec.x) + (", %" if is_rate(spec.x) else "")


def _y_words(y: Sequence[str], *, in_title: bool) -> str:
    wanted = [metrics.metric(name) for name in y]
    alone = len(y) == 1 and not in_title
    nouns = list(dict.fromkeys(one.words if alone else one.noun for one in wanted))
    share = all(one.unit == "share" for one in wanted)
    return (nouns[0] if len(nouns) == 1 else "share") + (", %" if share else "")
