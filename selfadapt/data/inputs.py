"""Samples without labels, for a model that is trained already."""

from __future__ import annotations

from typing import Any

import torch

from selfadapt.data import arrays
from selfadapt.data.labelled import InMemory
from selfadapt.errors import BadInput


def as_inputs(x: Any, shape: tuple[int, ...]) -> InMemory:
    """An array (or tensor) of samples in one of the forms `load` takes, of a model's shape."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    inputs = InMemory(torch.from_numpy(arrays.samples(x, "x").copy()))
    if inputs.shape != shape:
        raise BadInput(
            f"the model was trained on samples of shape {shape} (channels first), "
            f"these have {inputs.shape}"
        )
    return inputs
