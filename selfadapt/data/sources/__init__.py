"""Named public data sets: one file each. A set is called by its file's name (fashion-mnist is
fashion_mnist.py), its docstring is its card, its `read` says where it comes from, and its `SIZE`
how large it is, for who wants to know that before it is read."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from selfadapt.data.part import Found, Wanted


class Size(NamedTuple):
    """Of a named set, as published."""

    train: int
    test: int
    shape: tuple[int, ...]  # of one sample as a net sees it
    classes: int
    comes_along: bool = False  # with a package: there are no files to look for


def names() -> dict[str, str]:
    """Every named set with its card."""
    return {name: inspect.getdoc(_module(name)) or "" for name in _names()}


def find(name: str) -> Callable[[Wanted], Found] | None:
    """The reader of a named set; None if there is none of this name."""
    if name.replace("_", "-") not in _names():
        return None
    reader: Callable[[Wanted], Found] = _module(name).read
    return reader


def size(name: str) -> Size | None:
    """How large a named set is; None if there is none of this name."""
    if find(name) is None:
        return None
    known: Size = _module(name).SIZE
    return known


def has_files(name: str) -> bool:
    """Whether there is a set of this name whose files lie somewhere."""
    known = size(name)
    return known is not None and not known.comes_along


def _names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
