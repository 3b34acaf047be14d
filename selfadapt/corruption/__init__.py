"""Corruptions by name: of labels (labels.py) and of images (images.py). A public function of either
file is a kind, and its name the function's; `module:function` names somebody else's. A function
whose first parameter is called `labels` changes labels; any other makes `ImageNoise`."""

from __future__ import annotations

import hashlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfadapt.corruption import images, labels
from selfadapt.corruption.images import ImageNoise
from selfadapt.errors import BadInput, unknown

__all__ = ["Corruption", "ImageNoise", "changes_labels", "fingerprint", "names", "resolve"]

IntArray = NDArray[np.int64]
Corruption = Callable[..., Any]


def names() -> dict[str, str]:
    """Every kind with its card."""
    return {name: inspect.getdoc(function) or "" for name, function in _ours().items()}


def resolve(name: str) -> Corruption:
    if ":" in name:
        try:
            theirs = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise BadInput(f"corruption {name!r} cannot be imported: {error}") from error
        if not callable(theirs):
            raise BadInput(f"corruption {name!r} is not a function")
        found: Corruption = theirs
        return found
    if name not in _ours():
        raise unknown("corruption", name, _ours())
    return _ours()[name]


def changes_labels(corruption: Corruption) -> bool:
    return next(iter(inspect.signature(corruption).parameters), "") == "labels"


def fingerprint(values: NDArray[Any]) -> str:
    """A sha256 of the label vector: two runs with the same one saw the same noise."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<i8").tobytes()).hexdigest()


def _ours() -> dict[str, Corruption]:
    return {
        name: value
        for module in (labels, images)
        for name, value in vars(module).items()
        if _is_kind(name, value, module)
    }


def _is_kind(name: str, value: Any, module: ModuleType) -> bool:
    here = inspect.isfunction(value) and value.__module__ == module.__name__
    return here and not name.startswith("_")
