"""Named public data sets: one file each. A set is called by its file's name (fashion-mnist is
fashion_mnist.py), its docstring is its card, and its `read` says where it comes from."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType

from selfadapt.data.part import Found, Wanted


def names() -> dict[str, str]:
    """Every named set with its card."""
    return {name: inspect.getdoc(_module(name)) or "" for name in _names()}


def find(name: str) -> Callable[[Wanted], Found] | None:
    """The reader of a named set; None if there is none of this name."""
    if name.replace("_", "-") not in _names():
        return None
    reader: Callable[[Wanted], Found] = _module(name).read
    return reader


def _names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
