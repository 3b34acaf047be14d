"""Nets that are not ours: the user's modules and functions, timm, torchvision."""

from __future__ import annotations

import copy
import difflib
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from selfadapt.errors import BadInput, UnknownName, unknown
from selfadapt.nets._checks import Shape

Factory = Callable[..., nn.Module]


def given(net: nn.Module) -> Factory:
    """The module itself the first time it is asked for, copies of it from then on."""
    asked = False

    def factory(num_outputs: int, shape: Shape) -> nn.Module:
        nonlocal asked
        if not asked:
            asked = True
            return net
        warnings.warn(
            f"a second net was asked for, and net= is one {type(net).__name__} object: the second "
            "is a copy and starts from the same weights. Give a function to have them differ.",
            stacklevel=3,
        )
        return copy.deepcopy(net)

    return factory


def imported(spec: str) -> object:
    """What `module:name` stands for; modules in the current folder are found too."""
    module_name, _, name = spec.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), *name.split(".")]):
        raise BadInput(f"net {spec!r} is not of the form module:function, as in my_nets:make.")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise BadInput(f"net {spec!r}: cannot import {module_name!r} ({error}).") from error
    try:
        return pkgutil.resolve_name(spec)
    except AttributeError:
        there = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise unknown(f"net in {module_name}", name, there) from None


def from_timm(name: str) -> Factory:
    timm: Any = _library("timm", f"timm:{name}")
    # A name with a colon of its own is an address (hf-hub:owner/name), which timm itself reads.
    if ":" not in name and not timm.is_model(name):
        raise _unknown_there("timm", name, timm.list_models())

    def factory(num_outputs: int, shape: Shape, **options: object) -> nn.Module:
        return _built(
            f"timm:{name}",
            lambda: timm.create_model(name, num_classes=num_outputs, in_chans=shape[0], **options),
        )

    return factory


def from_torchvision(name: str) -> Factory:
    models: Any = _library("torchvision", f"torchvision:{name}", "torchvision.models")
    if name not in models.list_models(module=models):
        raise _unknown_there("torchvision", name, models.list_models(module=models))

    def factory(num_outputs: int, shape: Shape, **options: object) -> nn.Module:
        return _built(
            f"torchvision:{name}",
            lambda: models.get_model(name, num_classes=num_outputs, **options),
        )

    return factory


def _library(package: str, spec: str, module: str | None = None) -> ModuleType:
    try:
        return importlib.import_module(module or package)
    except ModuleNotFoundError as error:
        if error.name in (package, module):
            raise BadInput(
                f"net {spec!r} needs {package}, which is not installed: pip install {package}"
            ) from None
        raise _does_not_load(package, spec, error) from error
    except Exception as error:  # a torchvision built for another torch fails in many ways
        raise _does_not_load(package, spec, error) from error


def _does_not_load(package: str, spec: str, error: Exception) -> BadInput:
    return BadInput(
        f"net {spec!r}: {package} is installed but does not load ({error}). Install torchvision"
        f"{'' if package == 'torchvision' else ' and ' + package} in the build that belongs to "
        f"torch {torch.__version__}."
    )


def _unknown_there(package: str, name: str, known: Iterable[str]) -> UnknownName:
    near = difflib.get_close_matches(name, list(known), n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UnknownName(f"{package} has no net {name!r}.{hint}")


def _built(spec: str, build: Callable[[], nn.Module]) -> nn.Module:
    try:
        return build()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInput(f"net {spec!r} cannot be built with these settings: {error}") from error
