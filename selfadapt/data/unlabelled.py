"""Samples that a trained model is asked about: labels may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfadapt.data.images import open_images
from selfadapt.data.labelled import InMemory, Inputs
from selfadapt.data.part import Part, Progress, Wanted
from selfadapt.data.read import read_unlabelled
from selfadapt.errors import BadInput, unknown

_SETTINGS = ("label", "path", "id", "true", "root")


@dataclass(frozen=True)
class Unlabelled:
    inputs: Inputs
    ids: tuple[str, ...]
    id_name: str
    unreadable: Mapping[int, str]


def read_inputs(
    source: str | Path,
    shape: tuple[int, ...],
    reading: Mapping[str, Any],
    progress: Progress | None = None,
) -> Unlabelled:
    """The samples of any source `load` takes, in the shape of a model; reading: settings of `load`
    on its layout (label and true name columns that are no features)."""
    for name in reading:
        if name not in _SETTINGS:
            raise unknown("setting for reading samples: data.", name, _SETTINGS)
    root = reading.get("root")
    settings = {**reading, "root": None if root is None else Path(root).expanduser()}
    part = read_unlabelled(source, Wanted(**settings, progress=progress))
    inputs, unreadable = _opened(part, shape, progress)
    if inputs.shape != shape:
        raise BadInput(
            f"the model was trained on samples of shape {shape}, those of {source} have "
            f"{inputs.shape}"
        )
    return Unlabelled(inputs, tuple(part.ids), part.id_name, unreadable)


def _opened(
    part: Part, shape: tuple[int, ...], progress: Progress | None
) -> tuple[Inputs, dict[int, str]]:
    if isinstance(part.x, list):
        return open_images(part.x, shape[-1], progress, "reading images")
    return InMemory(torch.from_numpy(np.require(part.x, requirements=["C", "W"]))), {}
