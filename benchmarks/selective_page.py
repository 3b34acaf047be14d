"""docs/selective_results.md: every method by every score, from the studies kept under
results/study/.

python benchmarks/selective_page.py
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from writing import ROOT

from selfadapt import tables
from selfadapt.selective.scores import SCORES
from selfadapt.selective.summary import COVERAGES
from selfadapt.tables import Row

SHARES = [round(100 * coverage) for coverage in COVERAGES]
METHODS = ("erm", "sat_selective", "deep_gamblers", "selectivenet")
STUDIES = {
    "selective": "Digits",
    "selective-10k": "10,000 images of CIFAR-10",
}
OTHERS = {"fashion-mnist": "clothes (Fashion-MNIST)", "left_out": "two classes left out"}
_ONE = 0.8  # the SelectiveNet that areas are of
_TOP = """# Which score won where

Every method by every score, on data that two cores or one GPU train on in minutes: errors compare
with each other, not with the paper's. This page is written by `python benchmarks/selective_page.py`
from `results/study/`; commands, seeds, commits and machines are on the page of
[results](results.md), and what the scores are under [when not to answer](selective.md).

Error in percent of the answers, where so many are answered, the surest test samples first; areas
times 100; mean ± standard deviation over seeds. Of SelectiveNet each column has the model that was
trained for it, and areas are those of the model for 80 %. Bold is the best mean of a column. The
last column is what a user gets: the share of test samples answered by a threshold that was to
answer 90 %, set on the calibration part, and how many of those answers were wrong.
"""


def main() -> None:
    folder = ROOT / "results" / "study"
    parts = [_TOP.strip()]
    for name, words in STUDIES.items():
        if (folder / f"{name}.json").exists():
            parts += study(words, tables.rows(folder / f"{name}.json"))
    others = folder / "selective-others.json"
    if others.exists():
        parts += told_apart(tables.rows(others))
    (ROOT / "docs" / "selective_results.md").write_text("\n\n".join(parts) + "\n")


def study(words: str, rows: Sequence[Row]) -> list[str]:
    parts = []
    for rate in sorted({row.get("corruption.rate") for row in rows}):
        here = [row for row in rows if row.get("corruption.rate") == rate]
        noise = "labels as they are" if not rate else f"{100 * rate:.0f} % of labels drawn anew"
        parts += [f"## {words}, {noise}", errors(here), winners(here)]
    return parts


def errors(rows: Sequence[Row]) -> str:
    header = ["method", "score", *(f"{x} %" for x in SHARES), "AURC", "AUGRC", "asked for 90 %"]
    found = {}
    for method, score in pairs(rows):
        values = [at(rows, method, f"error_at_{x}_by_{score}", x / 100) for x in SHARES]
        values += [at(rows, method, f"{area}_by_{score}") for area in ("aurc", "augrc")]
        found[method, score] = values
    best = [min(filter(None, column), default=None) for column in means(found.values())]
    body = [
        [
            *(method, score),
            *(cell(v, b) for v, b in zip(values, best, strict=True)),
            promised(rows, method, score),
        ]
        for (method, score), values in found.items()
    ]
    return table(header, body)


def pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [
        (method, score)
        for method in METHODS
        for score in SCORES
        if any(row.get(f"aurc_by_{score}") is not None for row in of(rows, method))
    ]


def of(rows: Sequence[Row], method: str, coverage: float | None = None) -> list[Row]:
    """The runs of a method, each seed once."""
    mine = [row for row in rows if row.get("method.name") == method]
    if method == "selectivenet":
        wanted = coverage if coverage is not None and coverage < 1 else _ONE
        mine = [row for row in mine if row.get("method.coverage") == wanted]
    return list({row.seed: row for row in reversed(mine)}.values())


def at(rows: Sequence[Row], method: str, name: str, coverage: float | None = None) -> list[float]:
    found = [row.get(name) for row in of(rows, method, coverage)]
    return [100 * value for value in found if value is not None]


def means(lines: Iterable[Sequence[list[float]]]) -> list[list[float | None]]:
    columns = zip(*lines, strict=True)
    return [[statistics.fmean(v) if v else None for v in column] for column in columns]


def cell(values: Sequence[float], best: float | None) -> str:
    if not values:
        return "–"
    mean = statistics.fmean(values)
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    text = f"{mean:.2f}{spread}"
    return f"**{text}**" if best is not None and mean <= best + 1e-9 else text


def promised(rows: Sequence[Row], method: str, score: str) -> str:
    """Where a threshold was set on held-out samples: what it answered, and how much was wrong."""
    mine = [row for row in rows if row.get("method.name") == method and row.get("score") == score]
    mine = [row for row in mine if row.get("method.coverage") in (None, 0.9)]
    shares = [row.get("held_out_coverage_at_90") for row in mine]
    wrong = [row.get("held_out_error_at_90") for row in mine]
    if not mine or None in shares or None in wrong:
        return "–"
    return f"{100 * statistics.fmean(shares):.1f}, wrong {100 * statistics.fmean(wrong):.2f}"


def winners(rows: Sequence[Row]) -> str:
    """By area under error against coverage."""
    area: dict[tuple[str, str], float] = {
        (method, score): statistics.fmean(at(rows, method, f"aurc_by_{score}"))
        for method, score in pairs(rows)
    }
    first = min(area, key=area.__getitem__)
    told = [f"By AURC the best is {first[0]} by {first[1]}."]
    for method in METHODS:
        mine = {score: x for (name, score), x in area.items() if name == method}
        if mine:
            order = sorted(mine, key=mine.__getitem__)
            told.append(f"{method}: {', '.join(order)}.")
    return " ".join(told[:1]) + " Scores of each method, the best first:\n\n" + bullets(told[1:])


def told_apart(rows: Sequence[Row]) -> list[str]:
    parts = ["## Samples of another kind told apart", "AUROC in percent; 50 is chance."]
    for against, words in OTHERS.items():
        here = [row for row in rows if row.get("train.against") == against]
        values = {
            (method, score): at(here, method, f"auroc_other_by_{score}")
            for method in METHODS
            for score in SCORES
        }
        best = max(statistics.fmean(v) for v in values.values() if v)
        body = [[m, *(high(values[m, score], best) for score in SCORES)] for m in METHODS]
        parts += [f"Digits against {words}:", table(["method", *SCORES], body)]
    return parts


def high(values: Sequence[float], best: float) -> str:
    text = cell(values, None)
    return f"**{text}**" if values and statistics.fmean(values) >= best - 1e-9 else text


def table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


if __name__ == "__main__":
    main()
