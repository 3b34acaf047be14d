"""Methods are found by their file's name; see method.py for the contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from selfadapt import errors, signatures
from selfadapt.methods.method import MakeNet, Method, Stage, Stages, Validation

__all__ = ["Method", "Stage", "Stages", "Validation", "build", "names", "resolve", "stage_names"]


def names() -> dict[str, str]:
    """Every method of this folder with its card."""
    return {name: inspect.getdoc(resolve(name)) or "" for name in _files()}


def resolve(name: str) -> type[Method]:
    """The method of that name; `package.module:Class` names somebody else's."""
    file, _, of_file = name.partition(":")
    if of_file:
        place = f"{__name__}.{file}" if file in _files() else file
        try:
            found: Any = pkgutil.resolve_name(f"{place}:{of_file}")
        except (ImportError, AttributeError, ValueError) as error:
            raise errors.BadInput(f"method {name!r} cannot be imported: {error}") from error
        if not (inspect.isclass(found) and issubclass(found, Method)):
            raise errors.BadInput(f"{name!r} is not a selfadapt.methods.Method")
        theirs: type[Method] = found
        return theirs
    if name not in _files():
        raise errors.unknown("method", name, _files())
    return _classes(name)[-1]


def stage_names() -> list[str]:
    """The runs that come before those of methods with several stages: "forward:Estimate", …"""
    return [f"{name}:{cls.__name__}" for name in _files() for cls in _classes(name)[:-1]]


def _classes(file: str) -> list[type[Method]]:
    """A file's methods: its stages in order, and last the one that bears its name."""
    module = importlib.import_module(f"{__name__}.{file}")
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Method)
        and value.__module__ == module.__name__
    ]


def _files() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if name != "method" and not name.startswith("_"))


def build(
    name: str, make_net: MakeNet, labels: Tensor, num_classes: int, settings: Mapping[str, Any]
) -> Method:
    cls = resolve(name)
    return cls(make_net, labels, num_classes, **signatures.bind(cls, "method", settings))
