"""What there is to choose from, read off the code: names, cards and settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from selfadapt import corruption, data, errors, methods, nets, signatures
from selfadapt.data import sources
from selfadapt.engine.plan import Plan
from selfadapt.experiment.assembly import make_parts

_COLUMNS = 100


def show(out: Console) -> None:
    """In lines that fit the terminal; a file gets 100 columns."""
    _set_width(out)
    _table(out, "Methods (--method)", methods.names(), methods.resolve)
    _table(out, "Nets (--net, --set net.…)", nets.names(), nets.resolve)
    out.print("  also module:function, timm:NAME, torchvision:NAME\n", style="dim", markup=False)
    _table(out, "Data with a name", sources.names(), None)
    out.print("  also a folder, .csv, .parquet, .npz, hf:owner/name\n", style="dim", markup=False)
    _table(out, "Corruptions (--set corruption.name=…)", corruption.names(), corruption.resolve)
    _all_of(out, "Reading data (--set data.…)", data.load, make_parts)
    _all_of(out, "Training (--set train.…)", Plan)


def show_one(out: Console, name: str) -> None:
    """The whole card of one of them: what it is, its formula, where it comes from."""
    _set_width(out)
    found: dict[str, tuple[str, str, Table | None]] = {
        each: ("data", card, None) for each, card in sources.names().items()
    }
    for kind, room in {"method": methods, "net": nets, "corruption": corruption}.items():
        for each in room.names():
            function = room.resolve(each)
            found[each] = (kind, signatures.card(function), _settings(function))
    if name not in found:
        raise errors.unknown("method, net, data source or corruption", name, found)
    kind, card, settings = found[name]
    out.print(f"[bold]{escape(name)}[/] ({kind})")
    out.print(Padding(Text(card), (0, 2)), soft_wrap=False)
    if settings is not None:
        out.print(Padding(settings, (1, 2, 0, 2)), soft_wrap=False)


def _set_width(out: Console) -> None:
    out.width = min(_COLUMNS, out.width) if out.is_terminal else _COLUMNS


def _all_of(out: Console, title: str, *functions: Callable[..., Any]) -> None:
    out.print(f"[bold]{escape(title)}[/]")
    for function in functions:
        out.print(Padding(_settings(function) or "", (0, 2)), soft_wrap=False)
    out.print()


def _table(
    out: Console,
    title: str,
    cards: Mapping[str, str],
    resolve: Callable[[str], Callable[..., Any]] | None,
) -> None:
    out.print(f"[bold]{escape(title)}[/]")
    grid = Table(box=None, show_header=False, padding=(0, 2), pad_edge=True)
    for name, card in cards.items():
        text = Text(" ".join(card.split("\n\n")[0].split()))
        settings = None if resolve is None else _settings(resolve(name))
        grid.add_row(f"[bold]{escape(name)}[/]", Group(text, *([settings] if settings else [])))
    out.print(grid, soft_wrap=False)
    out.print()


def _settings(function: Callable[..., Any]) -> Table | None:
    """One line a setting: its default and what it means."""
    said = signatures.meanings(function)
    grid = Table.grid(padding=(0, 2))
    before = None
    for name, parameter in signatures.settings_of(function).items():
        if name == "progress":
            continue
        meaning = said.get(name, "")
        default = f"[cyan]{escape(_with_default(parameter))}[/]"
        grid.add_row(default, Text("" if meaning == before else meaning, style="dim"))
        before = meaning
    return grid if grid.row_count else None


def _with_default(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return f"{parameter.name} (to be given)"
    if isinstance(default, bool | None):
        default = str(default).lower()
    return f"{parameter.name}={f'{default:.4g}' if isinstance(default, float) else default}"
