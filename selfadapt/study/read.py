"""From a TOML file to a recipe, with every mistake told before anything is run."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfadapt import errors, recipe
from selfadapt.errors import BadInput
from selfadapt.study.check import check, only_known
from selfadapt.study.recipe import SCALES, Expectation, Flat, Grid, Recipe, Rule

SHIPPED = Path(__file__).parent.parent / "recipes"
_PARTS = (
    *("title", "source", "note", "base", "small", "grid"),
    *("only", "skip", "expect", "table", "figure"),
)
_LAYOUT = ("rows", "columns", "metrics")
_KINDS = ("curves", "lines", "matrix")
_FIGURE: dict[str, type] = {
    **dict.fromkeys(("name", "kind", "title", "x"), str),
    **dict.fromkeys(("panels", "lines", "y"), list),
    "log_x": bool,
}


def names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read(name: str | Path) -> Recipe:
    """The recipe of that name, or in that file."""
    path = _place(name)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"the recipe {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"the recipe {path} is not valid TOML: {error}") from None
    try:
        found = _recipe(path.stem, raw)
        check(found)
    except BadInput as error:
        raise type(error)(f"the recipe {path}: {error}") from None
    return found


def _place(name: str | Path) -> Path:
    path = Path(name)
    if isinstance(name, Path) or path.suffix == ".toml" or len(path.parts) > 1:
        return path.expanduser()
    if name not in names():
        told = errors.unknown("recipe", name, names())
        raise errors.UnknownName(f"{told} Your own is named by its file: NAME.toml")
    return SHIPPED / f"{name}.toml"


def _recipe(name: str, raw: Mapping[str, Any]) -> Recipe:
    only_known("part of a recipe", raw, _PARTS)
    for part in ("title", "source", "base", "grid"):
        if part not in raw:
            raise BadInput(f"it has no {part}")
    small = dict(_a("small", raw.get("small", {}), dict))
    small_grid = small.pop("grid", None)
    grids = _grids("grid", raw["grid"])
    return Recipe(
        name=name,
        title=_a("title", raw["title"], str),
        source=_a("source", raw["source"], str),
        note=_a("note", raw.get("note", ""), str),
        base=_tables("base", raw["base"]),
        small=_tables("small", small),
        grids={"paper": grids, "small": _small_grids(grids, small_grid)},
        only=[_rule("only", entry, ("where", "set")) for entry in _entries("only", raw)],
        skip=[_rule("skip", entry, ("where",)) for entry in _entries("skip", raw)],
        expect=[_expectation(entry) for entry in _entries("expect", raw)],
        table=_layout(raw.get("table", {})),
        figures=[_figure(entry) for entry in _entries("figure", raw)],
    )


def _a(where: str, value: Any, kind: type) -> Any:
    words = {str: "text", dict: "a table", list: "a list", bool: "true or false"}
    if not isinstance(value, kind):
        raise BadInput(f"{where} must be {words[kind]}, got {value!r}")
    return value


def _entries(part: str, raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = raw.get(part, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BadInput(f"{part} is written [[{part}]], as often as there are entries")
    return found


def _tables(where: str, raw: Any) -> Flat:
    """The five tables of settings, as table.key."""
    only_known(f"table of settings in {where}", _a(where, raw, dict), recipe.TABLES)
    for name, table in raw.items():
        _a(f"{where}.{name}", table, dict)
    return _settings(where, recipe.flatten(raw))


def _settings(where: str, flat: Flat) -> Flat:
    for name, value in flat.items():
        _setting_name(where, name)
        _value(f"{where}: {name}", value)
    return flat


def _setting_name(where: str, name: str) -> None:
    table, dot, key = name.partition(".")
    only_known(f"table of settings in {where}", [table], recipe.TABLES)
    if not dot or not key:
        raise BadInput(f"{where}: a setting is table.key, such as train.epochs; got {name!r}")


def _value(where: str, value: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        infinite = isinstance(one, float) and not math.isfinite(one)
        if infinite or not isinstance(one, str | int | float):
            raise BadInput(f"{where} must be text, a number, true, false or a list; got {value!r}")


def _grids(where: str, raw: Any) -> list[Grid]:
    grids = raw if isinstance(raw, list) else [raw]
    if not grids:
        raise BadInput(f"{where} is empty: there would be nothing to run")
    return [_grid(where, grid) for grid in grids]


def _grid(where: str, raw: Any) -> Grid:
    for name, values in _a(where, raw, dict).items():
        said = f"{where}: {name}"
        if not isinstance(values, list) or not values:
            raise BadInput(f"{said} must be a list of one value or more, got {values!r}")
        if any(value in values[:place] for place, value in enumerate(values)):
            raise BadInput(f"{said} names a value twice: {values!r}")
        if "." in name:
            _setting_name(where, name)
        elif name == "scale" or name in recipe.TABLES:
            raise BadInput(f"{said} cannot be a label: choose another word")
        for value in values:
            _value(said, value)
            if name == "seed" and (type(value) is not int or value < 0):
                raise BadInput(f"{said} must be whole numbers from 0, got {value!r}")
    return dict(raw)


def _small_grids(grids: list[Grid], raw: Any) -> list[Grid]:
    """[small.grid] changes lists of the one grid; [[small.grid]] takes the place of all."""
    if raw is None:
        return grids
    changed = _grids("small.grid", raw)
    if isinstance(raw, list):
        return changed
    if len(grids) > 1:
        raise BadInput("[small.grid] cannot tell which [[grid]] it changes: write [[small.grid]]")
    return [{**grids[0], **changed[0]}]


def _where(part: str, entry: Mapping[str, Any]) -> Flat:
    where: Flat = _a(f"{part}: where", entry.get("where", {}), dict)
    if not where:
        raise BadInput(f"an entry of [[{part}]] has no where: {dict(entry)!r}")
    for name, value in where.items():
        _value(f"{part}: where {name}", value)
    wanted = where.get("scale", [])
    scales = wanted if isinstance(wanted, list) else [wanted]
    only_known(f"scale in {part}", map(str, scales), SCALES)
    return where


def _rule(part: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> Rule:
    only_known(f"key of [[{part}]]", entry, known)
    rule = Rule(_where(part, entry), _a(f"{part}: set", entry.get("set", {}), dict))
    if ("set" in known) != bool(rule.set):
        raise BadInput(f"an entry of [[{part}]] sets nothing: {dict(entry)!r}")
    _settings(f"[[{part}]] set", rule.set)
    return rule


def _expectation(entry: Mapping[str, Any]) -> Expectation:
    metrics = [name for name in entry if name != "where"]
    if len(metrics) != 1:
        raise BadInput(f"an entry of [[expect]] has one where and one metric; got {dict(entry)!r}")
    metric, percent = metrics[0], entry[metrics[0]]
    known = isinstance(percent, int | float) and not isinstance(percent, bool)
    if not known or not 0 <= percent <= 100:
        raise BadInput(f"expect: {metric} must be a percentage, 0 to 100; got {percent!r}")
    return Expectation(_where("expect", entry), metric, percent)


def _layout(raw: Any) -> dict[str, list[str]]:
    only_known("key of [table]", _a("table", raw, dict), _LAYOUT)
    return {name: _texts(f"table.{name}", raw.get(name, [])) for name in _LAYOUT} if raw else {}


def _texts(where: str, raw: Any) -> list[str]:
    texts: list[str] = [_a(where, text, str) for text in _a(where, raw, list)]
    return texts


def _figure(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    only_known("key of [[figure]]", entry, _FIGURE)
    for name in ("name", "kind", "y"):
        if name not in entry:
            raise BadInput(f"an entry of [[figure]] has no {name}: {dict(entry)!r}")
    for name, value in entry.items():
        _a(f"figure: {name}", value, _FIGURE[name])
        if isinstance(value, list):
            _texts(f"figure: {name}", value)
    only_known("kind of figure", [entry["kind"]], _KINDS)
    if not re.fullmatch(r"[\w-]+", entry["name"]):
        raise BadInput(f"figure: name is the name of a file, such as curves; got {entry['name']!r}")
    return dict(entry)
