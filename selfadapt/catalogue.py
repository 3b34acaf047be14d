"""What there is to choose from, read off the code: names, cards and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from selfadapt import corruption, data, methods, nets, signatures
from selfadapt.data import sources
from selfadapt.engine.plan import Plan
from selfadapt.experiment.assembly import make_parts


def show(out: Console) -> None:
    _table(out, "Methods (--method)", methods.names(), methods.resolve, "method")
    _table(out, "Nets (--net)", nets.names(), nets.resolve, "net")
    out.print("  also module:function, timm:NAME, torchvision:NAME\n", style="dim", markup=False)
    _table(out, "Data with a name", sources.names(), None, "data")
    out.print("  also a folder, .csv, .parquet, .npz, hf:owner/name\n", style="dim", markup=False)
    _table(out, "Corruptions (--set corruption.name=…)", corruption.names(), corruption.resolve, "")
    _all_of(out, "Reading data (--set data.…)", data.load, make_parts)
    _all_of(out, "Training (--set train.…)", Plan)


def _all_of(out: Console, title: str, *functions: Callable[..., Any]) -> None:
    settings = "  ".join(filter(None, map(_settings, functions)))
    out.print(f"[bold]{escape(title)}[/]")
    out.print(Padding(f"[cyan]{escape(settings)}[/]", (0, 2, 1, 2)), soft_wrap=False)


def _table(
    out: Console,
    title: str,
    cards: Mapping[str, str],
    resolve: Callable[[str], Callable[..., Any]] | None,
    table: str,
) -> None:
    out.print(f"[bold]{escape(title)}[/]")
    grid = Table(box=None, show_header=False, padding=(0, 2), pad_edge=True)
    for name, card in cards.items():
        text = escape(" ".join(card.split("\n\n")[0].split()))
        if resolve is not None and (settings := _settings(resolve(name))):
            text += f"\n[cyan]{escape(settings)}[/]"
        grid.add_row(f"[bold]{escape(name)}[/]", text)
    out.print(grid)


def _settings(function: Callable[..., Any]) -> str:
    return "  ".join(
        f"{name}={_plain(parameter.default)}"
        for name, parameter in signatures.settings_of(function).items()
        if name != "progress"
    )


def _plain(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool | None) else str(default)
