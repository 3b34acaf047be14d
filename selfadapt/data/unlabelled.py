"""Samples that a trained model is asked about: labels may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from selfadapt.data import arrays
from selfadapt.data.images import as_tensor, open_images
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

    def readable(self, name: str | Path) -> NDArray[np.int64]:
        """The rows that could be read, of which there must be some."""
        rows = np.setdiff1d(np.arange(len(self.ids)), np.array(list(self.unreadable), np.int64))
        if not len(rows):
            raise BadInput(f"of the {len(self.ids):,} samples in {name} none could be read")
        return rows


def read_inputs(
    source: str | Path,
    shape: tuple[int, ...],
    reading: Mapping[str, Any],
    progress: Progress | None = None,
    features: Sequence[str] | None = None,
) -> Unlabelled:
    """The samples of any source `load` takes, in the shape of a model; reading: settings of `load`
    on its layout (label and true name columns that are no features); features: the columns that the
    model was trained on, if it was on a table."""
    for name in reading:
        if name not in _SETTINGS:
            raise unknown("setting for reading samples: data.", name, _SETTINGS)
    root = reading.get("root")
    settings = {**reading, "root": None if root is None else Path(root).expanduser()}
    names = tuple(features) if features else None
    part = read_unlabelled(source, Wanted(**settings, progress=progress, features=names))
    inputs, unreadable = _opened(part, shape, progress)
    _check_shape(inputs, shape, str(source))
    return Unlabelled(inputs, tuple(part.ids), part.id_name, unreadable)


def as_inputs(x: Any, shape: tuple[int, ...]) -> Inputs:
    """An array (or tensor) of samples in one of the forms `load` takes, in the shape of a model."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    inputs = InMemory(as_tensor(arrays.samples(x, "x"), _side(shape)))
    _check_shape(inputs, shape, "x")
    return inputs


def _opened(
    part: Part, shape: tuple[int, ...], progress: Progress | None
) -> tuple[Inputs, dict[int, str]]:
    if isinstance(part.x, list):
        return open_images(part.x, shape[-1], progress, "reading images")
    return InMemory(as_tensor(part.x, _side(shape))), {}


def _side(shape: tuple[int, ...]) -> int:
    """What images are scaled to; 0 for a model that does not take squares."""
    return shape[-1] if len(shape) == 3 and shape[-1] == shape[-2] else 0


def _check_shape(inputs: Inputs, shape: tuple[int, ...], where: str) -> None:
    if inputs.shape != shape:
        first = " (channels first)" if len(shape) == 3 else ""
        raise BadInput(
            f"the model was trained on samples of shape {shape}{first}, those of {where} have "
            f"{inputs.shape}"
        )
