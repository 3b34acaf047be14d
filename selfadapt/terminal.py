"""How a run looks in a terminal: live bars where there is one, plain lines where there is not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from selfadapt import launched

_PLAIN_SECONDS = 10.0


def console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


class _TimeLeft(TimeRemainingColumn):
    """A bar may know better than its own speed."""

    def render(self, task: Task) -> Text:
        told = task.fields.get("left")
        return super().render(task) if told is None else Text(told, style="progress.remaining")


class View:
    """Shows several runs, one after the other, each with its bar."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.quiet = not launched.is_first()
        self.live = out.is_terminal and not self.quiet
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            _TimeLeft(compact=True),
            console=out,
            disable=not self.live,
        )
        self.reading: TaskID | None = None

    def __enter__(self) -> View:
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.stop()

    def run(self, name: str) -> RunView:
        return RunView(self, name)

    def say(self, text: str) -> None:
        if not self.quiet:
            self.bars.console.print(text, markup=False)

    def note(self, text: str) -> None:
        if not self.quiet:
            style = "yellow" if text.startswith("warning") else "dim"
            self.bars.console.print(f"[{style}]{escape(text)}[/]")


class RunView:
    """One run's events, as `fit` sends them to its `show`."""

    def __init__(self, view: View, name: str) -> None:
        self.view = view
        self.method = self.name = name
        self.task = view.bars.add_task(escape(name), total=None, text="waiting")
        self.said = time.monotonic()
        self.reached = ""  # what was said of the last epoch

    def __call__(self, event: Mapping[str, Any]) -> None:
        if "note" in event:
            self.view.note(event["note"])
        elif "stage" in event:
            self.name = " · ".join(filter(None, (self.method, event["stage"])))
            self.reached = ""
            self.view.bars.update(self.task, description=escape(self.name), completed=0)
        elif "line" in event:
            self._line(event["line"], event["epochs"])
        elif "step" in event:
            done = event["epoch"] + event["step"] / event["steps"]
            text = self.reached or f"epoch {event['epoch'] + 1}/{event['epochs']}"
            self.view.bars.update(self.task, completed=done, total=event["epochs"], text=text)
        elif "what" in event:
            self._work(event)

    def _work(self, event: Mapping[str, Any]) -> None:
        """Something beside training: once it is done, the bar tells of the epochs again."""
        done, total = event["done"], event["total"]
        text = f"{event['what']} {done:,}/{total:,}"
        if "epoch" in event:  # the bar stands for the epochs
            self.view.bars.update(self.task, text=text)
        else:
            text = self.reached if done == total and self.reached else text
            self.view.bars.update(self.task, completed=done, total=total, text=text)

    def close(self) -> None:
        self.view.bars.remove_task(self.task)

    def _line(self, line: Mapping[str, Any], epochs: int) -> None:
        text = self.reached = summary(line, epochs)
        self.view.bars.update(self.task, completed=line["epoch"] + 1, total=epochs, text=text)
        last = line["epoch"] + 1 == epochs
        if self.view.live or self.view.quiet:
            return
        if last or time.monotonic() - self.said > _PLAIN_SECONDS:
            self.said = time.monotonic()
            self.view.say(f"{self.name}: {text}")


class StudyView:
    """The cells of a study, as `reproduce` tells of them: a bar for the whole, and one for each
    that is under way. Work is counted in epochs."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.whole = view.bars.add_task("all cells", total=None, text="looking", left="")
        self.started = time.monotonic()
        self.todo: Mapping[str, int] = {}
        self.cells = self.ended = self.failed = 0
        self.runs: dict[str, RunView] = {}
        self.reached: dict[str, tuple[float, float]] = {}  # epochs: where it began, where it is
        self.noted: set[str] = set()

    def __call__(self, event: Mapping[str, Any]) -> None:
        if "todo" in event:
            self.todo, self.cells = event["todo"], event["cells"]
            self.started = time.monotonic()
            self._show()
        elif "outcome" in event:
            self._end(event["cell"], event["outcome"])
        elif "note" not in event:
            self._go_on(event["cell"], event)
        elif event["note"] not in self.noted:  # cells have most of them in common
            self.noted.add(event["note"])
            self.view.note(event["note"])

    def _go_on(self, cell: str, event: Mapping[str, Any]) -> None:
        if cell not in self.runs:
            self.runs[cell] = self.view.run(cell)
        run = self.runs[cell]
        run(event)
        if "epochs" in event and run.name == cell:  # and not in a stage before its last
            here = event["line"]["epoch"] + 1 if "line" in event else _epochs(event)
            self.reached[cell] = self.reached.get(cell, (here, here))[0], here
            self._show()

    def _end(self, cell: str, outcome: Any) -> None:
        self.ended += 1
        self.failed += outcome.ending == "failed"
        if cell in self.runs:
            self.runs.pop(cell).close()
        if cell in self.todo:
            began = self.reached.get(cell, (0.0, 0.0))[0]
            self.reached[cell] = began, self.todo[cell]
            self._show()
        if outcome.ending != "was done":
            ending = f"{outcome.ending}: {outcome.text}" if outcome.text else outcome.ending
            self.view.say(f"{cell} {ending.splitlines()[0]} · {self._text()}{self._left(', ')}")

    def _show(self) -> None:
        at = sum(here for _, here in self.reached.values())
        total = sum(self.todo.values())
        text, left = self._text(), self._left()
        self.view.bars.update(self.whole, completed=at, total=total, text=text, left=left)

    def _text(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended}/{self.cells or '?'} cells{failed}"

    def _left(self, before: str = "") -> str:
        """By what this command has done until now; cells were cut off at various epochs."""
        worked = sum(here - began for began, here in self.reached.values())
        left = sum(self.todo.values()) - sum(here for _, here in self.reached.values())
        if worked <= 0 or left <= 0:
            return ""
        return f"{before}about {duration((time.monotonic() - self.started) * left / worked)} left"


def _epochs(event: Mapping[str, Any]) -> float:
    return float(event["epoch"] + event["step"] / event["steps"])


def duration(seconds: float) -> str:
    """As a person would say it: 40 s, 12 min, 3 h 5 min, 4 days 2 h."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.1f} s"
    if minutes < 90:
        return f"{minutes} min"
    if hours < 36:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} days {hours % 24} h"


def summary(line: Mapping[str, Any], epochs: int) -> str:
    parts = [f"epoch {line['epoch'] + 1}/{epochs}", f"loss {line['loss']:.3f}"]
    named = {
        "validation_accuracy": "validation",
        "test_accuracy": "test",
        "labels_changed": "changed",
    }
    parts += [
        f"{word} {percent(line[key])}" for key, word in named.items() if line[key] is not None
    ]
    return " · ".join(parts)


def result_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Finished runs side by side; what no run knows gets no column."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    for name in columns:
        table.add_column(name, justify="left" if name == columns[0] else "right")
    for row in rows:
        table.add_row(*("–" if row[name] is None else str(row[name]) for name in columns))
    return table


def result_row(result: Mapping[str, Any]) -> dict[str, str | None]:
    right = result["labels_right"]
    before = None if result["error_rate"] is None else 1 - result["error_rate"]
    return {
        "method": result["method"],
        "test accuracy": _or_none(result["accuracy"]),
        "at best validation": _or_none(result["accuracy_best_validation"]),
        "labels changed": _or_none(result["labels_changed"]),
        "labels right": None if right is None else f"{percent(before)} → {percent(right)}",
        "seconds": f"{result['seconds']:.1f}",
    }


def _or_none(share: float | None) -> str | None:
    return None if share is None else percent(share)
