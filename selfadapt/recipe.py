"""Settings as data: five flat tables and a seed, the same in a file, on the command line, from
Python and in run.json."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from selfadapt import errors

TABLES = ("data", "corruption", "net", "method", "train")
Settings = dict[str, dict[str, Any]]


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """`["train.epochs=40", "corruption.name=uniform"]` as {"train.epochs": 40, …}. A value is read
    as TOML; what is not valid TOML is text, and so are names and dates."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise errors.BadInput(
                f"--set takes table.key=value, such as train.epochs=40; got {assignment!r}"
            )
        read = value(text.strip())
        named = name.strip().endswith(".name") and not isinstance(read, str)
        settings[name.strip()] = text.strip() if named else read
    return settings


def value(text: str) -> Any:
    """What was typed, read as TOML where it is that."""
    try:
        found = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return {"true": True, "false": False}.get(text.lower(), text)
    return found if isinstance(found, str | int | float | list | dict) else text


def nest(flat: Mapping[str, Any]) -> Settings:
    """{"train.epochs": 40} as {"train": {"epochs": 40}, …}, every table present."""
    nested: Settings = {table: {} for table in TABLES}
    for name, value in flat.items():
        table, dot, key = name.partition(".")
        if table not in nested:
            raise errors.unknown("table of settings", table, TABLES)
        if not dot or not key:
            raise errors.BadInput(f"a setting is table.key, such as train.epochs; got {name!r}")
        nested[table][key] = value
    return nested


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What to tell a person whose run directory was made with other settings."""
    before, after = flatten(old), flatten(new)
    return [
        f"{name}: {before.get(name)!r} there, {after.get(name)!r} now"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def flatten(nested: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat
