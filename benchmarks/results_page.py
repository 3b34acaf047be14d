"""docs/results.md and its pictures, from the studies kept under results/study/ and the recipes.

python benchmarks/results_page.py

`selfadapt reproduce NAME` writes OUT/NAME-SCALE/study.json; a copy of it as
results/study/NAME.json puts the study on the page. results/study/NAME.md, if there is one, says
in a person's words why a finding does not hold there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from findings import FINDINGS, Verdict, judge, same_noise
from PIL import Image

from selfadapt import study, tables
from selfadapt.study import Recipe
from selfadapt.tables import Row, Table, as_markdown, figures
from selfadapt.tables.groups import identity
from selfadapt.tables.words import name_of, value_of

ROOT = Path(__file__).resolve().parent.parent
_LARGEST_SVG = 300_000  # bytes
_SETTINGS = ("data.", "corruption.", "net.", "train.")
_TOP = """# Results

Every table and figure of the paper, carried out by `selfadapt reproduce`, from the files under
`results/study/`, which hold each run's settings, seed, commit, machine, noise and results. This
page is written by `make results`; its verdicts are computed from those files.

**Small scale is not the paper's.** It is the same code and the same recipe on data and nets that
two cores train in minutes, so its accuracies and errors do not compare with published ones in
absolute terms. What may compare is the order of methods and the shape of curves: that is what the
verdicts ask. Published numbers stand beside ours with the data and net they are of. A difference
is within the noise of seeds if it is less than twice its standard error over them.
"""


@dataclass(frozen=True)
class Kept:
    """A study that has been run."""

    path: Path
    recipe: Recipe
    scale: study.Scale
    environment: Mapping[str, Any]
    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    noise: Verdict | None  # whether methods were compared on the same


def main(results: Path = ROOT / "results" / "study", docs: Path = ROOT / "docs") -> None:
    known = {name: study.read(name) for name in study.names()}
    kept = [_kept(path, known) for path in sorted(results.glob("*.json"))]
    order = [*FINDINGS, *known]  # the main table first, then as the paper has it
    kept.sort(key=lambda one: (order.index(one.recipe.name), one.scale == "paper", one.path.name))
    pictures = docs / "pictures" / "results"
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.iterdir():
        old.unlink()
    parts = [_TOP.strip(), summary(kept)]
    parts += [section(one, pictures, docs) for one in kept]
    parts.append(
        not_run([r for r in known.values() if r.name not in {k.recipe.name for k in kept}])
    )
    (docs / "results.md").write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")


def _kept(path: Path, known: Mapping[str, Recipe]) -> Kept:
    environment = tables.read_environment(path)
    name, scale = str(environment.get("recipe")), environment.get("scale")
    if name not in known or scale not in study.SCALES:
        raise SystemExit(f"{path} is of recipe {name!r} at scale {scale!r}: there is none")
    rows = tables.rows(path)
    return Kept(path, known[name], scale, environment, rows, judge(name, rows), same_noise(rows))


def summary(kept: Sequence[Kept]) -> str:
    """Every verdict on the paper's findings in one table, with where its figures are."""
    lines = [
        f"| {verdict.claim} | {verdict.word} | {_heading(one)} |"
        for one in kept
        for verdict in one.verdicts
    ]
    if not lines:
        return ""
    return "\n".join(["## In short", "", "| finding | holds | study |", "|---|---|---|", *lines])


def _heading(one: Kept) -> str:
    return one.recipe.title + (", paper scale" if one.scale == "paper" else "")


def section(one: Kept, pictures: Path, docs: Path) -> str:
    recipe = one.recipe
    parts = [f"## {_heading(one)}", f"{recipe.source}. {recipe.note}".strip()]
    asked = [*one.verdicts, *filter(None, [one.noise])]
    parts += ["\n".join(verdict.markdown() for verdict in asked)] if asked else []
    why = one.path.with_suffix(".md")
    if why.exists():
        parts.append(why.read_text(encoding="utf-8").strip())
    if recipe.table:
        parts += _tables(one)
    for figure in recipe.figures:
        parts += _figure(one, figure, pictures, docs)
    return "\n\n".join([*parts, _made_by(one)])


def _tables(one: Kept) -> list[str]:
    """Ours, with published numbers where a cell of ours stands for one of the paper's; else the
    paper's in a table of their own."""
    layout = tables.Layout(**one.recipe.table)
    stands_for = one.recipe.stands_for(one.scale)
    comparable = one.recipe if one.scale == "paper" else _without_knobs(one.recipe)
    expected = _expected(comparable, {**stands_for, "scale": one.scale})
    table = tables.build(one.rows, layout, expected, differences=one.scale == "paper")
    beside = any(cell.paper is not None for block in table.blocks for cell in block.cells.values())
    if beside and stands_for:
        named = ", ".join(map(str, stands_for.values()))
        table = replace(table, notes=[*table.notes, f"The paper's numbers are of {named}."])
    published = [] if beside else _published(one.recipe, layout)
    return [table.to_markdown().strip(), *published]


def _without_knobs(recipe: Recipe) -> Recipe:
    """Only the published numbers that another scale may stand beside: the 20th of 200 epochs, or a
    width of another net, means something else there."""
    free = {"data.name", "net.name", "method.name"}
    same = [
        one
        for one in recipe.expect
        if all(k in free or k.startswith("corruption.") or "." not in k for k in one.where)
    ]
    return replace(recipe, expect=same)


def _expected(
    recipe: Recipe, known: Mapping[str, Any]
) -> Callable[[Mapping[str, Any], str], float | None]:
    return lambda row, metric: recipe.expected({**row, **known}, metric)


def _published(recipe: Recipe, layout: tables.Layout) -> list[str]:
    """The paper's own table, in its own layout."""
    cells = recipe.cells("paper", seeds=1)
    rows = [
        Row(path=cell.name, done=True, seed=None, settings=cell.settings, labels=cell.labels)
        for cell in cells
    ]
    named = {name for expectation in recipe.expect for name in [expectation.metric]}
    metrics = [name for name in layout.metrics if name in named]
    if not metrics:
        return []
    expected = _expected(recipe, {"scale": "paper"})
    table = tables.build(rows, replace(layout, metrics=metrics), expected)
    return [f"The paper's numbers:\n\n{_only_published(table)}"]


def _only_published(table: Table) -> str:
    parts = []
    for grid in table.grids():
        body = [
            [replace(text, main=text.below or "–", below="") for text in line] for line in grid.body
        ]
        parts += [
            f"**{as_markdown.escape(grid.title)}**",
            as_markdown.table(replace(grid, body=body)),
        ]
    return "\n\n".join(parts)


def _figure(one: Kept, spec: Mapping[str, Any], pictures: Path, docs: Path) -> list[str]:
    """The SVG, or a PNG of few colours where that is smaller."""
    name = f"{one.path.stem}-{spec['name']}"
    title = spec.get("title") or one.recipe.title
    with tempfile.TemporaryDirectory() as folder:
        drawn = figures.draw(one.rows, {**spec, "name": name}, _heading(one), folder)
        if not drawn.files:
            return [f"*{as_markdown.escape(note)}*" for note in drawn.notes]
        png, svg, _ = drawn.files
        picture = pictures / svg.name
        if svg.stat().st_size <= _LARGEST_SVG:
            picture.write_bytes(svg.read_bytes())
        else:
            picture = pictures / png.name
            with Image.open(png) as image:
                image.convert("RGB").quantize(64).save(picture, optimize=True)
    alt = f"{title}: {spec['name']}"
    return [f"![{as_markdown.escape(alt)}]({picture.relative_to(docs).as_posix()})"]


def _made_by(one: Kept) -> str:
    """One line that says what made this, so that somebody else can."""
    environment = one.environment
    seeds = sorted({row.seed for row in one.rows if row.seed is not None})
    machines = dict.fromkeys(map(_machine, environment["machines"]))
    said = [
        f"`selfadapt reproduce {one.recipe.name} --scale {one.scale}`",
        f"{len(one.rows)} runs, seeds {', '.join(map(str, seeds))}",
        _settings(one),
        f"commit {', '.join(map(str, environment['commits']))}",
        environment["date"],
        "; ".join(machines),
        f"`{one.path.relative_to(one.path.parents[2]).as_posix()}`",
    ]
    return ". ".join(filter(None, said)) + "."


def _machine(machine: Mapping[str, Any]) -> str:
    chip = machine.get("accelerator") or machine.get("processor") or "an unknown machine"
    return f"{chip}, threads: {machine.get('threads')}, {machine.get('precision')}"


def _settings(one: Kept) -> str:
    """What the recipe sets for all of its runs, as the runs say it."""
    asked = dict.fromkeys(name for cell in one.recipe.cells(one.scale) for name in cell.settings)
    alike = {
        name: one.rows[0].get(name)
        for name in asked
        if name.startswith(_SETTINGS) and len({identity(row.get(name)) for row in one.rows}) == 1
    }
    said = [
        f"{name_of(name)} {value_of(name, value)}"
        for name, value in alike.items()
        if value is not None
    ]
    return ", ".join(said)


def not_run(recipes: Iterable[Recipe]) -> str:
    lines = [f"- `selfadapt reproduce {r.name} --scale small`: {r.title}" for r in recipes]
    return "\n".join(["## Not run yet", "", *lines]) if lines else ""


if __name__ == "__main__":
    main()
