"""A function's signature is its schema: which settings it takes, their types and defaults.

A setting belongs to one function, and that function's keyword-only parameters hold its only
default. So a new method, net or corruption needs no entry anywhere else."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from selfadapt import errors


def settings_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a function or class, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


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
    expected = getattr(kind, "__name__", None) if inspect.isclass(kind) else None
    text = expected or str(kind).replace("typing.", "")
    raise errors.BadInput(f"{name} must be of type {text}, got {value!r}")
