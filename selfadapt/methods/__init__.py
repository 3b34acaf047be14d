"""Methods are found by their file's name; see method.py for the contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from selfadapt import errors, signatures
from selfadapt.methods.method import MakeNet, Method

__all__ = ["Method", "build", "names", "resolve"]


def names() -> dict[str, str]:
    """Every method of this folder with its card."""
    return {name: inspect.getdoc(resolve(name)) or "" for name in _files()}


def resolve(name: str) -> type[Method]:
    """The method of that name; `package.module:Class` names somebody else's."""
    if ":" in name:
        try:
            found: Any = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise errors.BadInput(f"method {name!r} cannot be imported: {error}") from error
        if not (inspect.isclass(found) and issubclass(found, Method)):
            raise errors.BadInput(f"{name!r} is not a selfadapt.methods.Method")
        theirs: type[Method] = found
        return theirs
    if name not in _files():
        raise errors.unknown("method", name, _files())
    module = importlib.import_module(f"{__name__}.{name}")
    ours = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Method)
        and value.__module__ == module.__name__
    ]
    return ours[0]


def _files() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if name != "method" and not name.startswith("_"))


def build(
    name: str, make_net: MakeNet, labels: Tensor, num_classes: int, settings: Mapping[str, Any]
) -> Method:
    cls = resolve(name)
    return cls(make_net, labels, num_classes, **signatures.bind(cls, "method", settings))
