"""Scores to abstain by, side by side: as a table, as JSON and as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from selfadapt.rundir import write_atomically
from selfadapt.selective import RiskCoverage
from selfadapt.selective.summary import COVERAGES


def write(
    folder: Path, figures: Mapping[str, Any], curves: Mapping[str, RiskCoverage]
) -> list[Path]:
    """selective.json, .md, .png, .svg and .pdf."""
    folder.mkdir(exist_ok=True)
    points = {
        name: {"coverage": _some(of.coverage), "risk": _some(of.risk)}
        for name, of in curves.items()
    }
    text = json.dumps({**figures, "curves": points}, indent=1, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / "selective.json", (text + "\n").encode())
    write_atomically(folder / "selective.md", as_markdown(figures).encode())
    return [folder / "selective.json", folder / "selective.md", *_draw(folder, curves)]


def _some(values: Any, most: int = 500) -> list[float]:
    """Enough points to draw the curve by, the last among them."""
    places = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(int))
    return [float(x) for x in values[places]]


def _draw(folder: Path, curves: Mapping[str, RiskCoverage]) -> list[Path]:
    from selfadapt.tables.figures import style  # slow to import

    with style.look():
        figure, [axes] = style.panels(1, 1)
        entries = []
        for number, (name, of) in enumerate(curves.items()):
            drawn = {"color": style.COLOURS[number], "linestyle": style.DASHES[number % 4]}
            axes.plot(100 * of.coverage, 100 * of.risk, **drawn)
            entries.append((name, drawn))
        axes.set_xlabel("answered, %")
        axes.set_ylabel("wrong among those, %")
        style.legend(figure, entries)
        return style.save(figure, folder, "selective")


def lines(figures: Mapping[str, Any], *, short: bool = False) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table: a score each. In short, what fits into 80 columns."""
    asked = {f"error_at_{round(100 * c)}": f"{round(100 * c)} %" for c in COVERAGES}
    areas = {"aurc": "AURC", "excess_aurc": "excess", "augrc": "AUGRC", "auroc_other": "AUROC"}
    if short:
        del areas["excess_aurc"]
    if "auroc_other" not in next(iter(figures["scores"].values())):
        del areas["auroc_other"]
    columns, digits = asked | areas, 1 if short else 2
    body = [
        [name, *(_percent(of[column], digits) for column in columns)]
        for name, of in figures["scores"].items()
    ]
    return ["score", *columns.values()], body


def _percent(share: float | None, digits: int = 2) -> str:
    return "–" if share is None else f"{100 * share:.{digits}f}"


def as_markdown(figures: Mapping[str, Any]) -> str:
    header, body = lines(figures)
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *body]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    at = figures["at_threshold"]
    classes = "\n".join(f"| {name} | {_percent(x)} |" for name, x in at["class_coverage"].items())
    return (
        f"# When not to answer\n\nError of the answers, in percent, where so many of "
        f"{figures['samples']:,} samples are answered, the surest first by each score; areas times "
        f"100. Measured on {figures['part']}, labels as {figures['labels']}; calibration error "
        f"{_percent(figures['calibration_error'])} %.\n\n{table}\n\n"
        f"Answered of each class, in percent, by {at['score']} at a coverage of "
        f"{_percent(at['coverage'])} %:\n\n| class | answered |\n| --- | ---: |\n{classes}\n"
    )
