"""How a run looks in a terminal: live bars where there is one, plain lines where there is not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from selfadapt import launched

_PLAIN_SECONDS = 10.0


def console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


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
            TimeRemainingColumn(compact=True),
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

    def __call__(self, event: Mapping[str, Any]) -> None:
        if "note" in event:
            self.view.note(event["note"])
        elif "stage" in event:
            self.name = " · ".join(filter(None, (self.method, event["stage"])))
            self.view.bars.update(self.task, description=escape(self.name), completed=0)
        elif "line" in event:
            self._line(event["line"], event["epochs"])
        elif "step" in event:
            done = event["epoch"] + event["step"] / event["steps"]
            self.view.bars.update(self.task, completed=done, total=event["epochs"])
        elif "what" in event:
            text = f"{event['what']} {event['done']:,}/{event['total']:,}"
            if "epoch" in event:  # the bar stands for the epochs
                self.view.bars.update(self.task, text=text)
            else:
                done, total = event["done"], event["total"]
                self.view.bars.update(self.task, completed=done, total=total, text=text)

    def _line(self, line: Mapping[str, Any], epochs: int) -> None:
        text = summary(line, epochs)
        self.view.bars.update(self.task, completed=line["epoch"] + 1, total=epochs, text=text)
        last = line["epoch"] + 1 == epochs
        if self.view.live or self.view.quiet:
            return
        if last or time.monotonic() - self.said > _PLAIN_SECONDS:
            self.said = time.monotonic()
            self.view.out.print(f"{self.name}: {text}", markup=False)


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
