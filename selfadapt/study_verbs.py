"""The commands of a study: its cells, and tables of any runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from selfadapt import errors, launched
from selfadapt.parameters import Flag, Sets, Several

if TYPE_CHECKING:
    from rich.console import Console

    from selfadapt.reproduce import Group, Report, Study

Where = Annotated[list[str] | None, Parameter(negative="")]


def reproduce(
    recipe: str | None = None,
    /,
    *,
    list: Annotated[bool, Flag] = False,
    scale: str = "small",
    data_root: Path | None = None,
    out: Path = Path("runs"),
    shard: str | None = None,
    jobs: int = 1,
    seeds: int | None = None,
    where: Where = None,
    set: Sets = None,
    dry_run: Annotated[bool, Flag] = False,
) -> None:
    """Carry out a study: a table or figure of the paper, or one of your own.

    Each cell is a run directory of its own. The same command skips cells that are done and goes on
    with those that were cut off; a cell that fails does not stop the others. Then table and figures
    are written over whatever is done by now.

    Example: selfadapt reproduce sensitivity --scale small --jobs 2

    Parameters
    ----------
    recipe
        The name of a recipe, or a file of your own: NAME.toml.
    list
        Show every recipe there is, and how many cells it has.
    scale
        small is for two cores, paper for GPUs.
    data_root
        Where named sets lie, in their published layouts.
    out
        Everything goes to OUT/RECIPE-SCALE.
    shard
        This command's share of the cells, such as 2/4 on the second of four machines.
    jobs
        Cells at a time, each in a process of its own; cores and GPUs are shared out.
    seeds
        How many seeds, instead of those of the recipe.
    where
        Only the cells of which this is so, such as method.name=erm,sat; may be repeated.
    set
        A setting for every cell, as table.key=value; may be repeated.
    dry_run
        Only say what would be run, and estimate how long it takes and how much memory.
    """
    if list:
        _show_recipes()
        return
    asked: dict[str, Any] = {"scale": scale, "data_root": data_root, "out": out, "shard": shard}
    asked |= {"seeds": seeds, "where": where or [], "jobs": jobs}
    _start(recipe, asked, set or [], dry_run)


def _start(recipe: str | None, asked: dict[str, Any], set: Sequence[str], dry_run: bool) -> None:
    from selfadapt.recipe import parse

    if recipe is None:
        raise errors.BadInput("name a recipe: `selfadapt reproduce --list` shows them all")
    asked["settings"] = parse(set)
    (_estimate if dry_run else _carry_out)(recipe, asked)


def _carry_out(recipe: str, asked: Mapping[str, Any]) -> None:
    from selfadapt import terminal
    from selfadapt.reproduce import reproduce as run

    screen = terminal.console()
    with terminal.View(screen) as view:
        report = run(recipe, **asked, show=terminal.StudyView(view))
    if launched.is_first():
        _tell(report, screen)
    failed = report.failed
    if failed:
        first = next(iter(failed.values())).strip().splitlines()[-1]
        where = report.study.failure_file("NAME").parent
        raise errors.CellsFailed(
            f"{len(failed)} of {len(report.outcomes)} cells failed: {', '.join(failed)}. "
            f"The reasons are in {where}; the first: {first}"
        )


def _tell(report: Report, screen: Console) -> None:
    for name, outcome in report.outcomes.items():
        if outcome.ending == "in use":
            screen.print(f"{name} was left out: {outcome.text}", markup=False)
    if report.written.table is not None:
        screen.print()
        report.written.table.to_terminal(screen)
    for note in report.written.notes:
        screen.print(note, markup=False)
    screen.print(f"\nTable, figures and a run directory per cell: {report.study.folder}")


def _estimate(recipe: str, asked: Mapping[str, Any]) -> None:
    from selfadapt import terminal
    from selfadapt.reproduce import check_jobs, estimate, plan

    jobs = asked["jobs"]
    check_jobs(jobs)
    study = plan(recipe, **{name: value for name, value in asked.items() if name != "jobs"})
    screen = terminal.console()
    with terminal.View(screen) as view:
        groups = estimate(study, jobs, view.run("estimate"))
    for group in groups:
        for line in _about(group, study):
            screen.print(line, markup=False)
    for line in _in_all(groups, study, jobs):
        screen.print(line, markup=False)


def _about(group: Group, study: Study) -> Iterator[str]:
    from selfadapt.terminal import duration

    counts = {word: group.count(s) for word, s in (("done", "done"), ("begun", "partial"))}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    cells = f"{len(group.tasks)} cell{'s' * (len(group.tasks) > 1)}" + (told and f" ({told})")
    needs = f"each ? ({group.reason})"
    if group.needs is not None:
        needs = f"each {duration(group.needs.seconds)}, {_gigabytes(group.needs.memory)}"
    yield f"{group.method} · {group.net} · {group.data} · {group.epochs} epochs: {cells}, {needs}"
    differ = [f"{name} {' '.join(map(str, v))}" for name, v in group.varied(study).items()]
    yield f"  {' · '.join(differ) or group.tasks[0].name}"


def _in_all(groups: Sequence[Group], study: Study, jobs: int) -> Iterator[str]:
    from selfadapt.terminal import duration

    known = [group for group in groups if group.needs is not None]
    at_least = "at least " if len(known) < len(groups) else ""
    left = sum(group.seconds_left or 0.0 for group in known)
    most = max((group.needs.memory for group in known if group.needs), default=0.0)
    done = sum(group.count("done") for group in groups)
    share = "" if len(study.tasks) == len(study.cells) else f" of {len(study.cells)}"
    yield f"\n{len(study.tasks)}{share} cells, {done} of them done, into {study.folder}"
    yield f"An estimate for this machine: {at_least}{duration(left)} one after the other, " + (
        f"{at_least}{_gigabytes(most)} for the largest"
    )
    if jobs > 1:
        yield (
            f"{jobs} at a time: {at_least}{duration(left / jobs)} if they do not wait for each "
            f"other, up to {_gigabytes(jobs * most)}"
        )
    yield (
        "Measured by two training steps of each method and net on few random samples; reading "
        "files, and what PyTorch itself takes, are not counted."
    )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


def _show_recipes() -> None:
    from selfadapt import study, terminal

    screen = terminal.console()
    for name in study.names():
        found = study.read(name)
        small, paper = (len(found.cells(scale)) for scale in study.SCALES)
        screen.print(f"[bold]{name}[/]: {small} cells at small scale, {paper} at paper scale")
        screen.print(f"  {found.title}\n  [dim]{found.source}[/]", markup=True)


def table(
    runs: list[Path],
    /,
    *,
    rows: Several = None,
    columns: Several = None,
    metrics: Several = None,
    to: Path | None = None,
) -> None:
    """Lay runs out side by side: means over their seeds, with deviations and costs.

    Example: selfadapt table runs/ablation-small --columns corruption.rate

    Parameters
    ----------
    runs
        Run directories, folders that hold some, or a study.json.
    rows
        Settings to lay out downwards, such as method.name; what differs, if nothing is said.
    columns
        Settings to lay out across.
    metrics
        What to show, such as accuracy or labels_right.
    to
        A file to write instead of showing it: .md, .tex or .csv.
    """
    from selfadapt import tables, terminal

    found = tables.rows(runs)
    layout = tables.layout_for(found, metrics or ["accuracy"])
    if rows or columns:
        layout = tables.Layout(rows or layout.rows, columns or [], metrics or ["accuracy"])
    made = tables.build(found, layout)
    screen = terminal.console()
    if to is None:
        made.to_terminal(screen)
        return
    ways = {".md": made.to_markdown, ".tex": made.to_latex, ".csv": made.to_csv}
    if to.suffix not in ways:
        raise errors.unknown("kind of file", to.suffix, ways)
    to.write_text(ways[to.suffix](), encoding="utf-8")
    screen.print(f"{to}: {len(found)} runs", markup=False)
