"""A function's signature is its schema: which settings it takes, their types and defaults.

A setting belongs to one function, and that function's keyword-only parameters hold its only
default; its docstring says what it means, on a line "name: meaning". So a new method, net or
corruption needs no entry anywhere else."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from selfadapt import errors


def settings_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a function or class, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def meanings(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each setting, on a line "name: …" or "name, name: …"; indented
    lines go on."""
    found: dict[str, str] = {}
    for named, text in _told(function):
        found |= {name: f"{found[name]} {text}" if name in found else text for name in named}
    return found


def card(function: Callable[..., Any]) -> str:
    """The docstring without what it says of settings."""
    return "\n".join(text for named, text in _told(function) if not named).strip()


def _told(function: Callable[..., Any]) -> Iterator[tuple[list[str], str]]:
    """Each line of the docstring, with the settings that it is about."""
    known = settings_of(function)
    named: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        before, colon, text = line.partition(": ")
        if colon and known.keys() >= set(before.split(", ")):
            named = before.split(", ")
            yield named, text.strip()
        elif named and line.startswith(" "):
            yield named, line.strip()
        else:
            named = []
            yield named, line


def bind(
    function: Callable[..., Any], table: str, given: Mapping[str, Any], skip: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Every setting of `function`, given or default, checked: an unknown name or a wrong type is an
    error that names `table.key`."""
    known = {k: p for k, p in settings_of(function).items() if k not in skip}
    for name in given:
        if name not in known:
            raise errors.unknown(f"setting of {table}", name, known)
    types = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)
    resolved = {}
    for name, parameter in known.items():
        if name in given:
            resolved[name] = _checked(f"{table}.{name}", given[name], types.get(name, Any))
        elif parameter.default is inspect.Parameter.empty:
            raise errors.BadInput(f"{table}.{name} must be given: --set {table}.{name}=…")
        else:
            resolved[name] = parameter.default
    return resolved


def _checked(name: str, value: Any, kind: Any) -> Any:
    adapter = TypeAdapter(kind, config=ConfigDict(strict=True))
    # TOML has no null: "none" stands for it, unless the setting takes that text itself.
    for candidate in (value, None) if isinstance(value, str) and value == "none" else (value,):
        with contextlib.suppress(ValidationError):
            return adapter.validate_python(candidate)
    choices = [choice for one in _alternatives(kind) for choice in _choices(one)]
    near = difflib.get_close_matches(str(value).lower(), choices, n=1, cutoff=0.5)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    raise errors.BadInput(f"{name} must be {_in_words(kind)}; got {value!r}{hint}")


def _alternatives(kind: Any) -> Iterator[Any]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        for one in typing.get_args(kind):
            yield from _alternatives(one)
    else:
        yield kind


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(map(str, typing.get_args(kind))) if typing.get_origin(kind) is Literal else ()


_WORDS = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("text", "texts"),
    Path: ("a path", "paths"),
    types.NoneType: ("none", "none"),
}


def _in_words(kind: Any) -> str:
    """A type as a person would say it: "a number or none", "one of auto, fp32, bf16"."""
    kinds = list(_alternatives(kind))
    if float in kinds:
        kinds = [one for one in kinds if one is not int]
    choices = [choice for one in kinds for choice in _choices(one)]
    said = [f"one of {', '.join(choices)}"] if choices else []
    for one in kinds:
        if one in _WORDS:
            said.append(_WORDS[one][0])
        elif typing.get_origin(one) is list:
            inner = typing.get_args(one)[0]
            said.append(f"a list of {_WORDS[inner][1] if inner in _WORDS else inner}")
        elif not _choices(one):
            said.append(getattr(one, "__name__", str(one)))
    said.sort(key=lambda words: words == "none")
    return " or ".join(filter(None, (", ".join(said[:-1]), said[-1])))
