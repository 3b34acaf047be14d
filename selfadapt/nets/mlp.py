"""The plainest net: for features, and for images so small that convolution gains little."""

from __future__ import annotations

import math

from torch import nn

from selfadapt.nets._checks import Shape, whole


def mlp(num_outputs: int, shape: Shape, *, width: int = 256) -> nn.Module:
    """Three fully connected layers with ReLU between them; for features and tiny images."""
    width = whole("width", width)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, num_outputs),
    )
